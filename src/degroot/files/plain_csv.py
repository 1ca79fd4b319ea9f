"""Small CSV files as Arrow reads and writes them, but without Arrow: to import it takes longer than a thousand rows.

Only what can be read in one way is read here: numbers, and texts that are nothing else. Dates, words for true and
false, blanks around numbers, whole numbers with gaps, and all that is wrong with a file are left to Arrow.
"""

import csv
import io
import math
import re
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

LARGEST = 1 << 19  # bytes of a file that is read: some thousand rows, sooner than Arrow is imported
MOST_CELLS = 10_000  # that are written
# How a missing number is written where there is no schema: what Arrow itself takes as null. GAPS has a few more.
ARROW_GAPS = frozenset(
    (
        "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "N/A", "NA", "NULL",
        "NaN", "n/a", "nan", "null",
    )
)  # fmt: skip
OTHER_MARKS = re.compile(r"[;\t|\0]")  # in a header: other marks may stand between fields
WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,14})")
NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,14})(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?")
WORD = re.compile(r"[A-Za-z].*", re.DOTALL)
OTHER_WORDS = {"true", "false", "inf", "infinity", "nan"}  # in small letters: which are no texts, or may be none
PLAIN_EXPONENTS = range(-6, 10)  # of numbers that are written without an exponent


def read_plain(path: Path, labels: Collection[str]) -> dict[str, NDArray[Any]] | None:
    """The columns of a small, plain file; `labels` stay text. None: Arrow has to read it."""
    with path.open("rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        return None
    try:
        rows = [row for row in csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True) if row]
    except (UnicodeDecodeError, csv.Error):
        return None
    if len(rows) < 2 or not _is_plain_header(rows[0]) or {len(row) for row in rows} != {len(rows[0])}:
        return None
    columns = {}
    for name, cells in zip(rows[0], zip(*rows[1:], strict=True), strict=True):
        column = np.array(cells, object) if name in labels else _read_cells(cells)
        if column is None:
            return None
        columns[name] = column
    return columns


def _is_plain_header(names: Sequence[str]) -> bool:
    plain = all(name and name == name.strip() and not name.startswith("_") for name in names)
    return plain and len(set(names)) == len(names) and OTHER_MARKS.search("".join(names)) is None


def _read_cells(cells: Sequence[str]) -> NDArray[Any] | None:
    """A column of whole numbers, numbers, texts or gaps; None: it is not certain which."""
    there = [cell for cell in cells if cell not in ARROW_GAPS]
    if not there:
        return np.array([None] * len(cells), object)
    if any(WORD.fullmatch(cell) and cell.lower() not in OTHER_WORDS for cell in there):
        return np.array(cells, object)
    if all(map(WHOLE.fullmatch, there)):
        return np.array([int(cell) for cell in cells], np.int64) if len(there) == len(cells) else None
    if all(map(NUMBER.fullmatch, there)):
        return np.array([math.nan if cell in ARROW_GAPS else float(cell) for cell in cells])
    return None


def write_plain(columns: Mapping[str, Sequence[Any]]) -> bytes | None:
    """A CSV file of a few numbers, texts, None and truth values. None: Arrow has to write it."""
    lists = [values.tolist() if isinstance(values, np.ndarray) else list(values) for values in columns.values()]
    if sum(map(len, lists)) > MOST_CELLS or not all(map(_is_plain, lists)):
        return None
    lines = [",".join(map(_quote, columns)), *(",".join(map(_write_cell, row)) for row in zip(*lists, strict=True))]
    return "".join(f"{line}\n" for line in lines).encode()


def _is_plain(values: Sequence[Any]) -> bool:
    """Whether all values are of one kind that is written here."""
    return {type(value) for value in values} - {type(None)} in ({float}, {str}, {bool})


def _write_cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return _quote(value)
    return str(value).lower() if isinstance(value, bool) else write_number(value)


def _quote(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def write_number(value: float) -> str:
    """The shortest text that is read as this number again, in Arrow's way.

    Examples
    --------
    >>> [write_number(value) for value in (100.0, 0.25, 1e-5, 1e-7, 1e10, math.nan)]
    ['100', '0.25', '0.00001', '1e-7', '1e+10', 'nan']
    """
    if not math.isfinite(value):
        return str(value)
    shortest = Decimal(repr(value)).normalize()
    return f"{shortest:f}" if shortest.adjusted() in PLAIN_EXPONENTS else f"{shortest:e}"
