"""Messages of an Arrow file or stream: what they say of their rows, without unpacking these."""

import struct
from pathlib import Path
from typing import Any

import pyarrow as pa

MAGIC = b"ARROW1\0\0"  # a file is a stream after that, with an index at its end
TYPE, HEADER = 1, 2  # fields of a message
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
    kind_at, header_at = _field(data, root, TYPE), _field(data, root, HEADER)
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
