"""Columns of a data file by name. CSV, Parquet, Arrow and npz."""

import difflib
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from degroot.compute.compiled import Array
from degroot.exceptions import InvalidInput, describe_error
from degroot.files.csv_rows import check_header, check_text, row_ends
from degroot.files.encoding import FileColumn, decode_binary
from degroot.files.native import open_native
from degroot.files.size_limits import Extent, check_extent
from degroot.schema.columns import GAPS, is_number
from degroot.schema.sites import write_line

Columns = dict[str, NDArray[Any]]
TABLE, NAMES = "X", "names"  # arrays of an npz file that holds a whole table
INDEX = "__index_level_"  # how pandas calls a column that is none
SHOWN = 8  # names in a message
# How a missing number is written where there is no schema: what Arrow itself takes as null. GAPS has a few more.
ARROW_GAPS = frozenset(pyarrow.csv.ConvertOptions().null_values)
PARQUET, ARROW = (".parquet", ".pq"), (".arrow", ".feather", ".ipc")  # how the names of files end
SPREADSHEETS = (".xlsx", ".xls", ".xlsm", ".ods")  # which are not read


def read_columns(path: Path, labels: Collection[str] = (), most: Extent | None = None) -> Columns:
    """All columns by name; `labels` stay text, whatever they look like. No file with more than `most` is read."""
    columns = read_file_columns(path, labels, most)
    return {name: as_array(column, name in labels) for name, column in columns.items()}


def read_file_columns(path: Path, labels: Collection[str] = (), most: Extent | None = None) -> dict[str, FileColumn]:
    """The same as the file has them: Arrow columns, or arrays of an npz file."""
    check_readable(path)
    try:
        if most is not None:
            check_extent(path, most)
        columns = dict(READERS[path.suffix.lower()](path, labels))
    except InvalidInput:
        raise
    except OSError as error:
        raise _unreadable(path, error) from error
    except Exception as error:
        raise InvalidInput(f"{path} must be a {path.suffix} file; {describe_error(error)}.") from error
    if not columns or not len(next(iter(columns.values()))):
        raise InvalidInput(f"{path} must hold at least one row; it has none.")
    return columns


def check_readable(path: Path) -> None:
    """Raise unless there is a file at `path`, of a kind that is read."""
    kind = path.suffix.lower()
    try:
        path.stat()
    except OSError as error:
        raise _unreadable(path, error) from error
    if kind not in READERS:
        hint = " Save its sheet as .csv." if kind in SPREADSHEETS else ""
        raise InvalidInput(f"Rows must be in a {', '.join(READERS)} file; got {path}.{hint}")


def _unreadable(path: Path, error: OSError) -> InvalidInput:
    reason = error.strerror or describe_error(error)
    return InvalidInput(f"Rows must be in a file that can be read; {path}: {reason}.")


def _from_csv(path: Path, labels: Collection[str]) -> dict[str, FileColumn]:
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


def _from_parquet(path: Path, _labels: Collection[str]) -> dict[str, FileColumn]:
    with open_native(path) as file:
        return _from_table(pyarrow.parquet.read_table(file), path)


def _from_arrow(path: Path, _labels: Collection[str]) -> dict[str, FileColumn]:
    with open_native(path) as file:
        try:
            return _from_table(pa.ipc.open_file(file).read_all(), path)
        except pa.ArrowInvalid:  # the form of streams
            file.seek(0)
            return _from_table(pa.ipc.open_stream(file).read_all(), path)


def _from_table(table: pa.Table, path: Path) -> dict[str, FileColumn]:
    names = [name for name in table.column_names if not name.startswith(INDEX)]
    for name, count in Counter(names).items():
        if count > 1:
            raise duplicate_column_error(path, name)
    return {name: table.column(name) for name in names}


def as_array(column: FileColumn, is_label: bool = False) -> NDArray[Any]:
    """A column of a file as an array; a label keeps all its digits."""
    if isinstance(column, np.ndarray):
        return column
    if is_label and column.null_count and pa.types.is_integer(column.type):
        column = column.cast(pa.string())  # numpy has no whole numbers with gaps, and large ones would lose digits
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    column = decode_binary(column)
    return np.asarray(column.to_numpy())


def _from_npz(path: Path, _labels: Collection[str]) -> Columns:
    with path.open("rb") as file:
        archive = np.load(file, allow_pickle=False)
        if not hasattr(archive, "files"):
            raise InvalidInput(f"{path} must hold named arrays; it holds a single one.")
        arrays = {name: np.asarray(archive[name]) for name in archive.files}
    columns = _spread(arrays, path) if arrays.get(TABLE, np.zeros(0)).ndim == 2 else arrays
    lengths = {name: len(column) if column.ndim else 0 for name, column in columns.items()}
    for name, column in columns.items():
        if column.ndim != 1 or lengths[name] != next(iter(lengths.values())):
            raise InvalidInput(
                f"The arrays of {path} must be columns of the same length, or {TABLE!r} with one row for each entry of "
                f"the others; the shape of {name!r} is {column.shape}."
            )
    return columns


READERS: dict[str, Callable[[Path, Collection[str]], Mapping[str, FileColumn]]] = {
    ".csv": _from_csv, **dict.fromkeys(PARQUET, _from_parquet), **dict.fromkeys(ARROW, _from_arrow), ".npz": _from_npz,
}  # fmt: skip


def _spread(arrays: Columns, path: Path) -> Columns:
    """The columns of a table of features and those of its target."""
    table = arrays[TABLE]
    width = table.shape[1]
    names = [str(name) for name in arrays.get(NAMES, np.array([f"x{k}" for k in range(width)]))]
    if not len(set(names)) == len(names) == width:
        raise InvalidInput(
            f"{NAMES!r} in {path} must hold a name of its own for each of {width} features; got {listed(names)}."
        )
    columns = dict(zip(names, table.T, strict=True))
    for name, array in arrays.items():
        if name not in (TABLE, NAMES):
            several = array.ndim == 2 and array.shape[1] > 1
            parts = {f"{name}{k}": part for k, part in enumerate(array.T)} if several else {name: array.reshape(-1)}
            columns |= parts
    return columns


def read_numbers(
    columns: Columns, names: Sequence[str], path: Path, *, gaps: bool = False, first_row: int = 1
) -> Array:
    """These columns as finite numbers, (m, d); with `gaps` also NaN. `first_row`: the number of the first row."""
    table = np.empty((len(columns[names[0]]), len(names)))
    for k, name in enumerate(names):
        column = columns[name]
        if column.dtype.kind not in "fiub":
            raise InvalidInput(f"Column {name!r} of {path} must hold numbers; {_first_text(column, first_row)}.")
        table[:, k] = column
    strange = np.isinf(table) if gaps else ~np.isfinite(table)
    if strange.any():
        row, k = (int(place) for place in np.argwhere(strange)[0])
        value = "missing or NaN" if np.isnan(table[row, k]) else table[row, k]
        raise InvalidInput(f"Column {names[k]!r} of {path} must be finite; row {row + first_row} is {value}.")
    return table


def take_row(columns: Columns, row: int) -> Columns:
    """One row, from 1, of each column: a text that is a number is one, though the texts of other rows are none."""
    return {name: _as_number(column[row - 1 : row]) for name, column in columns.items()}


def _as_number(single: NDArray[Any]) -> NDArray[Any]:
    if single.dtype.kind not in "OU":
        return single
    text = "" if single[0] is None else str(single[0]).strip()
    if text in ARROW_GAPS:
        return np.array([np.nan])
    return np.array([float(text)]) if is_number(text) else single


def _first_text(column: NDArray[Any], first_row: int) -> str:
    if column.dtype.kind not in "OUS":
        return f"it holds {column.dtype}"
    strange = [row for row, value in enumerate(column.tolist()) if not _is_number(value)]
    texts = [row for row in strange if column[row] is not None]
    if texts:
        return f"row {texts[0] + first_row} is {str(column[texts[0]])!r}"
    return f"row {strange[0] + first_row} is missing" if strange else "it holds text"


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def as_texts(column: NDArray[Any]) -> list[str]:
    """Every value as text; a whole number has no point.

    Examples
    --------
    >>> as_texts(np.array([1.0, np.nan, 2.5])), as_texts(np.array([" yes", "NA", None], dtype=object))
    (['1', '', '2.5'], ['yes', '', ''])
    """
    return [_text(value) for value in column.tolist()]


def _text(value: Any) -> str:
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    text = str(value).strip()
    return "" if text in GAPS else text


def missing_column_error(path: Path, name: str, names: Iterable[str]) -> InvalidInput:
    """The error that a column is missing."""
    known = list(names)
    near = find_similar(name, known)
    hint = f"did you mean {near[0]!r}?" if near else f"its columns are {listed(known)}."
    return InvalidInput(f"{path} must have the column {name!r}; it has none: {hint}")


def missing_feature_error(path: Path, name: str, shared: str, names: Iterable[str]) -> InvalidInput:
    """The error that a feature which the schema calls `shared` is missing."""
    near = find_similar(name, list(names))
    other = f"name it in the site file ({write_line(shared, name=near[0])}), or " if near else ""
    return InvalidInput(
        f"{path} must have the column {name!r}; it has none. To go on: {other}list it as `absent` in the site file."
    )


def find_similar(name: str, names: Sequence[str]) -> list[str]:
    """The name that is most like this one, whatever its capitals, if any is.

    Examples
    --------
    >>> find_similar("Sale_Price", ["saleprice", "area"]), find_similar("x", ["area"])
    (['saleprice'], [])
    """
    folded = {each.casefold(): each for each in names}
    return [folded[each] for each in difflib.get_close_matches(name.casefold(), list(folded), 1)]


def duplicate_column_error(where: Path | str, name: str, verb: str = "is") -> InvalidInput:
    """The error that there are two columns of one name."""
    return InvalidInput(f"The columns of {where} must have different names; {name!r} {verb} there twice.")


def listed(names: Iterable[Any], show: Callable[[Any], str] = repr) -> str:
    """The first few of them."""
    shown = [show(name) for name in names]
    return ", ".join(shown[:SHOWN]) + (f" and {len(shown) - SHOWN} more" if len(shown) > SHOWN else "")
