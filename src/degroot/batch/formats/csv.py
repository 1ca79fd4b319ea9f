"""CSV files: text, cut where rows end."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from degroot.batch import shards
from degroot.batch.shards import Shard
from degroot.exceptions import InvalidInput
from degroot.files.csv_rows import check_header, describe_encoding, row_ends
from degroot.files.native import copy_native, open_native


class CsvFile:
    """A CSV file with a header. A shard is a run of bytes, so that it can be read by itself."""

    def __init__(self, path: Path) -> None:
        self._path = path
        check_header(path)
        self._body = next(row_ends(path, 1), (0, 0))[1]  # where the header ends
        with path.open("rb") as file:
            header = file.read(self._body)
        if not header.strip():
            raise InvalidInput(f"{path} must hold a header and at least one row; it is empty.")
        self.schema = pa.schema([(name, pa.string()) for name in _header(header)])

    def spans(self, size: int, _names: Sequence[str]) -> Iterator[tuple[int, int, int]]:
        """Runs of at most `size` rows, with their bytes."""
        start = self._body
        for rows, stop in row_ends(self._path, size, start, shards.BYTES):
            yield rows, start, stop
            start = stop

    def read(self, shard: Shard, names: Sequence[str], text: Sequence[str]) -> pa.Table:
        """These columns of a shard: numbers, or text where any is none; those in `text` always."""
        with open_native(self._path) as file:
            file.seek(shard.start)
            content = file.read_buffer(shard.stop - shard.start)
        wrong: list[Any] = []
        try:
            table = _numbers_or_text(partial(_parsed, content, self.schema.names, wrong), names, text)
        except pa.ArrowInvalid as error:
            if not wrong:
                _check_text(content, shard)
                raise
            raise InvalidInput(_miscounted(shard, wrong[0])) from error
        if table.num_rows != shard.rows:
            raise ValueError(f"it must have {shard.rows} rows, as when they were counted; it has {table.num_rows}")
        return table


def _header(line: bytes) -> list[str]:
    names: list[str] = pyarrow.csv.read_csv(copy_native(line + b"\n")).column_names
    return names


def _numbers_or_text(
    parsed: Callable[[dict[str, pa.DataType]], pa.Table], names: Sequence[str], text: Sequence[str]
) -> pa.Table:
    try:
        return parsed({name: pa.string() if name in text else pa.float64() for name in names})
    except pa.ArrowInvalid:  # something is no number
        return parsed(dict.fromkeys(names, pa.string()))


def _parsed(content: pa.Buffer, names: list[str], wrong: list[Any], types: dict[str, pa.DataType]) -> pa.Table:
    """The columns that have types; a row with another number of columns goes to `wrong`, and is an error."""

    def note(row: Any) -> str:
        wrong.append(row)
        return "error"

    return pyarrow.csv.read_csv(
        content,
        pyarrow.csv.ReadOptions(column_names=names, use_threads=False, block_size=content.size + 1),
        pyarrow.csv.ParseOptions(newlines_in_values=True, invalid_row_handler=note),
        pyarrow.csv.ConvertOptions(column_types=types, include_columns=list(types), strings_can_be_null=False),
    )


def _check_text(content: pa.Buffer, shard: Shard) -> None:
    try:
        str(memoryview(content), "utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInput(describe_encoding(f"One of {shard}")) from error


def _miscounted(shard: Shard, row: Any) -> str:
    return (
        f"Every row must have {row.expected_columns} columns, as the header has; "
        f"{shard.row(row.number - 1)} has {row.actual_columns}."
    )
