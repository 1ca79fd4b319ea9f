"""Tables that Arrow reads: the columns of CSV, Parquet and Arrow files."""

from collections import Counter, deque
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from degroot.exceptions import InvalidInput
from degroot.files.columns import duplicate_column_error
from degroot.files.csv_rows import check_header, check_text, row_ends
from degroot.files.native import open_native

INDEX = "__index_level_"  # how pandas calls a column that is none


def read_csv(path: Path, labels: Collection[str]) -> dict[str, pa.ChunkedArray]:
    """The columns of a CSV file; `labels` stay text."""
    if not path.stat().st_size:
        raise InvalidInput(f"{path} must hold at least one row; it is empty.")
    check_header(path)
    check_text(path)
    deque(row_ends(path), 0)  # which refuses a quote that is never closed
    options = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(labels, pa.string()))
    parsing = pyarrow.csv.ParseOptions(newlines_in_values=True)
    with open_native(path) as file:
        try:
            table = pyarrow.csv.read_csv(file, parse_options=parsing, convert_options=options)
        except pa.ArrowInvalid:
            _check_fields(path)
            raise
    return _from_table(table, path)


def _check_fields(path: Path) -> None:
    """Refuse a row that has another number of fields than the header."""
    wrong: list[Any] = []

    def note(row: Any) -> str:
        wrong.append(row)
        return "skip"

    parsing = pyarrow.csv.ParseOptions(newlines_in_values=True, invalid_row_handler=note)
    with open_native(path) as file:  # by one thread, which knows the numbers of rows
        pyarrow.csv.read_csv(file, pyarrow.csv.ReadOptions(use_threads=False), parsing)
    if wrong:
        raise InvalidInput(
            f"{path}: row {wrong[0].number - 1} must have as many fields as the header; expected "
            f"{wrong[0].expected_columns} fields, got {wrong[0].actual_columns}. A field with a comma in it stands in "
            "quotes."
        )


def read_parquet(path: Path) -> dict[str, pa.ChunkedArray]:
    """The columns of a Parquet file."""
    with open_native(path) as file:
        return _from_table(pyarrow.parquet.read_table(file), path)


def read_arrow(path: Path) -> dict[str, pa.ChunkedArray]:
    """The columns of an Arrow file."""
    with open_native(path) as file:
        try:
            return _from_table(pa.ipc.open_file(file).read_all(), path)
        except pa.ArrowInvalid:  # the form of streams
            file.seek(0)
            return _from_table(pa.ipc.open_stream(file).read_all(), path)


def _from_table(table: pa.Table, path: Path) -> dict[str, pa.ChunkedArray]:
    names = [name for name in table.column_names if not name.startswith(INDEX)]
    for name, count in Counter(names).items():
        if count > 1:
            raise duplicate_column_error(path, name)
    return {name: table.column(name) for name in names}


def write_columns(columns: Mapping[str, Any], kind: str) -> bytes:
    """Columns as a ``.csv`` or ``.parquet`` file."""
    table, content = pa.table({name: pa.array(values) for name, values in columns.items()}), pa.BufferOutputStream()
    (pyarrow.csv.write_csv if kind == ".csv" else pyarrow.parquet.write_table)(table, content)
    return bytes(content.getvalue().to_pybytes())
