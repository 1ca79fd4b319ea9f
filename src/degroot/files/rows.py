"""Rows in data files: an organisation's, points to ask about, and the answers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from degroot.compute.compiled import Array
from degroot.exceptions import InvalidInput
from degroot.files.atomic import save
from degroot.files.columns import Columns, as_texts, listed, missing_column_error, read_columns, read_numbers
from degroot.files.size_limits import Extent
from degroot.files.source import DataSource


@dataclass(frozen=True, slots=True)
class Rows:
    """An organisation's rows."""

    X: Array  # (m, d)
    y: NDArray[Any]  # (m,) or (m, Q); labels where there are classes
    own: Array | str | None  # out-of-fold predictions, "peers", or nothing
    names: tuple[str, ...]  # of the d features
    units: NDArray[Any] | None = None  # (m,) labels as text: whose row it is


@dataclass(frozen=True, slots=True)
class Points:
    """Points to ask about."""

    X: Array  # (M, d)
    ignored: tuple[str, ...]  # columns that are no features


def load(source: DataSource, features: Sequence[str] | None = None, *, gaps: bool = False) -> Rows:
    """The rows in the file: the target, own predictions and units if there are any, and these features, or all others.

    With `gaps` features may be missing: NaN.
    """
    labels = source.target if source.classes is not None and isinstance(source.classes[0], str) else ()
    units = () if source.units is None else (source.units,)
    columns = read_columns(source.file, (*labels, *units))
    own = () if source.own_predictions is None or isinstance(source.own_predictions, str) else source.own_predictions
    for name in (*source.target, *own, *units, *(features or ())):
        if name not in columns:
            raise missing_column_error(source.file, name, columns)
    names = tuple(features or (name for name in columns if name not in (*source.target, *own, *units)))
    if not names:
        raise InvalidInput(f"{source.file} must have features beside the target; its columns are {listed(columns)}.")
    if source.units in names:
        raise InvalidInput(f"The units of {source.file} must be no feature; {source.units!r} is among the features.")
    X, y = read_numbers(columns, names, source.file, gaps=gaps), _target(columns, source)
    if source.own_predictions is None or isinstance(source.own_predictions, str):
        return Rows(X, y, source.own_predictions, names, _units(columns, source))
    return Rows(X, y, _outputs(columns, own, source.file), names, _units(columns, source))


def points(path: Path, names: Sequence[str], *, gaps: bool = False, most: Extent | None = None) -> Points:
    """The points in the file: the columns with these names, in this order. Others are ignored.

    With `gaps` features may be missing: NaN. A file that holds more than `most` is refused, and not read.
    """
    columns = read_columns(path, most=most)
    missing = [name for name in names if name not in columns]
    if missing:
        raise InvalidInput(
            f"{path} must have all features of the collective; missing: {listed(missing)}. "
            f"Its columns are {listed(columns)}."
        )
    return Points(read_numbers(columns, names, path, gaps=gaps), tuple(name for name in columns if name not in names))


def write_answers(path: Path, columns: Mapping[str, Any]) -> None:
    """Write the columns to a .csv or .parquet file: all of it or, if that fails, nothing."""
    writers: dict[str, Callable[[pa.Table, Any], None]] = {
        ".csv": pyarrow.csv.write_csv, ".parquet": pyarrow.parquet.write_table,
    }  # fmt: skip
    writer = writers.get(path.suffix.lower())
    if writer is None:
        raise InvalidInput(f"Answers must go to a .csv or .parquet file; got {path}.")
    content = pa.BufferOutputStream()
    writer(pa.table({name: pa.array(values) for name, values in columns.items()}), content)
    save(path, content.getvalue().to_pybytes())


def _target(columns: Columns, source: DataSource) -> NDArray[Any]:
    if source.classes is None:
        return _outputs(columns, source.target, source.file)
    labels = columns[source.target[0]]
    if isinstance(source.classes[0], str):
        return np.array([str(label) for label in labels.tolist()])
    values = _outputs(columns, source.target, source.file)
    if (values % 1 != 0).any():
        row = int(np.flatnonzero(values % 1)[0])
        raise InvalidInput(
            f"Column {source.target[0]!r} of {source.file} must hold whole numbers, as the classes are; "
            f"row {row} is {values[row]}."
        )
    return values.astype(np.int64)


def _units(columns: Columns, source: DataSource) -> NDArray[Any] | None:
    if source.units is None:
        return None
    units = np.array(as_texts(columns[source.units]))
    missing = np.flatnonzero(units == "")
    if len(missing):
        raise InvalidInput(f"Column {source.units!r} of {source.file} must have no gaps; row {missing[0]} is empty.")
    return units


def _outputs(columns: Columns, names: Sequence[str], path: Path) -> Array:
    values = read_numbers(columns, names, path)
    return values[:, 0] if len(names) == 1 else values
