"""The configuration of a node: one TOML file."""

from degroot.datafiles import DataSource
from degroot.models import ModelSource
from degroot.node.configuration.entries import (
    ASK,
    CALIBRATE,
    CLIENT_RIGHTS,
    ON_DEMAND,
    OPINION,
    QUERY,
    RIGHTS,
    Client,
    Configuration,
    IdentityFiles,
    Limits,
    Page,
    Peer,
    Settings,
    Timing,
)
from degroot.node.configuration.reading import LISTEN, read, template

__all__ = [
    "ASK",
    "CALIBRATE",
    "CLIENT_RIGHTS",
    "LISTEN",
    "ON_DEMAND",
    "OPINION",
    "QUERY",
    "RIGHTS",
    "Client",
    "Configuration",
    "DataSource",
    "IdentityFiles",
    "Limits",
    "ModelSource",
    "Page",
    "Peer",
    "Settings",
    "Timing",
    "read",
    "template",
]
