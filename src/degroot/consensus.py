"""Consensus: the agents pool their beliefs, round by round, or the weights on which they would end up are solved for.

The model is DeGroot's (1974): each agent replaces its belief by the average of all beliefs, weighted by its trust.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from degroot.exceptions import InvalidInput
from degroot.points import Array, as_points, compiled, for_kernels, in_blocks
from degroot.sums import row_product, row_sum

ROW_SUM_TOLERANCE = 1e-6
LEAVING = 4  # agents that leave together while many stay


def stationary(trust: ArrayLike) -> Array:
    r"""The weights of the consensus: :math:`w T = w`, :math:`\sum_j w_j = 1`, exactly.

    By the elimination of Grassmann, Taksar and Heyman (1985): agents leave one by one and their trust is handed on to
    those who stay. It subtracts nothing, so every weight is accurate however unequal they are.

    Parameters
    ----------
    trust : (..., K, K)
        Rows sum to 1.

    Returns
    -------
    (..., K)

    Examples
    --------
    >>> stationary([[0.5, 0.5], [0.25, 0.75]]).round(4)
    array([0.3333, 0.6667])
    """
    trust = checked(trust)
    weights = solve(trust)
    for place in map(tuple, np.argwhere(~np.isfinite(weights).all(axis=-1))):
        weights[place] = _from_another_end(trust[place])
    return weights


def solve(trust: Array) -> Array:
    """As `stationary`, for trust that is known to be positive with rows that sum to 1."""
    matrices = for_kernels(trust).reshape(-1, *trust.shape[-2:])
    weights = np.empty(matrices.shape[:2])
    in_blocks(lambda start, stop: _solve(matrices[start:stop], weights[start:stop]), *as_points(matrices))
    return weights.reshape(trust.shape[:-1])


def _from_another_end(trust: Array) -> Array:
    """Weights where some trust is 0, or next to it: the agent who stays last has to be one whom all listen to."""
    for last in np.argsort(-trust.sum(axis=0), kind="stable"):
        order = np.append(last, np.delete(np.arange(len(trust)), last))
        weights = solve(trust[np.ix_(order, order)])
        if np.isfinite(weights).all():
            return weights[np.argsort(order)]
    raise InvalidInput("Trust must lead to one consensus; in `trust` there are agents who never listen to each other.")


@compiled
def _solve(trust: Any, weights: Any) -> None:
    K = trust.shape[1]
    left, rows, handed = np.empty((K, K)), np.empty((LEAVING, K)), np.empty((K, K))
    for m in range(trust.shape[0]):
        for i in range(K):
            for j in range(K):
                left[i, j] = trust[m, i, j]
        stay = K
        while stay > 1:
            leaving = LEAVING if stay > 4 * LEAVING else 1
            for k in range(leaving):
                _leave(left, stay, k, rows, handed)
            stay -= leaving
            _hand_on(left, stay, leaving, rows, handed)
        weights[m, 0] = total = 1.0
        for k in range(1, K):  # all come back
            weights[m, k] = row_product(weights, m, handed, k, k)
            total += weights[m, k]
        for k in range(K):
            weights[m, k] /= total


@compiled
def _leave(left: Any, stay: int, k: int, rows: Any, handed: Any) -> None:
    """The k-th of the last of `stay` agents leaves: its trust in those before it, and what they hand to it."""
    agent = stay - 1 - k
    for j in range(agent):
        rows[k, j] = left[agent, j]
        handed[agent, j] = left[j, agent]
    for earlier in range(k):  # who left just before, which `left` does not show yet
        gone = stay - 1 - earlier
        share, back = handed[gone, agent], rows[earlier, agent]
        for j in range(agent):
            rows[k, j] += share * rows[earlier, j]
            handed[agent, j] += back * handed[gone, j]
    to_others = row_sum(rows, k, agent)
    for j in range(agent):
        handed[agent, j] /= to_others


@compiled
def _hand_on(left: Any, stay: int, leaving: int, rows: Any, handed: Any) -> None:
    """Those who stay reach each other through those who leave as well; four at once read and write `left` once."""
    for i in range(stay):
        if leaving == LEAVING:
            a, b, c, d = handed[stay + 3, i], handed[stay + 2, i], handed[stay + 1, i], handed[stay, i]
            for j in range(stay):
                left[i, j] += a * rows[0, j] + b * rows[1, j] + c * rows[2, j] + d * rows[3, j]
        else:
            share = handed[stay, i]
            for j in range(stay):
                left[i, j] += share * rows[0, j]


@dataclass(frozen=True, slots=True)
class Pooling:
    """What the agents believe after pooling."""

    beliefs: Array  # (..., K) every agent's belief after the last round
    value: Array  # (...) their mean: the answer when pooling is stopped early
    rounds: NDArray[np.int64]  # (...) rounds used
    converged: NDArray[np.bool_]  # (...) whether the agents agree within the tolerance


def pool(trust: ArrayLike, beliefs: ArrayLike, *, rounds: int = 1000, tolerance: float | None = None) -> Pooling:
    r"""Pool beliefs in rounds, :math:`p \leftarrow T p`: the protocol among agents that have no centre.

    Parameters
    ----------
    trust : (..., K, K)
        Rows sum to 1.
    beliefs : (..., K)
        What every agent believes at first.
    rounds : int
        How many rounds to take; with a tolerance, at most so many.
    tolerance : float, optional
        Stop a point as soon as no agent's belief is farther than this from any other's: all agents agree. (That one
        round changes little is not enough. Agents who trust almost only themselves hardly move, and are far apart.)

    Returns
    -------
    Pooling
        Without a tolerance, `converged` says whether the agents agree to rounding.

    Examples
    --------
    >>> pooled = pool([[0.5, 0.5], [0.25, 0.75]], [0.0, 3.0], rounds=2)
    >>> pooled.beliefs
    array([1.875 , 2.0625])
    >>> pool([[0.5, 0.5], [0.25, 0.75]], [0.0, 3.0], tolerance=1e-6).rounds
    array(11)
    """
    trust, start = checked(trust), np.asarray(beliefs, dtype=np.float64)
    K = trust.shape[-1]
    if rounds < 0:
        raise InvalidInput(f"`rounds` must be 0 or more; got {rounds}.")
    if tolerance is not None and not tolerance >= 0:
        raise InvalidInput(f"`tolerance` must be 0 or more; got {tolerance}.")
    if start.ndim < 1 or start.shape[-1] != K:
        raise InvalidInput(f"`beliefs` must have one belief for each of {K} agents; its shape is {start.shape}.")
    try:
        shape = np.broadcast_shapes(trust.shape[:-2], start.shape[:-1])
    except ValueError as error:
        raise InvalidInput(
            f"`beliefs` must be about as many points as `trust`; the shapes are {start.shape} and {trust.shape}."
        ) from error
    matrices = for_kernels(np.broadcast_to(trust, (*shape, K, K))).reshape(-1, K, K)
    pooled = np.array(np.broadcast_to(start, (*shape, K))).reshape(-1, K)
    used, agreed = np.empty(len(pooled), np.int64), np.empty(len(pooled), np.bool_)
    limit = -1.0 if tolerance is None else float(tolerance)

    def block(first: int, last: int) -> None:
        _pool(matrices[first:last], pooled[first:last], rounds, limit, used[first:last], agreed[first:last])

    in_blocks(block, *as_points(matrices))
    final = pooled.reshape(*shape, K)
    return Pooling(final, final.mean(axis=-1), used.reshape(shape), agreed.reshape(shape))


@compiled
def _spread(beliefs: Any) -> float:
    return float(beliefs.max() - beliefs.min())


@compiled
def _pool(trust: Any, beliefs: Any, rounds: int, tolerance: float, used: Any, agreed: Any) -> None:
    K = beliefs.shape[1]
    following = np.empty(K)
    for m in range(beliefs.shape[0]):
        rounding = 1e-14 * np.abs(beliefs[m]).max()
        used[m] = 0
        while used[m] < rounds and not _spread(beliefs[m]) <= tolerance:
            for i in range(K):
                following[i] = 0.0
                for j in range(K):
                    following[i] += trust[m, i, j] * beliefs[m, j]
            beliefs[m, :] = following
            used[m] += 1
        agreed[m] = _spread(beliefs[m]) <= max(tolerance, rounding)


def checked(trust: ArrayLike) -> Array:
    """`trust` as an array (..., K, K), if it is square, not negative, and its rows sum to 1."""
    trust = np.asarray(trust, dtype=np.float64)
    if trust.ndim < 2 or trust.shape[-1] != trust.shape[-2] or trust.shape[-1] == 0:
        raise InvalidInput(f"`trust` must be square, (..., K, K) with K at least 1; its shape is {trust.shape}.")
    sums = trust.sum(axis=-1)
    wrong = ~(np.abs(sums - 1.0) <= ROW_SUM_TOLERANCE)
    if wrong.any():
        place = tuple(int(k) for k in np.argwhere(wrong)[0])
        raise InvalidInput(f"Every row of `trust` must sum to 1; row {place} sums to {sums[place]:.6g}.")
    if trust.size and trust.min() < 0.0:
        raise InvalidInput(f"`trust` must not be negative; its least entry is {trust.min():.6g}.")
    return trust
