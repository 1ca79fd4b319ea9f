"""Downloads: an answer as a file, with the columns of ``degroot ask --output`` and the features before them."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from degroot.answers.flags import MISSING
from degroot.answers.frame import FLAGS
from degroot.batch.columns import BOUNDS, Columns
from degroot.exceptions import InvalidInput
from degroot.node.page.answers import Answer
from degroot.node.page.encoding import encoded, number

KINDS = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet", "json": "application/json"}
FIELDS = ("value", "standard_error", *BOUNDS, "weights", MISSING, FLAGS)
TOGETHER = 100  # rows of JSON that are encoded at once: others wait for that


def table(answer: Answer) -> pa.Table:
    """All columns. A feature that has the name of another column is called ``point_`` and its name."""
    front = answer.front
    told = (FLAGS, MISSING)
    known = tuple(name for name in FIELDS if name in told or getattr(front, name) is not None)
    columns = Columns(known, front.names, answer.outputs)
    taken = set(columns.schema.names)
    features = [f"point_{name}" if name in taken else name for name in answer.features]
    points = [pa.array(np.ascontiguousarray(column)) for column in answer.points.T]
    return pa.table([*points, *columns.arrays(front)], names=[*features, *columns.schema.names])


def write_download(answer: Answer, kind: str) -> bytes:
    """The content of a CSV or Parquet file."""
    content = pa.BufferOutputStream()
    writers = {"csv": pyarrow.csv.write_csv, "parquet": pyarrow.parquet.write_table}
    writers[kind](table(answer), content)
    return bytes(content.getvalue().to_pybytes())


def lines(answer: Answer) -> Iterator[bytes]:
    """The content of a JSON file, a list with an object for each row, piece by piece."""
    before = b"[\n"
    for batch in table(answer).to_batches(max_chunksize=TOGETHER):
        rows = ({name: _as_json_number(value) for name, value in row.items()} for row in batch.to_pylist())
        yield before + b",\n".join(map(encoded, rows))
        before = b",\n"
    yield b"\n]\n"


def check_kind(kind: str) -> None:
    """Refuse what is no kind of file."""
    if kind not in KINDS:
        raise InvalidInput(f"`format` must be one of {', '.join(KINDS)}; got {kind[:100]!r}.")


def _as_json_number(value: Any) -> Any:
    return number(value) if isinstance(value, float) else value
