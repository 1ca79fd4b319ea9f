"""Trust: how much each agent relies on each model, from how well the models do on the agent's own rows."""

import numpy as np
from numpy.typing import ArrayLike

from degroot.compute.compiled import Array, as_kernel_array, over_points
from degroot.compute.kernel import compiled, compiled_for
from degroot.compute.simd import LANES
from degroot.compute.simd_vectors import largest, load, spread, store, vectors
from degroot.exceptions import InvalidInput

EPS = float(np.finfo(np.float64).eps)
TINY = float(np.finfo(np.float64).tiny)


def from_errors(errors: ArrayLike) -> Array:
    r"""Trust in inverse proportion to the local error,

    .. math:: \tau_{ij} = \frac{1 / \mathrm{MSE}_{ij}}{\sum_l 1 / \mathrm{MSE}_{il}}

    (Mendler-Dünner et al., 2021). A model without any error would get all of the trust and leave the
    consensus undetermined, so errors below `EPS` times the largest in their row count as just that.

    Parameters
    ----------
    errors : (..., K)
        Mean squared errors, not negative: agent i's row of all models' errors near a point.

    Returns
    -------
    (..., K)
        Positive; rows sum to 1.

    Examples
    --------
    >>> from_errors([[1.0, 4.0], [0.0, 2.0]]).round(3)
    array([[0.8, 0.2],
           [1. , 0. ]])
    """
    table = as_kernel_array(errors)
    if table.ndim < 1 or not np.isfinite(table).all() or (table < 0.0).any():
        raise InvalidInput("`errors` must be finite and not negative, (..., K); they are not.")
    return inverse_error_weights(table)


def inverse_error_weights(table: Array) -> Array:
    """As `from_errors`, for errors that are known to be finite and not negative."""
    table = as_kernel_array(table)
    rows = table.reshape(-1, table.shape[-1])
    trust = np.empty_like(rows)
    over_points(from_errors_into, rows, trust)
    return trust.reshape(table.shape)


@compiled_for("f8[2] f8[2]")
def from_errors_into(errors: Array, trust: Array) -> None:
    """As `inverse_error_weights`, from errors (M, K) into trust (M, K), both in one block of memory, on one thread."""
    M, K = errors.shape
    whole, lanes = K - K % LANES, vectors(1)
    for m in range(M):
        largest_of, row = spread(0.0), m * K
        for at in range(row, row + whole, LANES):
            largest_of = largest(load(errors, at), largest_of)
        store(lanes, 0, largest_of)
        worst = 0.0
        for lane in range(LANES):
            worst = max(worst, lanes[lane])
        for j in range(whole, K):
            worst = max(worst, errors[m, j])
        floor = max(EPS * worst, TINY)  # positive trust, so the consensus is unique
        least, sums, total = spread(floor), spread(0.0), 0.0
        for at in range(row, row + whole, LANES):
            inverse = least / largest(least, load(errors, at))  # of NaN it is NaN
            sums = sums + inverse
            store(trust, at, inverse)
        for j in range(whole, K):
            error = errors[m, j]
            trust[m, j] = floor / (floor if error <= floor else error)
            total += trust[m, j]
        store(lanes, 0, sums)
        total += sum_eight(lanes)
        for at in range(row, row + whole, LANES):
            store(trust, at, load(trust, at) / spread(total))
        for j in range(whole, K):
            trust[m, j] /= total


@compiled
def sum_eight(lanes: Array) -> float:
    """The sum of the first eight numbers, in an order that is always the same."""
    total: float = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]))
    return total
