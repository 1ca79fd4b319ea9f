"""Downloads: an answer as a file, with the columns of ``degroot ask --output`` and the features before them."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from degroot.answers.columns import BOUNDS, Columns
from degroot.answers.flags import MISSING
from degroot.answers.frame import FLAGS
from degroot.exceptions import InvalidInput
from degroot.node.page.answers import Answer
from degroot.node.page.encoding import encoded, number
from degroot.node.page.fields import readable_columns
from degroot.schema import NUMBER

KINDS = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet", "json": "application/json"}
FIELDS = ("value", "standard_error", *BOUNDS, "weights", MISSING, FLAGS)
TOGETHER = 100  # rows of JSON that are encoded at once: others wait for that


TARGET, UNIT = "target", "unit"  # columns that say what the answers are of, where there is a schema


def table(answer: Answer) -> pa.Table:
    """All columns. A feature that has the name of another column is called ``point_`` and its name."""
    front = answer.front
    told = (FLAGS, MISSING)
    known = tuple(name for name in FIELDS if name in told or getattr(front, name) is not None)
    columns = Columns(known, front.names, answer.outputs)
    about = _describe_target(answer)
    taken = {*columns.schema.names, *about}
    features = [f"point_{name}" if name in taken else name for name in answer.features]
    constant = [pa.array([text] * len(answer.points)) for text in about.values()]
    names = [*features, *about, *columns.schema.names]
    return pa.table([*_points(answer), *constant, *columns.arrays(front)], names=names)


def _points(answer: Answer) -> list[pa.Array]:
    """The points, a column each: by the schema texts, dates and gaps as people write them."""
    if answer.schema is None:
        return [pa.array(np.ascontiguousarray(column)) for column in answer.points.T]
    kinds = [pa.float64() if column.kind == NUMBER else pa.string() for column in answer.schema.columns]
    found = readable_columns(answer.points, answer.schema)
    return [pa.array(values, kind) for values, kind in zip(found, kinds, strict=True)]


def _describe_target(answer: Answer) -> dict[str, str]:
    """The target and its unit, as far as they are known."""
    target = None if answer.schema is None else answer.schema.target
    if target is None:
        return {}
    return {TARGET: target.name} | ({UNIT: target.unit} if target.unit else {})


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
