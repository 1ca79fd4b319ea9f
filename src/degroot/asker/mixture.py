r"""The mixture: candidates weighed by their losses on the asker's rows, whole units left out.

With :math:`\Delta_c` the mean difference of candidate c's losses to the best candidate's, paired row by row, and
:math:`s_c` its standard error, clustered by units, the share of candidate c is in proportion to
:math:`\exp(-\frac12 \max(0, \Delta_c / s_c)^2)`: candidates that chance may have put behind share with the best.
"""

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array

FOLDS = 10
FEW_UNITS = 25  # up to which each unit is a fold of its own
LEAST_SHARE = 1e-3  # below which a candidate is not worth its cost
ROUNDING = 1e-12  # of a mean loss: a difference that may be no more than that

Codes = NDArray[np.intp]  # (n,) which unit each row belongs to, from 0


def assign_folds(units: Codes, seed: int = 0) -> Codes:
    """The fold of each row, (n,): ten folds of whole units, or each of up to 25 units alone.

    Examples
    --------
    >>> folds = assign_folds(np.repeat(np.arange(30), 2))
    >>> len(np.unique(folds)), bool((folds[::2] == folds[1::2]).all())
    (10, True)
    """
    count = int(units.max()) + 1 if len(units) else 0
    order = np.random.default_rng(seed).permutation(count)
    fold: Codes = (order if count <= FEW_UNITS else order % FOLDS)[units]
    return fold


def clustered_standard_error(values: Array, units: Codes) -> Array:
    r"""The standard error of the mean of `values` (n, ...) over rows, clustered by units.

    :math:`\frac1n \sqrt{\frac{U}{U-1} \sum_u \left(\sum_{i \in u} (v_i - \bar v)\right)^2}` for U
    units; infinite for one.

    Examples
    --------
    >>> values = np.array([1.0, 2.0, 3.0, 4.0])
    >>> float(clustered_standard_error(values, np.arange(4))), float(values.std(ddof=1) / 2)
    (0.645497, 0.645497)
    >>> float(clustered_standard_error(values, np.array([0, 0, 1, 1])))
    1.0
    """
    distinct, place = np.unique(units, return_inverse=True)
    U = len(distinct)
    if U < 2:
        return np.full(np.shape(values)[1:], np.inf)
    off = values - values.mean(axis=0)
    largest = np.abs(off).max(axis=0)
    unit = np.where(largest > 0.0, largest, 1.0)  # in which no square overflows
    sums = np.zeros((U, *values.shape[1:]))
    np.add.at(sums, place, off / unit)
    error: Array = unit * np.sqrt(U / (U - 1) * (sums**2).sum(axis=0)) / len(values)
    return error


def mix_candidates(losses: Array, units: Codes) -> Array:
    """The share of each candidate, (C,), by its `losses` (n, C) on rows that were left out.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> losses = random.normal(size=(100, 3)) ** 2 + [0.0, 0.1, 5.0]
    >>> mix_candidates(losses, np.arange(100)).round(2)
    array([0.48, 0.52, 0.  ])
    """
    mean = losses.mean(axis=0)
    best = int(np.argmin(mean))
    error = clustered_standard_error(losses - losses[:, [best]], units)
    behind = mean - mean[best]
    behind[behind <= ROUNDING * mean] = 0.0
    steps = np.divide(behind, error, out=np.where(behind > 0.0, np.inf, 0.0), where=error > 0.0)
    shares = np.exp(-0.5 * steps**2)
    shares /= shares.sum()
    shares[shares < LEAST_SHARE] = 0.0
    total: Array = shares / shares.sum()
    return total
