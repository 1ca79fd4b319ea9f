r"""How the consensus would change if one agent had not taken part: the jackknife over agents.

Mendler-Dünner, Guo, Bates and Jordan, *Test-time collective prediction*, NeurIPS 2021, section 4: for every agent i,
strike row and column i out of the trust matrix, let the rows sum to 1 again, and take the consensus of the others.
No model is called again.
"""

import numpy as np
from numpy.typing import ArrayLike

from degroot.points import Array, compiled, in_blocks
from degroot.vectors import (
    load,
    masked_tile,
    masked_tile_times_block,
    reciprocal,
    spread,
    store,
    tile,
    tile_times_block,
    vectors,
    visits,
)

BLOCK = 1 << 18  # entries of trust that one thread takes at a time


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
    trust = np.require(trust, np.float64, ["C", "A", "W"])
    K = trust.shape[-1]
    if K == 1:
        return np.full_like(trust, np.nan)
    points = trust.reshape(-1, K, K)
    weights = np.empty_like(points)
    in_blocks(lambda start, stop: _delete(points[start:stop], weights[start:stop]), len(points), BLOCK // K**2)
    return weights.reshape(trust.shape)


def values_without(weights_without: ArrayLike, beliefs: ArrayLike) -> Array:
    r"""Consensus values of the others, :math:`p^*_{-i} = \sum_j v^{(i)}_j p_j`, for every agent left out in turn.

    Parameters
    ----------
    weights_without : (..., K, K)
    beliefs : (..., K)

    Returns
    -------
    (..., K)

    Examples
    --------
    >>> values_without([[0, 0.25, 0.75], [0.5, 0, 0.5], [0.2, 0.8, 0]], [1, 2, 3])
    array([2.75, 2.  , 1.8 ])
    """
    values: Array = np.einsum("...ij,...j->...i", np.asarray(weights_without, float), np.asarray(beliefs, float))
    return values


def standard_error(values_without: ArrayLike) -> Array:
    r"""Jackknife standard error of the consensus, :math:`\sqrt{\frac{K-1}{K} \sum_i (p^*_{-i} - \bar p)^2}`.

    Here :math:`\bar p = \frac1K \sum_i p^*_{-i}`. It says how much the consensus hangs on single agents; it is not the
    spread of the outcome.

    Parameters
    ----------
    values_without : (..., K)

    Returns
    -------
    (...)
        NaN for K = 1.

    Examples
    --------
    >>> standard_error([[1, 2, 3], [2, 2, 2]])
    array([1.15470054, 0.        ])
    """
    values = np.asarray(values_without, float)
    K = values.shape[-1]
    if K == 1:
        return np.full(values.shape[:-1], np.nan)
    error: Array = np.sqrt((K - 1) / K * np.square(values - values.mean(-1, keepdims=True)).sum(-1))
    return error


def influence(value: ArrayLike, values_without: ArrayLike) -> Array:
    r"""What each agent adds to the consensus, :math:`p^* - p^*_{-i}`: the value with everyone minus that without i.

    Parameters
    ----------
    value : (...)
    values_without : (..., K)

    Returns
    -------
    (..., K)

    Examples
    --------
    >>> influence(2, [1, 2, 2.5])
    array([ 1. ,  0. , -0.5])
    """
    added: Array = np.asarray(value, float)[..., None] - np.asarray(values_without, float)
    return added


@compiled
def _delete(trust: Array, weights: Array) -> None:
    r"""Eight agents left out at a time, side by side as the lanes of vectors.

    The elimination of Grassmann, Taksar and Heyman (1985) never looks at a diagonal, so the rows need not be made to
    sum to 1 first: it finds :math:`u` with :math:`v_j \propto u_j \sum_{k \ne i} \tau_{jk}`, and agent i is left out
    by a 0 for all flows to and from it. Nothing is ever subtracted, so that every weight is right to the last digits.
    """
    M, K = trust.shape[0], trust.shape[1]
    n = (K + 3) // 4 * 4  # agents to make four are added: nobody trusts them
    stride = n | 1  # odd, so that a column does not fall on few places of the cache
    flow, keep, u, leaving = vectors(stride * n), vectors(n), vectors(n), vectors(4)
    padded, groups = np.zeros(n * n), np.empty((K, (K + 7) // 8))
    for m in range(M):
        for j in range(K):
            for k in range(K):
                padded[j * n + k] = trust[m, j, k]
            for g in range((K + 7) // 8):
                total = 0.0
                for k in range(8 * g, min(8 * g + 8, K)):
                    total += trust[m, j, k]
                groups[j, g] = total
        for first in range(0, K, 8):
            count = min(8, K - first)
            for j in range(n):
                store(keep, 8 * j, spread(1.0))
            for lane in range(count):
                keep[8 * (first + lane) + lane] = 0.0
            _eliminate(padded, n, keep, first, flow, stride, leaving)
            _substitute(flow, stride, n, keep, u)
            _normalise(trust[m], groups, keep, first, u, weights[m])


@compiled
def _eliminate(trust: Array, n: int, keep: Array, first: int, flow: Array, stride: int, leaving: Array) -> None:
    """Take four agents at a time out of the flow of trust, the last ones first.

    Above the diagonal blocks `flow` becomes the weight that the four get from each of those before them, below the
    flow from the four to those before them.
    """
    left_out = first // 8
    for low in range(n - 4, -1, -4):
        top = low + 4
        for column in range(0, top, 4):
            if low // 8 == left_out or column // 8 == left_out:
                masked_tile(flow, stride, low, column, top, trust, n, keep)
            else:
                tile(flow, stride, low, column, top, trust, n, keep)
        _sum_rows(flow, stride, low, leaving)
        if low == 0:  # what is left of the flow returns to agent 0, or to 1 if it is agent 0 who is left out
            store(leaving, 0, load(keep, 0))
            store(leaving, 8, spread(1.0) - load(keep, 0))
        visits(flow, stride, low, leaving)
        for row in range(0, low, 4):
            if low // 8 == left_out or row // 8 == left_out:
                masked_tile_times_block(flow, stride, row, low, top, trust, n, keep)
            else:
                tile_times_block(flow, stride, row, low, top, trust, n, keep)


@compiled
def _sum_rows(flow: Array, stride: int, low: int, leaving: Array) -> None:
    """What leaves the four agents from `low` on, to all before them."""
    a, b, c, d = spread(0.0), spread(0.0), spread(0.0), spread(0.0)
    row = 8 * stride
    for at in range(low * row, low * row + 8 * low, 8):
        a = a + load(flow, at)
        b = b + load(flow, at + row)
        c = c + load(flow, at + 2 * row)
        d = d + load(flow, at + 3 * row)
    store(leaving, 0, a)
    store(leaving, 8, b)
    store(leaving, 16, c)
    store(leaving, 24, d)


@compiled
def _substitute(flow: Array, stride: int, n: int, keep: Array, u: Array) -> None:
    """Weights from the eliminated flow, four agents at a time, the first ones first."""
    zero_stays, zero_goes = load(keep, 0), spread(1.0) - load(keep, 0)
    for at in range(0, 32, 8):
        store(u, at, zero_stays * load(flow, at) + zero_goes * load(flow, 8 * stride + at))
    for low in range(32, 8 * n, 32):
        a, b, c, d = spread(0.0), spread(0.0), spread(0.0), spread(0.0)
        for at in range(0, low, 8):
            weight, row = load(u, at), stride * at + low
            a = a + weight * load(flow, row)
            b = b + weight * load(flow, row + 8)
            c = c + weight * load(flow, row + 16)
            d = d + weight * load(flow, row + 24)
        store(u, low, a)
        store(u, low + 8, b)
        store(u, low + 16, c)
        store(u, low + 24, d)


@compiled
def _normalise(trust: Array, groups: Array, keep: Array, first: int, u: Array, weights: Array) -> None:
    """Weights that sum to 1, from `u` times what each agent trusts those who are not left out."""
    K = len(trust)
    count = min(8, K - first)
    total = spread(0.0)
    for j in range(K):
        elsewhere = 0.0
        for g in range(groups.shape[1]):
            if 8 * g != first:
                elsewhere += groups[j, g]
        kept = spread(elsewhere)
        for k in range(first, first + count):
            kept = kept + spread(trust[j, k]) * load(keep, 8 * k)
        store(u, 8 * j, load(u, 8 * j) * kept)
        total = total + load(u, 8 * j)
    for j in range(K):
        store(u, 8 * j, load(u, 8 * j) * reciprocal(total))
        for lane in range(count):
            weights[first + lane, j] = u[8 * j + lane]
