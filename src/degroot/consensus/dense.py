"""Consensus: pool beliefs round by round, or solve for the stationary weights on which pooling would end up.

The model is DeGroot's (1974): each agent replaces its belief by the average of all beliefs, weighted by its trust.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from degroot.compute.compiled import Array, as_kernel_array, over_points
from degroot.compute.kernel import compiled, compiled_for
from degroot.compute.simd import LANES
from degroot.compute.simd_vectors import add_product, load, spread, store, vectors
from degroot.compute.sums import row_product, row_sum
from degroot.exceptions import InvalidInput
from degroot.trust import from_errors_into, sum_eight

ROW_SUM_TOLERANCE = 1e-6
MANY = 16  # agents from whom on eight leave at a time
HELD = 1 << 12  # numbers of trust that are made and used before the next are made
ROUNDING = 1e-14  # how far apart agents who agree may be, over the largest belief


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
    trust = check_trust(trust)
    weights = solve(trust)
    for place in map(tuple, np.argwhere(~np.isfinite(weights).all(axis=-1))):
        weights[place] = _from_another_end(trust[place])
    return weights


def solve(trust: Array) -> Array:
    """As `stationary`, for trust that is known to be positive with rows that sum to 1."""
    matrices = as_kernel_array(trust).reshape(-1, *trust.shape[-2:])
    weights = np.empty(matrices.shape[:2])
    over_points(stationary_weights, matrices, weights)
    return weights.reshape(trust.shape[:-1])


def _from_another_end(trust: Array) -> Array:
    """Weights where some trust is 0, or next to it: the agent who stays last has to be one whom all listen to."""
    for last in np.argsort(-trust.sum(axis=0), kind="stable"):
        order = np.append(last, np.delete(np.arange(len(trust)), last))
        weights = solve(trust[np.ix_(order, order)])
        if np.isfinite(weights).all():
            return weights[np.argsort(order)]
    raise InvalidInput("Trust must lead to one consensus; in `trust` there are agents who never listen to each other.")


@compiled_for("f8[3] f8[2]")
def stationary_weights(trust: Array, weights: Array) -> None:
    """As `solve`, of trust (M, K, K) into weights (M, K), both in one block of memory, on one thread."""
    if trust.shape[1] < MANY:
        _solve_few(trust, weights)
    else:
        _solve_many(trust, weights)


@compiled_for("f8[3] f8[2]")
def weights_from_errors(errors: Array, weights: Array) -> None:
    """As `stationary_weights`, for the trust that follows from errors (M, K, K). It is not kept."""
    M, K = weights.shape
    together = max(1, HELD // (K * K))
    trust = np.empty((min(together, M), K, K))
    for start in range(0, M, together):
        stop = min(start + together, M)
        some = trust[: stop - start]
        from_errors_into(errors[start:stop].reshape(-1, K), some.reshape(-1, K))
        stationary_weights(some, weights[start:stop])


@compiled
def _solve_few(trust: Array, weights: Array) -> None:
    r"""Elimination and back substitution.

    For k = K, ..., 2: :math:`h_{kj} = \tau_{jk} / \sum_{l<k} \tau_{kl}`, what j hands to k, and
    :math:`\tau_{ij} \leftarrow \tau_{ij} + h_{ki} \tau_{kj}` for i, j < k. Then
    :math:`w_k = \sum_{j<k} w_j h_{kj}`, up to a factor.
    """
    K = trust.shape[1]
    staying, handed = np.empty((K, K)), np.empty((K, K))
    for m in range(trust.shape[0]):
        for i in range(K):
            for j in range(K):
                staying[i, j] = trust[m, i, j]
        for k in range(K - 1, 0, -1):
            to_others = row_sum(staying, k, k)
            for j in range(k):
                handed[k, j] = staying[j, k] / to_others
            for i in range(k):
                share = handed[k, i]
                for j in range(k):
                    staying[i, j] += share * staying[k, j]
        weights[m, 0] = total = 1.0
        for k in range(1, K):
            weights[m, k] = row_product(weights, m, handed, k, k)
            total += weights[m, k]
        for k in range(K):
            weights[m, k] /= total


@compiled
def _solve_many(trust: Array, weights: Array) -> None:
    """As `_solve_few`, eight agents at a time: those who stay are told of all who have left only before they leave.

    Before the first agent there may be places of nobody, so that their number is a multiple of 8.
    """
    M, K = weights.shape
    n = (K + LANES - 1) // LANES * LANES
    first, stride = n - K, (n // LANES | 1) * LANES  # odd, since the cache holds few rows that are 1 KB apart
    staying, handed = vectors(n * stride // LANES), vectors(n * stride // LANES)
    u, lanes = vectors(n // LANES), vectors(1)
    staying[:] = 0.0
    handed[:] = 0.0
    for m in range(M):
        for i in range(K):
            row = (first + i) * stride + first
            for j in range(K):
                staying[row + j] = trust[m, i, j]
        for low in range(n - LANES, -1, -LANES):
            _tell(staying, handed, n, stride, low)
            for agent in range(low + LANES - 1, max(low - 1, first), -1):
                _leave(staying, handed, stride, low, agent, lanes)
        _substitute(handed, n, stride, first, u, lanes)
        total = 0.0
        for k in range(first, n):
            total += u[k]
        for k in range(K):
            weights[m, k] = u[first + k] / total


@compiled
def _tell(staying: Array, handed: Array, n: int, stride: int, low: int) -> None:
    """The eight agents from `low` on, who are to leave, take over what they reach through all who have left."""
    top = low + LANES
    for j in range(low):
        for k in range(low, top):
            handed[k * stride + j] = staying[j * stride + k]
    for j in range(0, top, LANES):
        add_product(
            handed,
            top * stride + low,
            stride,
            staying,
            top * stride + j,
            stride,
            n - top,
            staying,
            low * stride + j,
            stride,
        )
    for j in range(0, low, LANES):
        add_product(
            staying,
            top * stride + low,
            stride,
            handed,
            top * stride + j,
            stride,
            n - top,
            handed,
            low * stride + j,
            stride,
        )


@compiled
def _leave(staying: Array, handed: Array, stride: int, low: int, agent: int, lanes: Array) -> None:
    """One of the eight agents from `low` on leaves, those after it already have: what others hand to it.

    What is written beyond place `agent` means nothing.
    """
    top, row = low + LANES, agent * stride
    for j in range(low, agent):
        handed[row + j] = staying[j * stride + agent]
    for gone in range(top - 1, agent, -1):
        share, back = spread(handed[gone * stride + agent]), spread(staying[gone * stride + agent])
        for j in range(0, top, LANES):
            store(staying, row + j, load(staying, row + j) + share * load(staying, gone * stride + j))
            store(handed, row + j, load(handed, row + j) + back * load(handed, gone * stride + j))
    sums = spread(0.0)
    for j in range(0, low, LANES):
        sums = sums + load(staying, row + j)
    store(lanes, 0, sums)
    to_others = sum_eight(lanes)
    for j in range(low, agent):
        to_others += staying[row + j]
    for j in range(0, top, LANES):
        store(handed, row + j, load(handed, row + j) / spread(to_others))


@compiled
def _substitute(handed: Array, n: int, stride: int, first: int, u: Array, lanes: Array) -> None:
    """Weights, up to a factor, from what agents hand to each other."""
    u[:] = 0.0
    u[first] = 1.0
    for k in range(first + 1, n):
        low = k // LANES * LANES
        sums = spread(0.0)
        for j in range(0, low, LANES):
            sums = sums + load(u, j) * load(handed, k * stride + j)
        store(lanes, 0, sums)
        total = sum_eight(lanes)
        for j in range(low, k):
            total += u[j] * handed[k * stride + j]
        u[k] = total


@dataclass(frozen=True, slots=True)
class Pooling:
    """What the agents believe after pooling."""

    beliefs: Array  # (..., K) every agent's belief after the last round
    rounds: NDArray[np.int64]  # (...) rounds used
    converged: NDArray[np.bool_]  # (...) whether the agents agree within the tolerance

    @property
    def value(self) -> Array:
        """The mean of the beliefs, (...): the answer also when pooling is stopped early."""
        mean: Array = self.beliefs.mean(axis=-1)
        return mean


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
    if rounds < 0:
        raise InvalidInput(f"`rounds` must be 0 or more; got {rounds}.")
    if tolerance is not None and not tolerance >= 0:
        raise InvalidInput(f"`tolerance` must be 0 or more; got {tolerance}.")
    matrices, start = check_beliefs(trust, beliefs)
    shape, K = start.shape[:-1], start.shape[-1]
    pooled = np.array(start).reshape(-1, K)
    used, agreed = np.empty(len(pooled), np.int64), np.empty(len(pooled), np.bool_)
    limit = -1.0 if tolerance is None else float(tolerance)

    def kernel(trust: Array, beliefs: Array, used: NDArray[np.int64], agreed: NDArray[np.bool_]) -> None:
        _pool(trust, beliefs, rounds, limit, used, agreed)

    over_points(kernel, matrices.reshape(-1, K, K), pooled, used, agreed)
    return Pooling(pooled.reshape(start.shape), used.reshape(shape), agreed.reshape(shape))


def trace_pooling(trust: ArrayLike, beliefs: ArrayLike, agreement: float, *, rounds: int = 100) -> Array:
    """Beliefs at first and after every round of `pool`, until all agents agree: (rounds used + 1, ..., K).

    Parameters
    ----------
    trust : (..., K, K)
        Rows sum to 1.
    beliefs : (..., K)
    agreement : float
        How far apart beliefs may be in the end, over how far apart they were at first.
    rounds : int
        How many rounds to take at most.

    Examples
    --------
    >>> trace_pooling([[0.5, 0.5], [0.25, 0.75]], [0.0, 3.0], 0.1)
    array([[0.    , 3.    ],
           [1.5   , 2.25  ],
           [1.875 , 2.0625]])
    """
    path = [np.asarray(beliefs, dtype=np.float64)]
    enough = agreement * np.ptp(path[0], axis=-1)
    while len(path) <= rounds and (np.ptp(path[-1], axis=-1) > enough).any():
        path.append(pool(trust, path[-1], rounds=1).beliefs)
    return np.array(path)


@compiled
def _spread(beliefs: Array) -> float:
    return float(beliefs.max() - beliefs.min())


@compiled_for("f8[3] f8[2] i8 f8 i8[1] b1[1]")
def _pool(
    trust: Array, beliefs: Array, rounds: int, tolerance: float, used: NDArray[np.int64], agreed: NDArray[np.bool_]
) -> None:
    K = beliefs.shape[1]
    following = np.empty(K)
    for m in range(beliefs.shape[0]):
        rounding = ROUNDING * np.abs(beliefs[m]).max()
        used[m] = 0
        while used[m] < rounds and not _spread(beliefs[m]) <= tolerance:
            for i in range(K):
                following[i] = 0.0
                for j in range(K):
                    following[i] += trust[m, i, j] * beliefs[m, j]
            beliefs[m, :] = following
            used[m] += 1
        agreed[m] = _spread(beliefs[m]) <= max(tolerance, rounding)


def check_trust(trust: ArrayLike) -> Array:
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


def check_beliefs(trust: ArrayLike, beliefs: ArrayLike) -> tuple[Array, Array]:
    """`trust` (..., K, K) and `beliefs` (..., K) about the same points, checked."""
    matrices, start = check_trust(trust), np.asarray(beliefs, dtype=np.float64)
    K = matrices.shape[-1]
    if start.ndim < 1 or start.shape[-1] != K:
        raise InvalidInput(f"`beliefs` must have one belief for each of {K} agents; its shape is {start.shape}.")
    try:
        shape = np.broadcast_shapes(matrices.shape[:-2], start.shape[:-1])
    except ValueError as error:
        raise InvalidInput(
            f"`beliefs` must be about as many points as `trust`; the shapes are {start.shape} and {matrices.shape}."
        ) from error
    return as_kernel_array(np.broadcast_to(matrices, (*shape, K, K))), as_kernel_array(
        np.broadcast_to(start, (*shape, K))
    )
