"""Bounds: what an agent says of models is kept within what its peers measured of them.

M points, K agents; f of them may lie, see `degroot.guard`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array, as_kernel_array, over_points
from degroot.compute.kernel import compiled, compiled_for
from degroot.compute.order import find_median, find_nth_smallest
from degroot.guard.checks import Mask, tolerated_liars

LEEWAY = 2.0  # how far errors may be from what the peers measured, as a factor


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the peers measured of every model near each point."""

    low: Array  # (M, K) from below
    high: Array  # (M, K) from above
    own: Array  # (M, K) the least that its owner may say of it


def clip_to_peer_bounds(errors: Array, local: Array, stretch: Array, kept: Mask | None = None) -> Array:
    r"""Errors that do not differ much from what the peers measured, and of one's own model are not better at all.

    For each model j the peers are all other agents that are near, and the nearest 2 f + 1 in any case. What agent k
    measured, :math:`e_{kj}`, counts for less the farther away it is: :math:`e_{kj} / s_k^2` from below,
    :math:`e_{kj} s_k^2` from above, s its stretch. Of n peers, :math:`L_j` is the r-th smallest from below and
    :math:`U_j` the r-th largest from above, :math:`r = \min(\lceil n / 2 \rceil, n - f)`: the median, or nearer to the
    ends where liars could make up the median. Of 2 f peers or fewer a liar could make up :math:`U_j` alone: there the
    model's owner is heard too. Who is not near itself cannot say less of its own model than those who are, by the same
    rank. Agent i's level :math:`v_i` is the median over all models of how many
    times too large or too small its errors are for :math:`[L_j, U_j]`. What it says of model j becomes

    .. math:: \min(\max(a_{ij} / v_i, L_j / c), c\, U_j), \qquad c = \text{LEEWAY}; \quad c = 1
        \text{ from below for } i = j.

    So where more than 2 f peers are near, praise of itself gains an agent nothing beyond what honest peers measured of
    it, to praise others or to blame them gains it the factor c, and to blame everybody nothing. With two agents nobody
    can tell who is right: nothing changes.

    Parameters
    ----------
    errors : (M, K, K)
        Row i: agent i's mean squared errors of all models near each point, as a rule uses them.
    local : (M, K, K)
        The same over enough rows to bound others by, say 20. They may be the same numbers.
    stretch : (M, K)
    kept : (M, K), optional
        Others are not asked.

    Returns
    -------
    (M, K, K)

    Examples
    --------
    >>> errors = np.ones((1, 4, 4))
    >>> errors[0, 3] = [9.0, 9.0, 99.0, 0.0]
    >>> clip_to_peer_bounds(errors, errors, np.ones((1, 4)))[0, 3]
    array([1., 1., 2., 1.])
    """
    return within(errors, bounds(local, stretch, kept), np.arange(errors.shape[1]))


def bounds(local: Array, stretch: Array, kept: Mask | None = None) -> Bounds:
    """What the peers measured of every model, for `clip_to_peer_bounds`: the part that needs what all agents say."""
    local, stretch = as_kernel_array(local), as_kernel_array(stretch)
    f, asked = tolerated_liars(local.shape[1]), _select_nearest(stretch, kept)
    found = Bounds(*(np.empty(stretch.shape) for _ in range(3)))

    def kernel(local: Array, stretch: Array, asked: Mask, low: Array, high: Array, own: Array) -> None:
        _bounds(local, stretch, asked, f, low, high, own)

    over_points(kernel, local, stretch, asked, found.low, found.high, found.own)
    return found


def within(errors: Array, bounds: Bounds, places: NDArray[np.intp]) -> Array:
    """What the agents at `places` say, (M, J, K), kept within the bounds: the part that each can do for itself."""
    errors = as_kernel_array(errors)
    out = np.empty_like(errors)

    def kernel(errors: Array, low: Array, high: Array, own: Array, out: Array) -> None:
        _within(errors, low, high, own, places, LEEWAY, out)

    over_points(kernel, errors, bounds.low, bounds.high, bounds.own, out)
    return out


def capped(spread: Array, stretch: Array, kept: Mask | None = None) -> Array:
    """Spreads no smaller than the median of those of the other agents that are near.

    Coverage is the inverse of the spread: no agent counts for more than its peers nearby, whatever it claims. Where
    nobody else is near a claim stands, unverified. Of two medians the larger counts.

    Parameters
    ----------
    spread : (M, K)
        Mean squared distance from each point to each agent's neighbours.
    stretch : (M, K)
    kept : (M, K), optional

    Returns
    -------
    (M, K)

    Examples
    --------
    >>> capped(np.array([[0.0, 2.0, 3.0, 90.0]]), np.array([[1.0, 1.0, 1.0, 30.0]]))
    array([[ 3.,  3.,  3., 90.]])
    """
    spread = as_kernel_array(spread)
    near = np.ascontiguousarray((stretch <= 1.0) & (True if kept is None else kept))
    out = np.empty_like(spread)
    over_points(_capped, spread, near, out)
    return out


def _select_nearest(stretch: Array, kept: Mask | None) -> Mask:
    """Who is near, or among the nearest 2 f + 1 (three at least), of whom at most f lie."""
    distance = np.where(True if kept is None else kept, stretch, np.inf)
    f = tolerated_liars(stretch.shape[1])
    place = min(max(f + 1, 2 * f), stretch.shape[1] - 1)
    enough = np.sort(distance, axis=1)[:, place : place + 1]
    return np.ascontiguousarray((distance <= np.maximum(enough, 1.0)) & (distance < np.inf))


@compiled_for("f8[3] f8[2] b1[2] i8 f8[2] f8[2] f8[2]")
def _bounds(local: Array, stretch: Array, asked: Mask, f: int, low: Array, high: Array, own: Array) -> None:
    M, K, _ = local.shape
    room = np.empty(K)
    for m in range(M):
        for j in range(K):
            low[m, j] = _measured(local[m], stretch[m], asked[m], j, f, -2.0, room)
            high[m, j] = _measured(local[m], stretch[m], asked[m], j, f, 2.0, room)
            own[m, j] = low[m, j]
            if stretch[m, j] > 1.0:
                own[m, j] = max(own[m, j], _nearby(local[m], stretch[m], asked[m], j, f, room))


@compiled_for("f8[3] f8[2] f8[2] f8[2] i8[1] f8 f8[3]")
def _within(
    errors: Array, low: Array, high: Array, own: Array, places: NDArray[np.intp], leeway: float, out: Array
) -> None:
    M, J, K = errors.shape
    room = np.empty(K)
    for m in range(M):
        for i in range(J):
            level = _level(errors[m, i], low[m], high[m], room)
            for j in range(K):
                least = own[m, j] if places[i] == j else low[m, j] / leeway
                out[m, i, j] = min(max(errors[m, i, j] / level, least), leeway * high[m, j])


@compiled
def _measured(local: Array, stretch: Array, asked: Mask, j: int, f: int, power: float, room: Array) -> float:
    """What the peers of agent j say of its model from below, for a negative power of the stretch, or from above.

    If there are too few of them it is 0 or infinity.
    """
    n = 0
    for k in range(len(asked)):
        if asked[k] and k != j:
            room[n] = local[k, j] * stretch[k] ** power if stretch[k] > 1.0 else local[k, j]
            n += 1
    if power > 0.0 and asked[j] and n <= 2 * f:  # too few to tell blame from truth: its owner is heard too
        room[n] = local[j, j] * stretch[j] ** power if stretch[j] > 1.0 else local[j, j]
        n += 1
    rank = min((n + 1) // 2, n - f)
    if rank < 1:
        return 0.0 if power < 0.0 else np.inf
    place = rank - 1 if power < 0.0 else n - rank
    return find_nth_smallest(room, n, place)


@compiled
def _nearby(local: Array, stretch: Array, asked: Mask, j: int, f: int, room: Array) -> float:
    """What those who are near say of the model of agent j, which is not: the least of it, or what is in the middle."""
    n = 0
    for k in range(len(asked)):
        if asked[k] and k != j and stretch[k] <= 1.0:
            room[n] = local[k, j]
            n += 1
    if n == 0:
        return 0.0
    place = max(0, min((n + 1) // 2, n - f) - 1)
    return find_nth_smallest(room, n, place)


@compiled
def _level(errors: Array, low: Array, high: Array, room: Array) -> float:
    """The median factor by which errors are outside of what was measured; 1 if there is none to divide by."""
    n = 0
    for j in range(len(errors)):
        if high[j] < np.inf:
            outside = errors[j] / low[j] if errors[j] < low[j] else 1.0
            room[n] = errors[j] / high[j] if errors[j] > high[j] else outside
            n += 1
    level = find_median(room, n) if n else 1.0
    return level if 0.0 < level < np.inf else 1.0


@compiled_for("f8[2] b1[2] f8[2]")
def _capped(spread: Array, near: Mask, out: Array) -> None:
    M, K = spread.shape
    others = np.empty(K)
    for m in range(M):
        for i in range(K):
            n = 0
            for k in range(K):
                if near[m, k] and k != i:
                    others[n] = spread[m, k]
                    n += 1
            least = find_nth_smallest(others, n, n // 2) if n else 0.0
            out[m, i] = max(spread[m, i], least)
