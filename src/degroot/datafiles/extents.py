"""Extents: how much a file holds, as its headers say, before it is read. A small file may hold very much."""

import io
import math
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.parquet

from degroot.datafiles.lines import BLOCK, row_ends
from degroot.datafiles.messages import arrow_extent
from degroot.exceptions import InvalidInput

WIDTH = 8  # bytes of a number
HEADER = 1 << 16  # bytes within which the header of an array ends


class Extent(NamedTuple):
    """How much a file holds, or may hold."""

    rows: int
    columns: int
    bytes: int  # when it is unpacked


class TooLarge(InvalidInput):
    """A file holds more than is taken."""


def check_extent(path: Path, most: Extent) -> None:
    """Refuse a file that holds more than that; nothing of it is unpacked."""
    measure = MEASURES.get(path.suffix.lower())
    if measure is None:
        return
    for name, limit, held in zip(Extent._fields, most, measure(path), strict=True):
        if held > limit:
            raise TooLarge(f"{path} must hold at most {limit} {name}; it holds {held}.")


def _of_csv(path: Path) -> Extent:
    with path.open("rb") as file:
        columns = file.readline(BLOCK).count(b",") + 1
    return Extent(sum(rows for rows, _ in row_ends(path)) - 1, columns, path.stat().st_size)


def _of_parquet(path: Path) -> Extent:
    with pyarrow.parquet.ParquetFile(path) as file:
        told = file.metadata
    groups = [told.row_group(k) for k in range(told.num_row_groups)]
    rows, unpacked = sum(group.num_rows for group in groups), sum(group.total_byte_size for group in groups)
    return Extent(rows, told.num_columns, max(unpacked, rows * told.num_columns * WIDTH))


def _of_arrow(path: Path) -> Extent:
    return Extent(*arrow_extent(path))


def _of_npz(path: Path) -> Extent:
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        unpacked = sum(member.file_size for member in members)
        arrays = [_of_array(archive, member) for member in members if member.filename.endswith(".npy")]
    return Extent(
        max((each.rows for each in arrays), default=0), sum(each.columns for each in arrays),
        max(unpacked, sum(each.bytes for each in arrays)),
    )  # fmt: skip


def _of_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Extent:
    with archive.open(member) as file:
        begin = io.BytesIO(file.read(HEADER))
    first = np.lib.format.read_magic(begin) == (1, 0)
    shape, _, dtype = (np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0)(begin)
    sides = [max(side, 1) for side in shape]  # no side is nothing: what has no rows may still have many columns
    columns = math.prod(sides[1:])
    return Extent(shape[0] if shape else 0, columns, math.prod(sides) * max(dtype.itemsize, 1))


MEASURES: dict[str, Callable[[Path], Extent]] = {
    ".csv": _of_csv, ".npz": _of_npz, ".parquet": _of_parquet, ".pq": _of_parquet,
    ".arrow": _of_arrow, ".feather": _of_arrow, ".ipc": _of_arrow,
}  # fmt: skip
