"""Opinions: what agents send for M points, and what is wrong with it."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.points import Array, compiled, for_kernels, over_points

ALIKE = 1e-6  # rounding that is let pass, in rows that should sum to 1
SEMI = 1e-8  # and, for each model, in second moments with a diagonal of 1


def malformed(
    *,
    beliefs: Array | None = None,
    errors: Array | None = None,
    moments: Array | None = None,
    spread: Array | None = None,
    effective: Array | None = None,
    trust: Array | None = None,
    expected: Array | None = None,
    tolerance: Array | None = None,
) -> dict[int, str]:
    """What is wrong with the opinions of each agent that could not have come from rows and models.

    Parameters
    ----------
    beliefs : (M, K) or (M, K, Q)
        Finite.
    errors : (M, K, K)
        Finite and not negative; row i is agent i's, here and in what follows.
    moments : (M, K, K (K + 1) / 2)
        Packed lower triangles, finite and positive semi-definite.
    spread : (M, K)
        Not negative; infinite for an agent without rows.
    effective : (M, K)
        Finite; at least 1, or 0 where the spread is infinite.
    trust : (M, K, K)
        Not negative; rows sum to 1.
    expected : (M, K, K) or (M, K, K, Q)
        Finite.
    tolerance : (M, K, K)
        Not negative; it may be infinite.

    Returns
    -------
    dict
        From the place of an agent to the first thing that is wrong with it: a requirement, then what came.

    Examples
    --------
    >>> malformed(errors=np.array([[[1.0, 2.0], [np.nan, 1.0]]]), spread=np.array([[0.5, 0.5]]))
    {1: 'its errors must be finite and not negative; at point 0 one is nan.'}
    """
    found: dict[int, str] = {}
    for requirement, values, wrong in _checks(beliefs, errors, moments, spread, effective, trust, expected, tolerance):
        for place in np.flatnonzero(wrong.any(axis=(0, *range(2, wrong.ndim)))):
            at = tuple(int(k) for k in np.argwhere(wrong[:, place])[0])
            told = "" if values is None else f" one is {values[(at[0], place, *at[1:])]:.6g}."
            found.setdefault(int(place), f"{requirement}; at point {at[0]}{told or ' they are not.'}")
    return dict(sorted(found.items()))


def _checks(
    beliefs: Any, errors: Any, moments: Any, spread: Any, effective: Any, trust: Any, expected: Any, tolerance: Any
) -> Iterator[tuple[str, Array | None, NDArray[np.bool_]]]:
    """A requirement, the values to tell of, and where they do not meet it, (M, K, ...)."""
    for name, values in (("beliefs", beliefs), ("expected answers", expected)):
        if values is not None:
            yield f"its {name} must be finite", values, ~np.isfinite(values)
    if errors is not None:
        yield "its errors must be finite and not negative", errors, ~(np.isfinite(errors) & (errors >= 0.0))
    for name, values in (("spreads", spread), ("tolerances", tolerance)):
        if values is not None:
            yield f"its {name} must not be negative", values, ~(values >= 0.0)
    if effective is not None:
        alone = np.isinf(spread) if spread is not None else False
        right = np.isfinite(effective) & ((effective >= 1.0 - ALIKE) | (alone & (effective == 0.0)))
        yield "its effective numbers of rows must be at least 1", effective, ~right
    if trust is not None:
        yield "its trust must not be negative", trust, ~(trust >= 0.0)
        sums = trust.sum(axis=-1)
        yield "each row of its trust must sum to 1", sums, ~(np.abs(sums - 1.0) <= ALIKE)
    if moments is not None:
        yield "its second moments must be finite", moments, ~np.isfinite(moments)
        yield "its second moments must be positive semi-definite", None, ~semidefinite(moments)


def semidefinite(moments: Array) -> NDArray[np.bool_]:
    """Whether packed lower triangles (M, J, K (K + 1) / 2) are positive semi-definite, up to rounding: (M, J).

    In units in which diagonals are 1, a Cholesky decomposition has to succeed with a little more on the diagonal.

    Examples
    --------
    >>> semidefinite(np.array([[[1.0, 1.0, 1.0], [1.0, 2.0, 1.0], [0.0, 1.0, 4.0]]]))
    array([[ True, False, False]])
    """
    packed = for_kernels(moments)
    verdict = np.empty(packed.shape[:2], np.bool_)
    over_points(_semidefinite, packed, verdict)
    return verdict


@compiled
def _semidefinite(moments: Array, verdict: NDArray[np.bool_]) -> None:
    M, J, length = moments.shape
    K = round((math.sqrt(8.0 * length + 1.0) - 1.0) / 2.0)
    factor = np.empty((K, K))
    for m in range(M):
        for i in range(J):
            verdict[m, i] = _decomposes(moments[m, i], factor)


@compiled
def _decomposes(packed: Array, factor: Array) -> bool:
    K = len(factor)
    for j in range(K):
        own = packed[j * (j + 1) // 2 + j]
        if not 0.0 <= own < np.inf:
            return False
        for k in range(j):
            other = packed[k * (k + 1) // 2 + k]
            scale = math.sqrt(own) * math.sqrt(other)
            entry = packed[j * (j + 1) // 2 + k]
            if scale == 0.0:
                if entry != 0.0:
                    return False
                factor[j, k] = 0.0
                continue
            entry /= scale
            for p in range(k):
                entry -= factor[j, p] * factor[k, p]
            factor[j, k] = entry / factor[k, k]
        pivot = 1.0 + K * SEMI
        for p in range(j):
            pivot -= factor[j, p] * factor[j, p]
        if not pivot > 0.0:
            return False
        factor[j, j] = math.sqrt(pivot)
    return True
