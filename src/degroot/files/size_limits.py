"""Size limits: how much a file holds, as its headers say, before it is read. A small file may hold very much."""

import io
import math
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from degroot.exceptions import InvalidInput
from degroot.files.csv_rows import BLOCK, row_ends

MAGIC = b"ARROW1\0\0"  # a file is a stream after that, with an index at its end
TYPE, MESSAGE_HEADER = 1, 2  # fields of a message
DICTIONARY, RECORDS = 2, 3  # types of messages
DATA = 1  # a field of dictionaries: their records
LENGTH, BUFFERS, COMPRESSION = 0, 2, 3  # fields of records


def arrow_extent(path: Path) -> tuple[int, int, int]:
    """How many rows, columns and, when unpacked, bytes there are."""
    rows = unpacked = 0
    with path.open("rb") as file:
        file.seek(len(MAGIC) if file.read(len(MAGIC)) == MAGIC else 0)
        messages = pa.ipc.MessageReader.open_stream(file)
        columns = len(pa.ipc.read_schema(messages.read_next_message()))
        for message in messages:
            count, size = _measured(message)
            rows, unpacked = rows + count, unpacked + size
    return rows, columns, unpacked


def _measured(message: Any) -> tuple[int, int]:
    """The rows of a message, and its bytes when unpacked."""
    data = message.metadata.to_pybytes()
    root = _followed(data, 0)
    kind_at, header_at = _field(data, root, TYPE), _field(data, root, MESSAGE_HEADER)
    kind = data[kind_at] if kind_at else 0
    if kind not in (DICTIONARY, RECORDS) or not header_at:
        return 0, 0
    records = _followed(data, header_at)
    if kind == DICTIONARY:
        records = _followed(data, _field(data, records, DATA))
    length_at = _field(data, records, LENGTH)
    rows = struct.unpack_from("<q", data, length_at)[0] if length_at and kind == RECORDS else 0
    return rows, _unpacked(data, records, message.body)


def _unpacked(data: bytes, records: int, body: Any) -> int:
    """Bytes of the buffers: a compressed one begins with how many there will be, -1: it is as it is."""
    if not _field(data, records, COMPRESSION):
        return int(body.size)
    content, sizes = memoryview(body), []
    vector = _followed(data, _field(data, records, BUFFERS))
    (count,) = struct.unpack_from("<I", data, vector)
    for k in range(count):
        start, length = struct.unpack_from("<qq", data, vector + 4 + 16 * k)
        size = struct.unpack_from("<q", content, start)[0] if length else 0
        sizes.append(length if size < 0 else size)
    return sum(sizes)


def _followed(data: bytes, at: int) -> int:
    """Where the offset that stands there leads. (The format is that of flatbuffers.)"""
    return at + int(struct.unpack_from("<I", data, at)[0])


def _field(data: bytes, table: int, number: int) -> int:
    """Where a field of a table is; 0: it is not there."""
    layout = table - struct.unpack_from("<i", data, table)[0]
    place = 4 + 2 * number
    if place >= struct.unpack_from("<H", data, layout)[0]:
        return 0
    offset = struct.unpack_from("<H", data, layout + place)[0]
    return table + int(offset) if offset else 0


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
