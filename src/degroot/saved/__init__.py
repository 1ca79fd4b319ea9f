"""Collectives in files: written by hand as one TOML file, or saved whole in a folder with residuals and all."""

from degroot.saved.reading import Saved, load

__all__ = ["Saved", "load"]
