"""Collectives on disk: one TOML file written by hand, or a folder with models, rows and residuals.
Imports the layers below only."""

from degroot.saved.loading import Saved, digest, load, member, stamp, verify
from degroot.saved.saving import save

__all__ = ["Saved", "digest", "load", "member", "save", "stamp", "verify"]
