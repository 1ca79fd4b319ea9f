r"""The least quadratic form on the simplex: weights that are not negative and sum to 1, exactly.

.. math:: \min_w\; w'Aw \quad \text{such that} \quad w \ge 0, \; \sum_j w_j = 1.

It is :math:`w = z / \sum_j z_j`, where z is the least of :math:`z'Az/2 - \sum_j z_j` over all :math:`z \ge 0`: least
squares with coefficients that are not negative, in normal form. Models with a weight, the support, have a slope
:math:`1 - (Az)_j` of 0, all others one that is not positive. The active set of Lawson and Hanson (*Solving Least
Squares Problems*, 1974) finds them: the model with the steepest slope comes in, one at a time, and whoever reaches 0 on
the way is dropped.

Everything is in units in which each model's diagonal is 1. The factor of Cholesky is extended by a row for every model
let in, over the columns of all models: slopes follow from it at once, and rows of A are read only for the support.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from degroot.compute.compiled import Array, as_kernel_array, over_points
from degroot.compute.kernel import compiled, compiled_for

Places = NDArray[np.int64]

EPS = float(np.finfo(np.float64).eps)
TINY = float(np.finfo(np.float64).tiny)
LEAST = 1e-200  # what a diagonal counts for at least, over the mean diagonal: for a model that never errs

# Rows of the room to work in. Places p, q are places in the support; j are models.
UNIT = 0  # by j: one over the root of the diagonal; 0 for a model that is left out
SLOPE = 1  # by j
HALF = 2  # by p: the factor times z
Z = 3  # by p
TRIAL = 4  # by p: z for a support that may not last
FACTOR = 5  # K rows, one for each p, by j; then K rows, one for each p, by q: its column, and one over its diagonal


def solve(gram: Array, shrinkage: ArrayLike) -> Array:
    r"""The weights of least shrunk error, :math:`w'Gw + s\, g\, |w|^2`, not negative, with sum 1: exactly.

    Here s is the shrinkage and g the least of the diagonal of G, the error of the best model. Where that leaves a
    choice, as between two copies of a model without shrinkage, the weights are those for diagonals larger by what
    rounding may do to them.

    Parameters
    ----------
    gram : (..., K, K)
        Symmetric, positive semi-definite. All 0 gives equal weights.
    shrinkage : (...) or float
        Not negative. Infinite shrinkage gives equal weights.

    Returns
    -------
    (..., K)

    Examples
    --------
    >>> solve(np.array([[[1.0, 0.0], [0.0, 4.0]], [[1.0, 2.0], [2.0, 5.0]]]), 0.0)
    array([[0.8, 0.2],
           [1. , 0. ]])
    """
    matrices = as_kernel_array(gram).reshape(-1, *gram.shape[-2:])
    amounts = as_kernel_array(np.broadcast_to(np.asarray(shrinkage, np.float64), gram.shape[:-2])).reshape(-1)
    weights = np.empty(matrices.shape[:2])
    over_points(_solve, matrices, amounts, weights)
    return weights.reshape(gram.shape[:-1])


@compiled_for("f8[3] f8[1] f8[2]")
def _solve(gram: Array, shrinkage: Array, weights: Array) -> None:
    room, support = rooms(gram.shape[1])
    for m in range(len(gram)):
        minimise(gram[m], shrinkage[m], -1, 0, room, support, weights[m])


@compiled
def rooms(K: int) -> tuple[Array, Places]:
    """Room to work in for K models, and for the support: models with a weight, in the order in which they came."""
    return np.empty((FACTOR + 2 * K, K)), np.empty(K, np.int64)


@compiled
def minimise(
    gram: Array, shrinkage: float, exclude_row: int, guess: int, room: Array, support: Places, weights: Array
) -> int:
    r"""The weights for :math:`A = G + s\, g\, I`, with g the least of the diagonal; the size of the support.

    One model may be left out, which then counts for nothing and gets no weight; -1 if none is. The search begins with
    the first `guess` models of the support. Where G does not tell models apart, for lack of any error or of any limit
    to the shrinkage, all weights are equal.
    """
    scale = _find_units(gram, shrinkage, exclude_row, room)
    if scale > 0.0:
        size = _search(gram, scale, guess, room, support)
        _to_weights(size, room, support, weights)
        return size
    for j in range(len(weights)):
        weights[j] = 0.0 if j == exclude_row else 1.0 / (len(weights) - (exclude_row >= 0))
    return 0


@compiled
def _find_units(gram: Array, shrinkage: float, exclude_row: int, room: Array) -> float:
    """Fill in the units; one over the mean diagonal, or 0 where G does not tell models apart.

    Models that err alike would leave their weights undetermined, so every diagonal grows by what rounding may do to it.
    """
    K, mean, least = len(gram), 0.0, np.inf
    part = 1.0 / (K - (exclude_row >= 0))
    for j in range(K):
        if j != exclude_row:
            mean += part * gram[j, j]
            least = min(least, gram[j, j])
    if not TINY <= mean < np.inf or not shrinkage < np.inf:
        return 0.0
    scale, grown = 1.0 / mean, 1.0 + 8.0 * K * EPS
    more = shrinkage * (least * scale)
    for j in range(K):
        room[UNIT, j] = 1.0 / np.sqrt(max(gram[j, j] * scale * grown + more, LEAST))
    if exclude_row >= 0:
        room[UNIT, exclude_row] = 0.0
    return scale


@compiled
def _search(gram: Array, scale: float, size: int, room: Array, support: Places) -> int:
    """From a guess, the first `size` models of the support, to the support: its size.

    Whenever models are dropped the sum of z has grown since that happened last, which is a smaller form. So no support
    comes twice, and the search ends; if the sum has not grown, there was nothing to gain but rounding.
    """
    K, most, growing = len(gram), 0.0, True
    size = _drop(gram, scale, size, room, support)
    while True:
        reach = _keep_trial(size, room)
        model, steepest = -1, 4.0 * K * EPS * reach  # what rounding makes of a slope of 0
        for j in range(K):
            if room[SLOPE, j] > steepest:
                model, steepest = j, room[SLOPE, j]
        if model < 0 or not growing:
            return size
        _append(model, gram, scale, size, room, support)
        size += 1
        if not _try(size, room):
            room[Z, size - 1] = 0.0
            size = _step_back(gram, scale, size, room, support)
            total = _total(size, room)
            growing, most = total > most, total


@compiled
def _to_weights(size: int, room: Array, support: Places, weights: Array) -> None:
    """Weights that sum to 1, from z."""
    total = 0.0
    for p in range(size):
        total += room[Z, p] * room[UNIT, support[p]]
    for j in range(len(weights)):
        weights[j] = 0.0
    for p in range(size):
        weights[support[p]] = room[Z, p] * room[UNIT, support[p]] / total


@compiled
def _total(size: int, room: Array) -> float:
    """The sum of z in the models' own units, which is the squared length of the factor times z."""
    total = 0.0
    for p in range(size):
        total += room[HALF, p] * room[HALF, p]
    return total


@compiled
def _keep_trial(size: int, room: Array) -> float:
    """Take the trial for z; its sum."""
    reach = 0.0
    for p in range(size):
        room[Z, p] = room[TRIAL, p]
        reach += room[Z, p]
    return reach


@compiled
def _append(model: int, gram: Array, scale: float, p: int, room: Array, support: Places) -> None:
    """Let `model` in at place p: its row of the factor, and the slopes that follow."""
    K = len(gram)
    row, column, share = FACTOR + p, FACTOR + K + p, scale * room[UNIT, model]
    for j in range(K):
        room[row, j] = gram[model, j] * share * room[UNIT, j]
    room[row, model] = 1.0
    for q in range(p):
        common = room[FACTOR + q, model]
        room[column, q] = common
        for j in range(K):
            room[row, j] -= common * room[FACTOR + q, j]
    inverse = 1.0 / np.sqrt(max(room[row, model], 4.0 * EPS))
    half = room[SLOPE, model] * inverse
    room[column, p], room[HALF, p], support[p] = inverse, half, model
    for j in range(K):
        room[row, j] *= inverse
        room[SLOPE, j] -= half * room[row, j]
    for q in range(p + 1):
        room[SLOPE, support[q]] = 0.0


@compiled
def _refactor(gram: Array, scale: float, size: int, room: Array, support: Places) -> None:
    """The factor and the slopes from nothing."""
    for j in range(len(gram)):
        room[SLOPE, j] = room[UNIT, j]
    for p in range(size):
        _append(support[p], gram, scale, p, room, support)


@compiled
def _try(size: int, room: Array) -> bool:
    """The z for which all slopes in the support are 0, as the trial; whether it is positive."""
    columns, positive = FACTOR + room.shape[1], True
    for p in range(size):
        room[TRIAL, p] = room[HALF, p]
    for p in range(size - 1, -1, -1):
        value = room[TRIAL, p] * room[columns + p, p]
        room[TRIAL, p] = value
        positive = positive and value > 0.0
        for q in range(p):
            room[TRIAL, q] -= room[columns + p, q] * value
    return positive


@compiled
def _drop(gram: Array, scale: float, size: int, room: Array, support: Places) -> int:
    """Drop whoever is not positive, until all are: the size."""
    _refactor(gram, scale, size, room, support)
    while not _try(size, room):
        left = 0
        for p in range(size):
            if room[TRIAL, p] > 0.0:
                support[left] = support[p]
                left += 1
        size = left
        _refactor(gram, scale, size, room, support)
    return size


@compiled
def _step_back(gram: Array, scale: float, size: int, room: Array, support: Places) -> int:
    """Go from z towards a trial that is not positive, and drop who reaches 0 first, until it is: the size."""
    while True:
        first, step = 0, 2.0
        for p in range(size):
            z, trial = room[Z, p], room[TRIAL, p]
            if not trial > 0.0:
                reach = z / (z - trial) if z > 0.0 else 0.0
                if reach < step:
                    first, step = p, reach
        for p in range(size):
            room[Z, p] += step * (room[TRIAL, p] - room[Z, p])
        size -= 1
        for p in range(first, size):
            support[p], room[Z, p] = support[p + 1], room[Z, p + 1]
        _refactor(gram, scale, size, room, support)
        if _try(size, room):
            return size
