r"""Stacking: the weights with which the models together would have erred least near a point.

Each agent i sends, for a point, the second moments of all models' residuals on its rows near it,
:math:`G_i = \sum_n k_n r_n r_n' / \sum_n k_n` with kernel weights k, how far those rows are, and how many they amount
to. Pooled to G, :math:`w'Gw` is the local mean squared error of the models' weighted mean: unlike the errors of the
models one by one, it knows which of them err together. (Breiman, *Stacked regressions*, 1996.)

Moments are packed: entry (j, l), l <= j, of a symmetric matrix is at place j (j + 1) / 2 + l. J agents have K models;
in a collective J = K, and model i is agent i's.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from degroot.compute.compiled import Array, as_kernel_array, over_points
from degroot.compute.kernel import compiled, compiled_for
from degroot.exceptions import InvalidInput
from degroot.stacking.simplex import minimise, rooms, solve

__all__ = ["RIDGE", "Pool", "coverage", "pool", "solve", "values_without", "weigh", "weigh_pooled", "weights"]

RIDGE = 1.0
NEAREST, FARTHEST = 1e-150, 1e150  # bounds on what a spread counts for, so that all shares are positive
ALIKE = 1e-8  # how far a matrix may be from symmetric and from positive semi-definite, over its diagonal


def coverage(spread: Array) -> Array:
    r"""How much each agent's moments count, :math:`c_i = \frac{1 / s_i}{\sum_l 1 / s_l}`.

    A spread of 0 counts as the least that can be: that agent gets nearly all. Unlike a floor that depends on the other
    spreads, this lets nobody change how the others compare.

    Parameters
    ----------
    spread : (..., K)
        Mean squared distance from the point to each agent's rows near it. Infinite for an agent without rows.

    Returns
    -------
    (..., K)
        Rows sum to 1. An agent without rows gets 0; if all are, they count alike.

    Examples
    --------
    >>> coverage(np.array([[1.0, 4.0], [0.0, 4.0], [np.inf, 4.0], [np.inf, np.inf]])).round(3)
    array([[0.8, 0.2],
           [1. , 0. ],
           [0. , 1. ],
           [0.5, 0.5]])
    """
    spread = as_kernel_array(spread)
    rows = spread.reshape(-1, spread.shape[-1])
    shares = np.empty_like(rows)
    over_points(_coverage, rows, shares)
    return shares.reshape(spread.shape)


def pool(moments: Array, spread: Array, effective: Array) -> tuple[Array, Array]:
    r"""Everybody's moments, :math:`G = \sum_i c_i G_i`, and how many rows they amount to.

    That is :math:`n = 1 \big/ \sum_i c_i^2 / n_i`: by it the variance of G shrinks, as that of each :math:`G_i` by
    :math:`n_i`.

    Parameters
    ----------
    moments : (M, J, K (K + 1) / 2)
        Packed; not looked at where an agent's coverage is 0.
    spread : (M, J)
        What `coverage` takes.
    effective : (M, J)
        :math:`n_i = (\sum_n k_n)^2 / \sum_n k_n^2`, how many rows each agent's moments amount to.

    Returns
    -------
    (M, K, K) and (M,)

    Examples
    --------
    >>> gram, n = pool(np.array([[[1.0, 0.0, 2.0], [6.0, 5.0, 7.0]]]), np.array([[1.0, 4.0]]), np.array([[8.0, 8.0]]))
    >>> gram
    array([[[2., 1.],
            [1., 3.]]])
    >>> n.round(2)
    array([11.76])
    """
    moments, spread, effective = as_kernel_array(moments), as_kernel_array(spread), as_kernel_array(effective)
    K = _count_models(moments.shape[-1])
    gram, n = np.empty((len(moments), K, K)), np.empty(len(moments))
    over_points(_pool, moments, spread, effective, gram, n)
    return gram, n


def weigh(moments: Array, spread: Array, effective: Array, ridge: float = RIDGE) -> Array:
    r"""Everybody's weights: `pool`, then `solve` with shrinkage :math:`\text{ridge} \cdot K / n`.

    The noise in G grows with the number of models and falls with the number of rows, and so does the shrinkage, as in
    Ledoit and Wolf, *A well-conditioned estimator for large-dimensional covariance matrices*, 2004.

    Parameters
    ----------
    moments, spread, effective
        What `pool` takes.
    ridge : float
        Not negative.

    Returns
    -------
    (M, K)

    Examples
    --------
    >>> moments = np.array([[[1.0, 0.0, 4.0], [1.0, 0.0, 4.0]]])
    >>> weigh(moments, np.ones((1, 2)), np.full((1, 2), 20.0), ridge=0.0)
    array([[0.8, 0.2]])
    >>> weigh(moments, np.ones((1, 2)), np.full((1, 2), 20.0)).round(3)
    array([[0.794, 0.206]])
    """
    return weigh_pooled(*pool(moments, spread, effective), ridge)


def weigh_pooled(gram: Array, n: Array, ridge: float = RIDGE) -> Array:
    """As `weigh`, from what `pool` gives."""
    with np.errstate(divide="ignore"):  # moments of no rows at all: no limit to the shrinkage
        return solve(gram, ridge * gram.shape[-1] / n if ridge > 0.0 else 0.0)


class Pool:
    """What `pool` gives, from agents whose moments are there one after the other and need not be kept."""

    def __init__(self, M: int, K: int) -> None:
        self.K, self.total, self.sums = K, np.zeros((M, K * (K + 1) // 2)), np.zeros((M, 3))
        self.sums[:, 2] = FARTHEST

    def add(self, moments: Array, spread: Array, effective: Array) -> None:
        """Add an agent's moments (M, K (K + 1) / 2), spread (M,) and effective number (M,)."""
        _add_to_pool(moments, spread, effective, self.total, self.sums)

    @property
    def complete(self) -> bool:
        """Whether somebody has rows at every point."""
        return bool((self.sums[:, 0] > 0.0).all())

    def pooled(self) -> tuple[Array, Array]:
        """(M, K, K) and (M,)"""
        gram = np.empty((len(self.total), self.K, self.K))
        _unpack_all(self.total, self.sums, gram)
        return gram, self.sums[:, 0] ** 2 / self.sums[:, 1]


def values_without(moments: Array, spread: Array, effective: Array, beliefs: Array, ridge: float = RIDGE) -> Array:
    r"""What stacking would say without each agent in turn: without its moments, and without its model.

    :math:`p_{-i} = \sum_{j \ne i} w^{(i)}_j p_j`, with the weights that `weigh` gives to the others.

    Parameters
    ----------
    moments : (M, K, K (K + 1) / 2)
    spread, effective, beliefs : (M, K)
    ridge : float
        Not negative.

    Returns
    -------
    (M, K)
        NaN for K = 1: nobody is left.

    Examples
    --------
    >>> moments = np.array([[[1.0, 0.0, 4.0, 0.0, 0.0, 4.0]] * 3])
    >>> values_without(moments, np.ones((1, 3)), np.full((1, 3), 20.0), np.array([[1.0, 2.0, 3.0]]), ridge=0.0)
    array([[2.5, 1.4, 1.2]])
    """
    beliefs = as_kernel_array(beliefs)
    if beliefs.shape[-1] == 1:
        return np.full_like(beliefs, np.nan)
    values = np.empty_like(beliefs)

    def kernel(moments: Array, spread: Array, effective: Array, beliefs: Array, values: Array) -> None:
        _values_without(moments, spread, effective, beliefs, float(ridge), values)

    over_points(kernel, as_kernel_array(moments), as_kernel_array(spread), as_kernel_array(effective), beliefs, values)
    return values


def weights(gram: ArrayLike, ridge: ArrayLike = 0.0) -> Array:
    r"""As `solve`, for any matrices: refuses those that cannot be second moments.

    Parameters
    ----------
    gram : (..., K, K)
        Second moments of the residuals of K models.
    ridge : (...) or float
        What is added to every diagonal, over the least of them. Not negative.

    Returns
    -------
    (..., K)
        Not negative; rows sum to 1.

    Examples
    --------
    >>> weights([[1.0, 0.0], [0.0, 4.0]])
    array([0.8, 0.2])
    >>> weights([[1.0, 0.5], [0.0, 4.0]])
    Traceback (most recent call last):
    degroot.exceptions.InvalidInput: `gram` must be symmetric; entry (0, 1) is 0.5 and (1, 0) is 0.
    """
    matrices, amounts = np.asarray(gram, np.float64), np.asarray(ridge, np.float64)
    if matrices.ndim < 2 or matrices.shape[-1] != matrices.shape[-2] or matrices.shape[-1] == 0:
        raise InvalidInput(f"`gram` must be square, (..., K, K) with K at least 1; its shape is {matrices.shape}.")
    if not np.isfinite(matrices).all():
        raise InvalidInput("`gram` must be finite; it is not.")
    if not (np.isfinite(amounts) & (amounts >= 0.0)).all():
        raise InvalidInput(f"`ridge` must be finite and not negative; got {ridge!r}.")
    if amounts.ndim and amounts.shape != matrices.shape[:-2]:
        raise InvalidInput(f"`ridge` must be one number, or one for each matrix; its shape is {amounts.shape}.")
    _refuse_impossible(matrices)
    return solve(matrices, amounts)


def _refuse_impossible(gram: Array) -> None:
    """Refuse what is not symmetric or not positive semi-definite, in units in which every diagonal is 1."""
    diagonal = np.diagonal(gram, axis1=-2, axis2=-1)
    if (diagonal < 0.0).any():
        raise InvalidInput(f"The diagonal of `gram` must not be negative; its least entry is {diagonal.min():.6g}.")
    root = np.sqrt(diagonal)
    bound = root[..., :, None] * root[..., None, :]
    apart = np.abs(gram - np.swapaxes(gram, -1, -2)) > ALIKE * bound
    if apart.any():
        *point, j, k = (int(place) for place in np.argwhere(apart)[0])
        above, below = gram[(*point, j, k)], gram[(*point, k, j)]
        raise InvalidInput(
            f"`gram` must be symmetric; entry {(*point, j, k)} is {above:.6g} and {(*point, k, j)} is {below:.6g}."
        )
    scaled = np.divide(gram, bound, out=np.where(gram == 0.0, 0.0, -np.inf), where=bound > 0.0)
    least = np.linalg.eigvalsh(scaled).min(initial=0.0) if np.isfinite(scaled).all() else -np.inf
    if least < -ALIKE * gram.shape[-1]:
        raise InvalidInput(
            "`gram` must be positive semi-definite, as second moments are; with a diagonal of 1 its least eigenvalue "
            f"is {least:.6g}."
        )


def _count_models(packed: int) -> int:
    """K, of which `packed` is K (K + 1) / 2."""
    return (math.isqrt(8 * packed + 1) - 1) // 2


@compiled_for("f8[2] f8[2]")
def _coverage(spread: Array, shares: Array) -> None:
    for m in range(len(spread)):
        _cover(spread[m], shares[m])


@compiled
def _cover(spread: Array, shares: Array) -> None:
    """Shares of the agents at one point."""
    least = FARTHEST
    for i in range(len(spread)):
        least = min(least, max(spread[i], NEAREST))
    for i in range(len(spread)):
        shares[i] = least / min(max(spread[i], NEAREST), FARTHEST) if spread[i] < np.inf else 0.0
    _share_out(shares, -1, shares)


@compiled
def _share_out(shares: Array, exclude_row: int, others: Array) -> float:
    """Shares of all but one agent that sum to 1, equal ones if nobody has any; what their sum was."""
    total = 0.0
    for i in range(len(shares)):
        total += shares[i] if i != exclude_row else 0.0
    inverse = 1.0 / total
    for i in range(len(shares)):
        share = shares[i] * inverse if total > 0.0 else 1.0 / (len(shares) - (exclude_row >= 0))
        others[i] = share if i != exclude_row else 0.0
    return total


@compiled
def _add(share: float, moments: Array, total: Array, out: Array) -> None:
    """One agent's share of moments, and a total; moments that have no share need not be numbers."""
    for at in range(len(out)):
        out[at] = total[at] + share * moments[at] if share > 0.0 else total[at]


@compiled
def _count_rows(shares: Array, effective: Array) -> float:
    """How many rows the pooled moments amount to."""
    variance = 0.0
    for i in range(len(shares)):
        if shares[i] > 0.0:
            variance += shares[i] * shares[i] / effective[i]
    return 1.0 / variance


@compiled
def _shrinkage(ridge: float, K: int, n: float) -> float:
    return ridge * K / n if ridge > 0.0 else 0.0


@compiled
def _unpack(some: Array, others: Array, total: float, gram: Array) -> None:
    """The matrix of packed moments in two parts, over `total`."""
    at, inverse = 0, 1.0 / total
    for j in range(len(gram)):
        for k in range(j + 1):
            gram[j, k] = gram[k, j] = (some[at] + others[at]) * inverse
            at += 1


@compiled_for("f8[3] f8[2] f8[2] f8[3] f8[1]")
def _pool(moments: Array, spread: Array, effective: Array, gram: Array, n: Array) -> None:
    shares, packed, nothing = np.empty(spread.shape[1]), np.empty(moments.shape[2]), np.zeros(moments.shape[2])
    for m in range(len(moments)):
        _cover(spread[m], shares)
        packed[:] = 0.0
        for i in range(len(shares)):
            _add(shares[i], moments[m, i], packed, packed)
        _unpack(packed, nothing, 1.0, gram[m])
        n[m] = _count_rows(shares, effective[m])


@compiled_for("f8[2] f8[1] f8[1] f8[2] f8[2]")
def _add_to_pool(moments: Array, spread: Array, effective: Array, total: Array, sums: Array) -> None:
    """In units of the least spread so far: `sums` are of shares and of shares squared over rows, and that spread."""
    for m in range(len(moments)):
        near = min(max(spread[m], NEAREST), FARTHEST)
        if near < sums[m, 2]:
            factor = near / sums[m, 2]
            sums[m, 0], sums[m, 1], sums[m, 2] = sums[m, 0] * factor, sums[m, 1] * factor * factor, near
            for at in range(total.shape[1]):
                total[m, at] *= factor
        if spread[m] < np.inf:
            share = sums[m, 2] / near
            sums[m, 0] += share
            sums[m, 1] += share * share / effective[m]
            for at in range(total.shape[1]):
                total[m, at] += share * moments[m, at]


@compiled_for("f8[2] f8[2] f8[3]")
def _unpack_all(total: Array, sums: Array, gram: Array) -> None:
    nothing = np.zeros(total.shape[1])
    for m in range(len(total)):
        _unpack(total[m], nothing, sums[m, 0], gram[m])


@compiled_for("f8[3] f8[2] f8[2] f8[2] f8 f8[2]")
def _values_without(
    moments: Array, spread: Array, effective: Array, beliefs: Array, ridge: float, values: Array
) -> None:
    """Moments without an agent are those before and those after it: nothing is subtracted."""
    M, K, length = moments.shape
    shares, others, before, after = np.empty(K), np.empty(K), np.empty(length), np.empty((K + 1, length))
    gram, weights, models = np.empty((K, K)), np.empty(K), np.empty(K, np.int64)
    room, support = rooms(K)
    for m in range(M):
        _cover(spread[m], shares)
        before[:] = after[K] = 0.0
        for i in range(K - 1, -1, -1):
            _add(shares[i], moments[m, i], after[i + 1], after[i])
        _unpack(before, after[0], 1.0, gram)
        shrinkage = _shrinkage(ridge, K, _count_rows(shares, effective[m]))
        size = minimise(gram, shrinkage, -1, 0, room, support, weights)
        for p in range(size):
            models[p] = support[p]
        for i in range(K):
            total = _share_out(shares, i, others)
            if total == 0.0:  # nobody else has rows: `before` and `after` are 0, and all others count alike
                total = 1.0
                for j in range(K):
                    _add(others[j], moments[m, j], after[i + 1], after[i + 1])
            _unpack(before, after[i + 1], total, gram)
            _add(shares[i], moments[m, i], before, before)
            guess = 0
            for p in range(size):
                support[guess] = models[p]
                guess += models[p] != i
            shrinkage = _shrinkage(ridge, K - 1, _count_rows(others, effective[m]))
            minimise(gram, shrinkage, i, guess, room, support, weights)
            values[m, i] = 0.0
            for j in range(K):
                values[m, i] += weights[j] * beliefs[m, j]
