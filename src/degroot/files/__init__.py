"""Files: tables of rows in CSV, Parquet, Arrow and npz, TOML documents, arrays, locks and atomic writing.
Imports schema, compute and exceptions only."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from degroot.files.rows import Points, Rows, load, points, write_answers
    from degroot.files.size_limits import Extent, TooLarge
    from degroot.files.source import PEERS, STANDARDISE, DataSource, data_source

__all__ = [
    "PEERS",
    "STANDARDISE",
    "DataSource",
    "Extent",
    "Points",
    "Rows",
    "TooLarge",
    "data_source",
    "load",
    "points",
    "write_answers",
]

HOMES = {
    "rows": ("Points", "Rows", "load", "points", "write_answers"),
    "size_limits": ("Extent", "TooLarge"),
    "source": ("PEERS", "STANDARDISE", "DataSource", "data_source"),
}  # where each name comes from


def __getattr__(name: str) -> Any:
    """A name, imported on first use: writing a file takes no tables."""
    for home, names in HOMES.items():
        if name in names:
            return getattr(import_module(f"degroot.files.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
