r"""A guard against liars: what agents say of each other and of themselves bounds what each of them can do.

An agent can send any belief, any errors of any model, and any claim of how near its rows are. With K agents the guard
withstands f = `withstood` (K) liars, nearly a third of all: what f agents alone say leaves out no honest agent, and
what they alone say of each other is not believed. Order statistics do that: among n numbers of which at most f are
lies, the r-th smallest with f < r <= n - f lies between honest ones (Marzullo, *Tolerating failures of
continuous-valued sensors*, 1990; LeBlanc, Zhang, Koutsoukos and Sundaram, *Resilient asymptotic consensus in robust
networks*, 2013).

What a liar can still do: lie by less than the tolerance of all but f of its peers, with the weight that its answers on
the peers' rows have earned; and anything where no more than f peers have rows nearby, which is what `verified` tells.
What honest agents lose: labels that no more than f agents have ever seen are not plausible to the others.

M points, K agents, Q outputs. Masks say who is kept, (M, K).
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from degroot.points import Array, compiled, for_kernels, over_points

Mask = NDArray[np.bool_]

LEEWAY = 2.0  # how far errors may be from what the peers measured, as a factor
FARTHEST = 1e100  # stretch: beyond it all is the same
MARGIN = 0.5  # how far answers may be from the range of the labels, in units of its width


def withstood(K: int) -> int:
    """How many agents saying the same are still not believed, f: fewer than a third of all, but at least one.

    So many liars are withstood among three agents or more. Two agents can both be right, for all that others can tell.

    Examples
    --------
    >>> [withstood(K) for K in (2, 3, 5, 9, 128)]
    [1, 1, 1, 2, 42]
    """
    return max(1, (K - 1) // 3)


def stretch(spread: ArrayLike, reach: ArrayLike) -> Array:
    """How far points are from an agent's rows, in units of how far these are from each other, but at least 1.

    Parameters
    ----------
    spread : (..., K)
        Mean squared distance from a point to each agent's neighbours.
    reach : (K,)
        What is usual for that at the agent's own rows, each left out: nearly all of them have no more.

    Returns
    -------
    (..., K)
        1 where a point is near.

    Examples
    --------
    >>> stretch([0.0, 3.0, 8.0], [0.0, 4.0, 4.0])
    array([1., 1., 2.])
    """
    spread, reach = np.broadcast_arrays(np.asarray(spread, np.float64), np.asarray(reach, np.float64))
    with np.errstate(divide="ignore", over="ignore"):
        ratio = np.divide(spread, reach, out=np.ones(spread.shape), where=spread > reach)
    bounded: Array = np.minimum(ratio, FARTHEST)
    return bounded


def objections(beliefs: ArrayLike, expected: ArrayLike, tolerance: ArrayLike) -> NDArray[np.intp]:
    r"""How many peers say that an answer is not what they expect of the model.

    Peer k objects to the answer of agent m if :math:`|p_m - \hat p_{km}| > t_{km}`, with the Euclidean norm over
    outputs. What an agent thinks of its own model is not looked at.

    Parameters
    ----------
    beliefs : (M, K) or (M, K, Q)
    expected : (M, K, K) or (M, K, K, Q)
        Row k: what agent k expects of every model.
    tolerance : (M, K, K)
        How far from that each may be; infinite where agent k has no opinion.

    Returns
    -------
    (M, K)

    Examples
    --------
    >>> beliefs, expected = np.array([[1.0, 2.0, 9.0]]), np.broadcast_to([1.0, 2.0, 3.0], (1, 3, 3))
    >>> objections(beliefs, expected, np.full((1, 3, 3), 0.5))
    array([[0, 0, 2]])
    """
    beliefs, expected = np.asarray(beliefs, np.float64), np.asarray(expected, np.float64)
    apart = np.abs(beliefs[:, None] - expected)
    if apart.ndim == 4:
        apart = np.sqrt((apart**2).sum(axis=-1))
    objects = (apart > np.asarray(tolerance)) & ~np.eye(beliefs.shape[1], dtype=bool)
    return np.asarray(objects.sum(axis=1))


def consistent(objections: NDArray[np.intp]) -> Mask:
    """Whether no more than `withstood` (K) peers object, (M, K).

    So an answer that all honest peers expect stands, whatever the liars say, and one to which more than f honest peers
    object falls.

    Examples
    --------
    >>> consistent(np.array([[0, 1, 2]]))
    array([[ True,  True, False]])
    """
    return np.asarray(objections <= withstood(objections.shape[1]))


def plausible(beliefs: ArrayLike, low: ArrayLike, high: ArrayLike) -> Mask:
    """Whether answers are among the labels that agents have seen, or not much beyond them.

    The range is from the (f + 1)-th smallest of `low` to the (f + 1)-th largest of `high`, f = `withstood` (K), and
    `MARGIN` times its width further at both ends: f liars cannot widen it beyond what an honest agent has seen, nor
    leave out what more than f agents have seen. To one or two agents everything is plausible.

    Parameters
    ----------
    beliefs : (M, K) or (M, K, Q)
    low, high : (K,) or (K, Q)
        The least and the largest label of each agent. For classes all outputs have the same range, 0 to 1.

    Returns
    -------
    (M, K)

    Examples
    --------
    >>> plausible([[0.5, 1.4, 8.0]], low=[0.0, 0.1, 0.0], high=[1.0, 1.0, 99.0])
    array([[ True,  True, False]])
    """
    beliefs, low, high = (np.asarray(each, np.float64) for each in (beliefs, low, high))
    f = withstood(len(low))
    if len(low) <= 2 * f:
        return np.ones(beliefs.shape[:2], bool)
    first, last = np.sort(low, axis=0)[f], np.sort(high, axis=0)[-f - 1]
    margin = MARGIN * (last - first)
    inside = (beliefs >= first - margin) & (beliefs <= last + margin)
    verdict: Mask = inside if inside.ndim == 2 else inside.all(axis=-1)
    return verdict


def remaining(kept: Mask, objections: NDArray[np.intp]) -> Mask:
    """Who is kept, (M, K): where nobody would be left, those to whom the fewest object.

    Examples
    --------
    >>> remaining(np.array([[True, False], [False, False]]), np.array([[0, 1], [3, 2]]))
    array([[ True, False],
           [False,  True]])
    """
    fewest = objections == objections.min(axis=1, keepdims=True)
    return np.where(kept.any(axis=1, keepdims=True), kept, fewest)


def verified(stretch: Array, kept: Mask | None = None) -> Mask:
    """Whether more than `withstood` (K) other agents say that their rows are near: at least one of them is honest.

    Parameters
    ----------
    stretch : (M, K)
    kept : (M, K), optional

    Returns
    -------
    (M, K)

    Examples
    --------
    >>> verified(np.array([[1.0, 1.0, 1.0, 7.0], [1.0, 1.0, 2.0, 3.0]]))
    array([[ True,  True,  True,  True],
           [False, False,  True,  True]])
    """
    near = (stretch <= 1.0) & (True if kept is None else kept)
    others: Mask = near.sum(axis=1, keepdims=True) - near > withstood(stretch.shape[1])
    return others


def tempered(errors: Array, local: Array, stretch: Array, kept: Mask | None = None) -> Array:
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
    >>> tempered(errors, errors, np.ones((1, 4)))[0, 3]
    array([1., 1., 2., 1.])
    """
    errors, local, stretch = for_kernels(errors), for_kernels(local), for_kernels(stretch)
    out, asked = np.empty_like(errors), _asked(stretch, kept)
    f = withstood(errors.shape[1])

    def kernel(errors: Array, local: Array, stretch: Array, asked: Mask, out: Array) -> None:
        _tempered(errors, local, stretch, asked, f, LEEWAY, out)

    over_points(kernel, errors, local, stretch, asked, out)
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
    spread = for_kernels(spread)
    near = np.ascontiguousarray((stretch <= 1.0) & (True if kept is None else kept))
    out = np.empty_like(spread)
    over_points(_capped, spread, near, out)
    return out


def _asked(stretch: Array, kept: Mask | None) -> Mask:
    """Who is near, or among the nearest 2 f + 1 (three at least), of whom at most f lie."""
    distance = np.where(True if kept is None else kept, stretch, np.inf)
    f = withstood(stretch.shape[1])
    place = min(max(f + 1, 2 * f), stretch.shape[1] - 1)
    enough = np.sort(distance, axis=1)[:, place : place + 1]
    return np.ascontiguousarray((distance <= np.maximum(enough, 1.0)) & (distance < np.inf))


@compiled
def _tempered(errors: Array, local: Array, stretch: Array, asked: Mask, f: int, leeway: float, out: Array) -> None:
    M, K, _ = errors.shape
    low, high, room = np.empty(K), np.empty(K), np.empty(K)
    for m in range(M):
        for j in range(K):
            low[j] = _measured(local[m], stretch[m], asked[m], j, f, -2.0, room)
            high[j] = _measured(local[m], stretch[m], asked[m], j, f, 2.0, room)
        for i in range(K):
            level = _level(errors[m, i], low, high, room)
            for j in range(K):
                least = low[j] if i == j else low[j] / leeway
                if i == j and stretch[m, i] > 1.0:
                    least = max(least, _nearby(local[m], stretch[m], asked[m], j, f, room))
                out[m, i, j] = min(max(errors[m, i, j] / level, least), leeway * high[j])


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
    found: float = np.partition(room[:n], place)[place]
    return found


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
    found: float = np.partition(room[:n], place)[place]
    return found


@compiled
def _level(errors: Array, low: Array, high: Array, room: Array) -> float:
    """The median factor by which errors are outside of what was measured; 1 if there is none to divide by."""
    n = 0
    for j in range(len(errors)):
        if high[j] < np.inf:
            outside = errors[j] / low[j] if errors[j] < low[j] else 1.0
            room[n] = errors[j] / high[j] if errors[j] > high[j] else outside
            n += 1
    level = np.median(room[:n]) if n else 1.0
    return level if 0.0 < level < np.inf else 1.0


@compiled
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
            least = np.partition(others[:n], n // 2)[n // 2] if n else 0.0
            out[m, i] = max(spread[m, i], least)
