"""Collectives in files: written by hand as one TOML file, or saved whole in a folder with residuals and all."""

from degroot.saved.loading import Saved, digest, load, member, stamp, verify
from degroot.saved.saving import save

__all__ = ["Saved", "digest", "load", "member", "save", "stamp", "verify"]
