"""Parts: an agent tells sums over a few parts of its rows; how they differ says how much of the total is chance."""

import numpy as np
from numpy.typing import NDArray

from degroot.points import Array

PARTS = 10  # of an agent's rows, of which it tells the sums


def sums_over_parts(values: Array) -> tuple[Array, NDArray[np.intp]]:
    """Sums of `values` (n, ...) over at most ten consecutive parts of the rows, (parts, ...), and the parts' sizes.

    Examples
    --------
    >>> sums_over_parts(np.arange(12.0))
    (array([ 1.,  5.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11.]), array([2, 2, 1, 1, 1, 1, 1, 1, 1, 1]))
    """
    parts = np.array_split(values, min(PARTS, len(values)))
    return np.array([part.sum(axis=0) for part in parts]), np.array([len(part) for part in parts])


def chance(sums: Array) -> float:
    r"""The standard error of the total of B sums over parts, :math:`\sqrt{B}\, s` with s their standard deviation.

    NaN for a single part: it says nothing of chance.

    Examples
    --------
    >>> chance(np.array([1.0, 1.0, 1.0, 5.0]))
    4.0
    """
    return float(np.sqrt(len(sums) * sums.var(ddof=1))) if len(sums) > 1 else np.nan
