"""The configuration of a node: one TOML file, read, checked and written.
Imports other packages of the node and the layers below."""

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
from degroot.node.config.template import LISTEN, template

__all__ = [
    "ANSWER_DAYS",
    "ASK",
    "CLIENT_RIGHTS",
    "COPY",
    "GRANTS",
    "INTERVAL",
    "LISTEN",
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
    "template",
]
