"""Columns of a data file by name. CSV, Parquet, Arrow and npz."""

import difflib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array
from degroot.exceptions import InvalidInput, describe_error
from degroot.files.encoding import FileColumn
from degroot.files.plain_csv import ARROW_GAPS, read_plain
from degroot.schema.columns import GAPS, is_number
from degroot.schema.sites import write_line

if TYPE_CHECKING:
    from degroot.files.size_limits import Extent

Columns = dict[str, NDArray[Any]]
TABLE, NAMES = "X", "names"  # arrays of an npz file that holds a whole table
SHOWN = 8  # names in a message
PARQUET, ARROW = (".parquet", ".pq"), (".arrow", ".feather", ".ipc")  # how the names of files end
SPREADSHEETS = (".xlsx", ".xls", ".xlsm", ".ods")  # which are not read


def read_columns(path: Path, labels: Collection[str] = (), most: "Extent | None" = None) -> Columns:
    """All columns by name; `labels` stay text, whatever they look like. No file with more than `most` is read."""
    columns = read_file_columns(path, labels, most)
    return {name: as_array(column, name in labels) for name, column in columns.items()}


def read_file_columns(path: Path, labels: Collection[str] = (), most: "Extent | None" = None) -> dict[str, FileColumn]:
    """The same as the file has them: Arrow columns, or arrays of an npz file."""
    check_readable(path)
    try:
        if most is not None:
            from degroot.files.size_limits import check_extent

            check_extent(path, most)
        columns = dict(READERS[path.suffix.lower()](path, labels))
    except InvalidInput:
        raise
    except OSError as error:
        raise _unreadable(path, error) from error
    except ImportError as error:
        raise InvalidInput(f"Data files need extra packages: pip install 'degroot[batch]' ({error}).") from error
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


def as_array(column: FileColumn, is_label: bool = False) -> NDArray[Any]:
    """A column of a file as an array; a label keeps all its digits."""
    if isinstance(column, np.ndarray):
        return column
    from degroot.files.arrow_columns import to_array

    return to_array(column, is_label)


def _from_csv(path: Path, labels: Collection[str]) -> Mapping[str, FileColumn]:
    plain = read_plain(path, labels)
    if plain is not None:
        return plain
    from degroot.files.arrow_tables import read_csv

    return read_csv(path, labels)


def _from_parquet(path: Path, _labels: Collection[str]) -> Mapping[str, FileColumn]:
    from degroot.files.arrow_tables import read_parquet

    return read_parquet(path)


def _from_arrow(path: Path, _labels: Collection[str]) -> Mapping[str, FileColumn]:
    from degroot.files.arrow_tables import read_arrow

    return read_arrow(path)


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
