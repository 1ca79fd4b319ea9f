"""Texts: what stands in a column, as it is written; a missing value is an empty text."""

import re
from typing import Any

import numpy as np
import pyarrow.csv
from numpy.typing import NDArray

NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
GAPS = frozenset(pyarrow.csv.ConvertOptions().null_values)  # how a missing value is written, such as NA


def texts(column: NDArray[Any]) -> list[str]:
    """Every value as text; a whole number has no point.

    Examples
    --------
    >>> texts(np.array([1.0, np.nan, 2.5])), texts(np.array([" yes", "NA", None], dtype=object))
    (['1', '', '2.5'], ['yes', '', ''])
    """
    return [_text(value) for value in column.tolist()]


def is_number(text: str) -> bool:
    """Whether a text reads as a finite number."""
    return NUMBER.fullmatch(text) is not None and np.isfinite(float(text))


def _text(value: Any) -> str:
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    text = str(value).strip()
    return "" if text in GAPS else text
