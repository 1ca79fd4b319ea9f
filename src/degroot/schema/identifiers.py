"""Identifiers: columns that number or name rows, and so are no features."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

MIN_IDENTIFIER_ROWS = 10  # in which nothing is unique by chance
MIN_DENSITY = 0.9  # of the whole numbers of a range, from which on they number rows
IDENTIFIER_FORM = re.compile(r"(.*[ _.-])?(id|idx|rownames?|row|nr|uuid)|[cpsu]id|index|unnamed.*", re.I)
CAMEL_FORM = re.compile(r".*[a-z](Id|ID)")
TIME_NAMES = re.compile(r".*(time|year|month|week|day|date|quarter|period|hour|minute|second|age).*|t")


def numbers_rows(name: str, columns: Sequence[NDArray[Any]]) -> bool:
    """Whether whole numbers number the rows of all tables, also of tables that one table was dealt to.

    Examples
    --------
    >>> numbers_rows("rownames", [np.arange(1, 30)]), numbers_rows("year", [np.arange(1, 30)])
    (True, False)
    >>> numbers_rows("rownames", [np.arange(1, 30, 2), np.arange(2, 30, 2)])
    True
    """
    if not _are_whole(columns) or any((np.diff(each) <= 0).any() for each in columns):
        return False
    if TIME_NAMES.fullmatch(name.strip().casefold()) and not _is_called_identifier(name):
        return False
    if all((np.diff(each) == 1).all() and each[0] in (0, 1) for each in columns):
        return True
    together = np.concatenate(columns)
    low, high = float(together.min()), float(together.max())
    apart = len(np.unique(together)) == len(together)
    return apart and low in (0, 1) and len(together) >= MIN_DENSITY * (high - low + 1.0)


def names_rows(name: str, columns: Sequence[NDArray[Any]]) -> bool:
    """Whether a column that is called an identifier has another whole number in each row of a table.

    Examples
    --------
    >>> names_rows("PassengerId", [np.arange(30) * 7]), names_rows("income", [np.arange(30) * 7])
    (True, False)
    """
    return (
        _is_called_identifier(name)
        and _are_whole(columns)
        and all(len(np.unique(each)) == len(each) for each in columns)
    )


def _is_called_identifier(name: str) -> bool:
    return any(form.fullmatch(name.strip()) for form in (IDENTIFIER_FORM, CAMEL_FORM))


def _are_whole(columns: Sequence[NDArray[Any]]) -> bool:
    together = np.concatenate(columns) if columns else np.zeros(0)
    return len(together) >= MIN_IDENTIFIER_ROWS and bool(
        np.isfinite(together).all() and (together == np.rint(together)).all()
    )
