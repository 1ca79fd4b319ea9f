"""Files: tables of rows in CSV, Parquet, Arrow and npz, TOML documents, arrays, locks and atomic writing.
Imports schema, compute and exceptions only."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from degroot.files.source import PEERS, STANDARDISE, DataSource, data_source

if TYPE_CHECKING:
    from degroot.files.rows import Points, Rows, load, points, write_answers
    from degroot.files.size_limits import Extent, TooLarge

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


def __getattr__(name: str) -> Any:
    """What reads and writes data files, imported on first use: it needs pyarrow, which the library alone does not."""
    if name in __all__:
        module = "size_limits" if name in ("Extent", "TooLarge") else "rows"
        return getattr(import_module(f"degroot.files.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
