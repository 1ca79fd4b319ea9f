"""Data files: an organisation's rows, points to ask about, and the answers. CSV, Parquet, Arrow and npz."""

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
