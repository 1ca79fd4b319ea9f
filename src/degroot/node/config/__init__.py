"""The configuration of a node: one TOML file, read, checked and written.
Imports other packages of the node and the layers below."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from degroot.files import DataSource
    from degroot.models import ModelSource
    from degroot.node.config.entries import (
        ANSWER_DAYS,
        ASK,
        CLIENT_RIGHTS,
        COPY,
        GRANTS,
        INTERVAL,
        MAPS,
        OPINION,
        OWN,
        POOLED,
        QUERY,
        RIGHTS,
        Client,
        Configuration,
        IdentityFiles,
        Limits,
        MetricsAddress,
        NodeSettings,
        Page,
        Peer,
        Timing,
    )
    from degroot.node.config.reading import read

__all__ = [
    "ANSWER_DAYS",
    "ASK",
    "CLIENT_RIGHTS",
    "COPY",
    "GRANTS",
    "INTERVAL",
    "MAPS",
    "OPINION",
    "OWN",
    "POOLED",
    "QUERY",
    "RIGHTS",
    "Client",
    "Configuration",
    "DataSource",
    "IdentityFiles",
    "Limits",
    "MetricsAddress",
    "ModelSource",
    "NodeSettings",
    "Page",
    "Peer",
    "Timing",
    "read",
]

HOMES = {"DataSource": "files.source", "ModelSource": "models.source", "read": "node.config.reading"}


def __getattr__(name: str) -> Any:
    """A name, imported on first use: files of keys are read without a configuration."""
    if name in __all__:
        return getattr(import_module(f"degroot.{HOMES.get(name, 'node.config.entries')}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
