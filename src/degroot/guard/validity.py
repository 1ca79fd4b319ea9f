"""Opinions: what agents say of models near points, and whether any rows could say so."""

import math

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array, as_kernel_array, compiled, over_points
from degroot.rules.evidence import Evidence

SEMI = 1e-8  # rounding that is let pass in second moments with a diagonal of 1, for each model


def malformed(evidence: Evidence) -> NDArray[np.bool_]:
    """Whose opinions no rows could give, (M, K): not numbers, negative, or moments that are not semi-definite.

    Examples
    --------
    >>> malformed(Evidence(np.array([[[1.0, 2.0], [np.nan, 1.0]]])))
    array([[False,  True]])
    """
    fine = ((evidence.errors >= 0.0) & (evidence.errors < np.inf)).all(axis=-1)
    for each in (evidence.spread, evidence.effective):
        fine &= True if each is None else each >= 0.0
    if evidence.moments is not None:
        fine &= semidefinite(evidence.moments)
    return np.asarray(~fine)


def semidefinite(moments: Array) -> NDArray[np.bool_]:
    """Whether packed lower triangles (M, J, K (K + 1) / 2) are positive semi-definite, up to rounding: (M, J).

    In units in which diagonals are 1, a Cholesky decomposition has to succeed with a little more on the diagonal.

    Examples
    --------
    >>> semidefinite(np.array([[[1.0, 1.0, 1.0], [1.0, 2.0, 1.0], [0.0, 1.0, 4.0]]]))
    array([[ True, False, False]])
    """
    packed = as_kernel_array(moments)
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
