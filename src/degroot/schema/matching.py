"""Matching: which column of a table is likely the one that is looked for under another name, and in which unit."""

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array
from degroot.schema.columns import DATE, NUMBER, Column

UNIT_FACTORS = (
    1000.0, 100.0, 10.0, 2.54, 2.2046, 1.6093, 3.2808, 60.0, 3600.0, 24.0, 7.0, 12.0, 1e6,
)  # fmt: skip
ALIKE = 0.8  # of the values that fit, or of the letters of a name, from which on columns are likely the same
KNOWN_VALUES = 1000  # that are looked at


def find_likely_column(column: Column, table: Mapping[str, NDArray[Any]], among: Iterable[str]) -> str | None:
    """Which of the columns `among` those of a table is likely the one that the schema calls `column`; None: none.

    Examples
    --------
    >>> table = {"Sex": np.array(["male", "female"], object), "AGE": np.array([31, 40])}
    >>> find_likely_column(Column("gender", "category", ("female", "male")), table, table)
    'Sex'
    """
    rated = {name: rate for name in among if (rate := _rate(column, name, table[name])) > 0.0}
    return max(rated, key=lambda name: rated[name]) if rated else None


def _rate(column: Column, name: str, values: NDArray[Any]) -> float:
    """How likely a column is the one that is looked for; 0: not."""
    values = values[:: max(1, len(values) // KNOWN_VALUES)]
    numbers = column.encode(values)
    known = ~np.isnan(numbers)
    if not known.any() or (column.kind == NUMBER and values.dtype.kind in "bM"):
        return 0.0
    fits = float((np.isfinite(numbers) & known).sum() / known.sum())
    likeness = compare_names(column.name, name)
    if column.kind == NUMBER and np.isfinite(Column(name).encode(values)[known]).all():
        alike = fits >= ALIKE or likeness >= ALIKE  # the unit may be another one
    else:
        alike = fits >= ALIKE or (column.kind != DATE and fits > 0.0 and likeness >= ALIKE)
    return fits + 2.0 * likeness if alike else 0.0


def compare_names(one: str, two: str) -> float:
    """How alike two names of columns are, 0 to 1, whatever their case and signs.

    Examples
    --------
    >>> compare_names("Sale_Price", "salePrice"), compare_names("age", "sex") < 0.5
    (1.0, True)
    """
    first, second = (re.sub(r"[\W_]+", "", name).casefold() for name in (one, two))
    if first and second and (first.startswith(second) or second.startswith(first)):
        return max(0.9, difflib.SequenceMatcher(None, first, second).ratio()) if first != second else 1.0
    return difflib.SequenceMatcher(None, first, second).ratio()


def find_unit_factor(values: Array, low: float, high: float) -> float | None:
    """The unit factor by which numbers that lie outside of a range must be multiplied to lie inside; None: no such.

    Examples
    --------
    >>> find_unit_factor(np.array([1500.0, 1720.0, 1810.0]), 100.0, 250.0)
    0.1
    """
    known = values[np.isfinite(values)]
    if not len(known) or _share_inside(known, low, high) >= ALIKE:
        return None
    factors = [each for factor in UNIT_FACTORS for each in (factor, 1.0 / factor)]
    rated = [(_share_inside(known * factor, low, high), -abs(np.log(factor)), factor) for factor in factors]
    share, _, factor = max(rated)
    return round_factor(factor) if share >= 1.0 - 0.1 * (1.0 - ALIKE) else None


def _share_inside(values: Array, low: float, high: float) -> float:
    return float(((values >= low) & (values <= high)).mean())


def round_factor(factor: float) -> float:
    """A factor as people write it.

    Examples
    --------
    >>> round_factor(1 / 1000), round_factor(1 / 2.2046)
    (0.001, 0.4536)
    """
    return float(f"{factor:.4g}")
