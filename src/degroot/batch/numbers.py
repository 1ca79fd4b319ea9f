"""Numbers: the features of rows as an array, whatever the columns hold."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from degroot.compute.compiled import Array
from degroot.files.arrow_columns import cast_floats, parse_numbers
from degroot.files.plain_csv import ARROW_GAPS


def is_number(kind: pa.DataType) -> bool:
    """Whether a column of that type can be a feature."""
    if pa.types.is_dictionary(kind):
        return is_number(kind.value_type)
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal, pa.types.is_null)
    return any(test(kind) for test in tests)


def numbers(table: pa.Table, names: Sequence[str]) -> Array:
    """These columns, (m, d); NaN where a value is missing, infinity for a text that is no number."""
    X = np.empty((table.num_rows, len(names)))
    for k, name in enumerate(names):
        X[:, k] = _floats(table.column(name)).to_numpy()
    return X


def strange(entry: pa.Scalar, value: float) -> Any:
    """What stands where there should be a finite number, in words."""
    if pa.types.is_string(entry.type) and entry.as_py():
        return repr(entry.as_py())
    return "missing" if not entry.is_valid or entry.as_py() == "" else "NaN" if np.isnan(value) else value


def _floats(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_string(column.type):
        column = parse_numbers(column, ARROW_GAPS)  # as `degroot.files.points` has them
    return cast_floats(column)
