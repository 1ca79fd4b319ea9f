"""Matching: which column of a table is likely the one that is looked for under another name, and in which unit."""

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array
from degroot.schema.columns import DATE, NUMBER, Column
from degroot.schema.sites import FACTOR_DIGITS

UNIT_FACTORS = (
    1000.0, 100.0, 10.0, 1e6,
    2.54, 25.4, 1.609344, 1.0 / 0.3048,  # cm and mm to an inch, km to a mile, feet to a metre
    1.0 / 0.3048**2,  # square feet to a square metre
    1.0 / 0.45359237, 453.59237, 28.349523125,  # pounds to a kg, g to a pound and to an ounce
    60.0, 3600.0, 24.0, 1440.0, 86400.0, 7.0, 12.0,
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
        alike = likeness >= ALIKE or (column.range is not None and fits >= ALIKE)  # the unit may be another one
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


def find_unit_factors(values: Array, low: float, high: float) -> list[float]:
    """The unit factors by which numbers that lie outside of a range must be multiplied to lie inside, best first.

    Examples
    --------
    >>> find_unit_factors(np.array([1500.0, 1720.0, 1810.0]), 100.0, 250.0)
    [0.1, 0.09290304, 0.0833333333333]
    >>> find_unit_factors(np.array([150.0, 172.0, 181.0]), 100.0, 250.0)
    []
    """
    known = values[np.isfinite(values)]
    if not len(known) or _share_inside(known, low, high) >= ALIKE:
        return []
    factors = [each for factor in UNIT_FACTORS for each in (factor, 1.0 / factor)]
    rated = sorted((-_share_inside(known * factor, low, high), abs(np.log(factor)), factor) for factor in factors)
    return [round_factor(factor) for share, _, factor in rated if -share >= 1.0 - 0.1 * (1.0 - ALIKE)]


def _share_inside(values: Array, low: float, high: float) -> float:
    return float(((values >= low) & (values <= high)).mean())


def round_factor(factor: float) -> float:
    """A factor as it is written to a file, to 12 digits.

    Examples
    --------
    >>> round_factor(1 / 1000), round_factor(1 / 60), round_factor(453.59237 / 1000)
    (0.001, 0.0166666666667, 0.45359237)
    """
    return float(f"{factor:.{FACTOR_DIGITS}g}")
