"""Data files: an organisation's rows, points to ask about, and the answers. CSV, Parquet, Arrow and npz."""

from degroot.datafiles.extents import Extent, TooLarge
from degroot.datafiles.rows import Points, Rows, load, points, write_answers
from degroot.datafiles.source import DataSource, data_source
from degroot.settings import PEERS, STANDARDISE

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
