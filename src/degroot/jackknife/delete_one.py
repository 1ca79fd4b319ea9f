r"""How the consensus would change if one agent had not taken part: the jackknife over agents.

Mendler-Dünner, Guo, Bates and Jordan, *Test-time collective prediction*, NeurIPS 2021: for every agent i, strike
row and column i out of the trust matrix, let the rows sum to 1 again, and take the consensus of the others. No model is
called again.
"""

import numpy as np
from numpy.typing import ArrayLike

from degroot.compute.compiled import Array, as_kernel_array, over_points
from degroot.compute.kernel import compiled_for
from degroot.compute.sums import row_sum
from degroot.consensus.dense import check_beliefs, check_trust
from degroot.exceptions import InvalidInput
from degroot.jackknife.elimination import delete_each


def weights_without(trust: ArrayLike) -> Array:
    r"""Consensus weights of the others, for every agent left out in turn.

    Row i holds :math:`v^{(i)}`, the stationary weights of the trust matrix without agent i,

    .. math:: v^{(i)} T^{(i)} = v^{(i)}, \qquad T^{(i)}_{jk} = \tau_{jk} \Big/ \sum_{l \ne i} \tau_{jl}, \; j, k \ne i.

    Parameters
    ----------
    trust : (..., K, K)
        Positive, rows sum to 1.

    Returns
    -------
    (..., K, K)
        Row i sums to 1 and is 0 at place i. NaN for K = 1: nobody is left.

    Examples
    --------
    >>> weights_without([[0.2, 0.4, 0.4], [0.1, 0.6, 0.3], [0.1, 0.1, 0.8]])
    array([[0.        , 0.25      , 0.75      ],
           [0.14285714, 0.        , 0.85714286],
           [0.17647059, 0.82352941, 0.        ]])
    """
    everyone = as_kernel_array(check_trust(trust))
    K = everyone.shape[-1]
    if K == 1:
        return np.full_like(everyone, np.nan)
    points = everyone.reshape(-1, K, K)
    weights, nothing = np.empty_like(points), np.zeros(points.shape[:2])
    over_points(delete_each, points, nothing, nothing, weights)
    return _agreed(weights).reshape(everyone.shape)


def values_without(trust: ArrayLike, beliefs: ArrayLike) -> Array:
    r"""Consensus values of the others, :math:`p^*_{-i} = \sum_j v^{(i)}_j p_j`, for every agent left out in turn.

    Parameters
    ----------
    trust : (..., K, K)
        Positive, rows sum to 1.
    beliefs : (..., K)

    Returns
    -------
    (..., K)
        NaN for K = 1: nobody is left.

    Examples
    --------
    >>> values_without([[0.2, 0.4, 0.4], [0.1, 0.6, 0.3], [0.1, 0.1, 0.8]], [1, 2, 3])
    array([2.75      , 2.71428571, 1.82352941])
    """
    everyone, believed = check_beliefs(trust, beliefs)
    return _agreed(solve_without(everyone, believed))


def solve_without(trust: Array, beliefs: Array) -> Array:
    """As `values_without`, for trust that is known to be positive with rows that sum to 1, and as many beliefs."""
    K = beliefs.shape[-1]
    if K == 1:
        return np.full_like(beliefs, np.nan)
    values, no_weights = np.empty(beliefs.shape).reshape(-1, K), np.empty((0, K, K))

    def kernel(trust: Array, beliefs: Array, values: Array) -> None:
        delete_each(trust, beliefs, values, no_weights)

    over_points(kernel, as_kernel_array(trust).reshape(-1, K, K), as_kernel_array(beliefs).reshape(-1, K), values)
    return values.reshape(beliefs.shape)


def standard_error(without: ArrayLike) -> Array:
    r"""Jackknife standard error of the consensus, :math:`\sqrt{\frac{K-1}{K} \sum_i (p^*_{-i} - \bar p)^2}`.

    Here :math:`\bar p = \frac1K \sum_i p^*_{-i}`. It says how much the consensus hangs on single agents; it is not the
    spread of the outcome.

    Parameters
    ----------
    without : (..., K)
        What `values_without` gives.

    Returns
    -------
    (...)
        NaN for K = 1.

    Examples
    --------
    >>> standard_error([[1, 2, 3], [2, 2, 2]])
    array([1.15470054, 0.        ])
    """
    values = as_kernel_array(without)
    return jackknife_error(values.reshape(-1, values.shape[-1])).reshape(values.shape[:-1])


def jackknife_error(without: Array) -> Array:
    """As `standard_error`, for values (M, K) in one block of memory."""
    error = np.empty(len(without))
    _spread_into(without, error)
    return error


@compiled_for("f8[2] f8[1]")
def _spread_into(without: Array, error: Array) -> None:
    M, K = without.shape
    for m in range(M):
        mean = row_sum(without, m, K) / K
        total = 0.0
        for i in range(K):
            total += (without[m, i] - mean) ** 2
        error[m] = np.sqrt((K - 1) / K * total) if K > 1 else np.nan


def influence(value: ArrayLike, without: ArrayLike) -> Array:
    r"""What each agent adds to the consensus, :math:`p^* - p^*_{-i}`: the value with everyone minus that without i.

    Parameters
    ----------
    value : (...)
    without : (..., K)
        What `values_without` gives.

    Returns
    -------
    (..., K)

    Examples
    --------
    >>> influence(2, [1, 2, 2.5])
    array([ 1. ,  0. , -0.5])
    """
    added: Array = np.asarray(value, float)[..., None] - np.asarray(without, float)
    return added


def _agreed(result: Array) -> Array:
    if result.shape[-1] > 1 and np.isnan(result).any():
        raise InvalidInput("Trust must be positive: without one of the agents, the others do not come to agree.")
    return result
