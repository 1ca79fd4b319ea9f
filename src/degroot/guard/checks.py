r"""Checks against faulty members: what agents say of each other and of themselves bounds what each of them can do.

An agent can send any belief, any errors of any model, and any claim of how near its rows are. With K agents the guard
withstands f = `tolerated_liars` (K) liars, nearly a third of all: what f agents alone say leaves out no honest agent,
and what they alone say of each other is not believed. Order statistics do that: among n numbers of which at most f are
lies, the r-th smallest with f < r <= n - f lies between honest ones (Marzullo, *Tolerating failures of
continuous-valued sensors*, 1990; LeBlanc, Zhang, Koutsoukos and Sundaram, *Resilient asymptotic consensus in robust
networks*, 2013).

What a liar can still do: lie by less than the tolerance of all but f of its peers, with the weight that its answers on
the peers' rows have earned; and anything where no more than f peers have rows nearby, which is what `verified` tells.
What honest agents lose: labels that no more than f agents have ever seen are not plausible to the others.

M points, K agents, Q outputs. Masks say who is kept, (M, K).
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from degroot.compute.compiled import Array, as_kernel_array, over_points
from degroot.compute.kernel import compiled, compiled_for
from degroot.rules.evidence import Evidence

Mask = NDArray[np.bool_]

FARTHEST = 1e100  # stretch: beyond it all is the same
MARGIN = 0.5  # how far answers may be from the range of the labels, in units of its width
SEMI = 1e-8  # rounding that is let pass in second moments with a diagonal of 1, for each model


def tolerated_liars(K: int) -> int:
    """How many agents saying the same are still not believed, f: fewer than a third of all, but at least one.

    So many liars are withstood among three agents or more. Two agents can both be right, for all that others can tell.

    Examples
    --------
    >>> [tolerated_liars(K) for K in (2, 3, 5, 9, 128)]
    [1, 1, 1, 2, 42]
    """
    return max(1, (K - 1) // 3)


def relative_distance(spread: ArrayLike, reach: ArrayLike) -> Array:
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
    >>> relative_distance([0.0, 3.0, 8.0], [0.0, 4.0, 4.0])
    array([1., 1., 2.])
    """
    spread, reach = np.asarray(spread, np.float64), np.asarray(reach, np.float64)
    shape = spread.shape if spread.ndim >= reach.ndim else reach.shape
    with np.errstate(divide="ignore", over="ignore"):
        ratio = np.divide(spread, reach, out=np.ones(shape), where=spread > reach)
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
    """Whether no more than `tolerated_liars` (K) peers object, (M, K).

    So an answer that all honest peers expect stands, whatever the liars say, and one to which more than f honest peers
    object falls.

    Examples
    --------
    >>> consistent(np.array([[0, 1, 2]]))
    array([[ True,  True, False]])
    """
    return np.asarray(objections <= tolerated_liars(objections.shape[1]))


def plausible(beliefs: ArrayLike, low: ArrayLike, high: ArrayLike) -> Mask:
    """Whether answers are among the labels that agents have seen, or not much beyond them.

    The range is from the (f + 1)-th smallest of `low` to the (f + 1)-th largest of `high`, f = `tolerated_liars` (K),
    and `MARGIN` times its width further at both ends: f liars cannot widen it beyond what an honest agent has seen, nor
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
    f = tolerated_liars(len(low))
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
    """Whether more than `tolerated_liars` (K) other agents say that their rows are near: at least one is honest.

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
    others: Mask = near.sum(axis=1, keepdims=True) - near > tolerated_liars(stretch.shape[1])
    return others


def malformed(evidence: Evidence) -> NDArray[np.bool_]:
    """Whose opinions no rows could give, (M, K): not numbers, negative, or moments that are not semi-definite.

    Examples
    --------
    >>> malformed(Evidence(np.array([[[1.0, 2.0], [np.nan, 1.0]]])))
    array([[False,  True]])
    """
    fine = ((evidence.errors >= 0.0) & (evidence.errors < np.inf)).all(axis=-1)
    for each in (evidence.spread, evidence.effective):
        fine &= True if each is None else each >= 0.0
    if evidence.moments is not None:
        fine &= semidefinite(evidence.moments)
    return np.asarray(~fine)


def semidefinite(moments: Array) -> NDArray[np.bool_]:
    """Whether packed lower triangles (M, J, K (K + 1) / 2) are positive semi-definite, up to rounding: (M, J).

    In units in which diagonals are 1, a Cholesky decomposition has to succeed with a little more on the diagonal.

    Examples
    --------
    >>> semidefinite(np.array([[[1.0, 1.0, 1.0], [1.0, 2.0, 1.0], [0.0, 1.0, 4.0]]]))
    array([[ True, False, False]])
    """
    packed = as_kernel_array(moments)
    verdict = np.empty(packed.shape[:2], np.bool_)
    over_points(_semidefinite, packed, verdict)
    return verdict


@compiled_for("f8[3] b1[2]")
def _semidefinite(moments: Array, verdict: NDArray[np.bool_]) -> None:
    M, J, length = moments.shape
    K = round((math.sqrt(8.0 * length + 1.0) - 1.0) / 2.0)
    factor = np.empty((K, K))
    for m in range(M):
        for i in range(J):
            verdict[m, i] = _decomposes(moments[m, i], factor)


@compiled
def _decomposes(packed: Array, factor: Array) -> bool:
    K = len(factor)
    for j in range(K):
        own = packed[j * (j + 1) // 2 + j]
        if not 0.0 <= own < np.inf:
            return False
        for k in range(j):
            other = packed[k * (k + 1) // 2 + k]
            scale = math.sqrt(own) * math.sqrt(other)
            entry = packed[j * (j + 1) // 2 + k]
            if scale == 0.0:
                if entry != 0.0:
                    return False
                factor[j, k] = 0.0
                continue
            entry /= scale
            for p in range(k):
                entry -= factor[j, p] * factor[k, p]
            factor[j, k] = entry / factor[k, k]
        pivot = 1.0 + K * SEMI
        for p in range(j):
            pivot -= factor[j, p] * factor[j, p]
        if not pivot > 0.0:
            return False
        factor[j, j] = math.sqrt(pivot)
    return True
