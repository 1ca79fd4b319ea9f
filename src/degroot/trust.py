"""Trust: how much each agent relies on each model, from how well the models do on the agent's own rows."""

import numpy as np
from numpy.typing import ArrayLike

from degroot.compute.compiled import Array, as_kernel_array, compiled, over_points
from degroot.compute.sums import row_sum
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
    over_points(_from_errors, rows, trust)
    return trust.reshape(table.shape)


@compiled
def trust_from_errors(errors: Array) -> Array:
    """As `inverse_error_weights`, for errors (M, J, K) in one block of memory, on one thread."""
    K, trust = errors.shape[2], np.empty_like(errors)
    _from_errors(errors.reshape(-1, K), trust.reshape(-1, K))
    return trust


@compiled
def _from_errors(errors: Array, trust: Array) -> None:
    K = errors.shape[1]
    for m in range(errors.shape[0]):
        worst = 0.0
        for j in range(K):
            worst = max(worst, errors[m, j])
        floor = max(EPS * worst, TINY)  # positive trust, so the consensus is unique
        for j in range(K):
            error = errors[m, j]
            trust[m, j] = floor / (floor if error <= floor else error)
        total = row_sum(trust, m, K)
        for j in range(K):
            trust[m, j] /= total
