r"""Intervals and sets that hold the outcome as often as they say: one-shot federated conformal prediction.

Each agent puts its own rows to the collective, each row left out of its own neighbourhood, and scores how far off the
answer is. A summary of its scores is all that it sends. Pooled, the summaries give a threshold; an interval holds all
outcomes whose score would be at or below it.

Vovk, Gammerman and Shafer, *Algorithmic learning in a random world*, 2005; Lei, G'Sell, Rinaldo, Tibshirani and
Wasserman, *Distribution-free predictive inference for regression*, 2018; Lu, Yu, Karimireddy, Jordan and Raskar,
*Federated conformal predictors for distributed uncertainty quantification*, 2023; Humbert, Le Bars, Bellet and Arlot,
*One-shot federated conformal prediction*, 2023.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike, NDArray

from degroot.compute.compiled import Array
from degroot.exceptions import InvalidInput

POINTS = 512  # scores in a summary, at most
SHRINKAGE = 2.0  # rows' worth of the overall error in every local one
ROUNDING = 1e-9  # of a row: (n + 1) * coverage is often a whole number that floating point cannot tell


def local_error(near: Array, spread: Array, effective: Array, overall: ArrayLike) -> Array:
    r"""The collective's mean squared error near each point, :math:`l = \frac{n \sum_i c_i e_i + a o}{n + a}`.

    Agent i gives :math:`e_i`, the mean squared error of the collective on its rows near the point, and counts by its
    coverage :math:`c_i`; n is how many rows that amounts to (`degroot.stacking.pool`), o the overall error and a = 2.

    Parameters
    ----------
    near : (M, K), or (M, K, Q) for Q outputs
        What each agent found near each point.
    spread, effective : (M, K)
        Mean squared distance to the rows that it looked at, and how many equally near ones would count as much.
    overall : float, or (Q,)
        The collective's mean squared error on all agents' rows.

    Returns
    -------
    (M,), or (M, Q)
        Positive where `overall` is.

    Examples
    --------
    >>> local_error(np.array([[1.0, 9.0]]), np.array([[1.0, 3.0]]), np.array([[10.0, 10.0]]), overall=5.0)
    array([3.22222222])
    """
    from degroot.stacking.local import pool  # whose compiled code a coverage alone does not take

    outputs = near if near.ndim == 3 else near[..., None]
    pooled = [pool(outputs[..., q, None], spread, effective) for q in range(outputs.shape[-1])]
    error, n = np.concatenate([gram[:, 0] for gram, _ in pooled], axis=-1), pooled[0][1][:, None]
    local: Array = (n * error + SHRINKAGE * np.asarray(overall, np.float64)) / (n + SHRINKAGE)
    return local.reshape(*near.shape[:1], *near.shape[2:])


def half_width(threshold: ArrayLike, local: ArrayLike, overall: ArrayLike) -> Array:
    r"""How far an interval reaches to either side, :math:`h(t) = t \sqrt{\frac{o + t^2 l}{1 + t^2}}`.

    Where the local error l equals the overall one o, that is t times its root. The farther out an interval reaches, the
    more it goes by the local error: at low coverage intervals are nearer to one width, since others are longer on
    average, and at high coverage their widths are nearly as the roots of l. h grows with l, so intervals widen where
    the collective knows less, and with t, so an interval holds those of lower coverage (nested sets: Gupta,
    Kuchibhotla and Ramdas, *Nested conformal prediction and quantile out-of-bag ensemble methods*, 2022).

    Parameters
    ----------
    threshold, local, overall : arrays that broadcast
        Not negative.

    Examples
    --------
    >>> half_width(2.0, local=[0.25, 1.0, 4.0], overall=1.0)
    array([1.26491106, 2.        , 3.68781778])
    """
    t2 = np.square(np.asarray(threshold, np.float64))
    width: Array = np.sqrt(t2 / (1.0 + t2) * (np.asarray(overall) + t2 * np.asarray(local)))
    return width


def score(residuals: ArrayLike, local: ArrayLike, overall: ArrayLike) -> Array:
    r"""How far off an answer is, the t with :math:`h(t) = |r|` (`half_width`).

    With squares in units of the overall error, :math:`u = r^2 / o` and :math:`v = l / o`, it is the root of
    :math:`v t^4 + (1 - u) t^2 - u = 0`.

    Parameters
    ----------
    residuals, local, overall : arrays that broadcast
        `local` and `overall` not negative. Where both are 0, a residual other than 0 scores infinity.

    Examples
    --------
    >>> score([0.0, -1.26491106, 3.0], local=0.25, overall=1.0).round(4)
    array([0.    , 2.    , 5.7522])
    """
    off, near, far = np.broadcast_arrays(*(np.asarray(each, np.float64) for each in (residuals, local, overall)))
    unit = np.where(far > 0.0, far, 1.0)
    u, v = np.square(off) / unit, near / unit
    b = np.where(far > 0.0, 1.0, 0.0) - u
    root = np.sqrt(b * b + 4.0 * v * u)
    with np.errstate(divide="ignore", invalid="ignore"):  # without local error nothing reaches that far
        square = np.where(b > 0.0, 2.0 * u / (b + root), (root - b) / (2.0 * v))  # no differences of like numbers
    result: Array = np.sqrt(np.where(u == 0.0, 0.0, square))
    return result


@dataclass(frozen=True, slots=True)
class Summary:
    """What an agent tells of its scores: some of them in ascending order, the largest among them, and their ranks."""

    ranks: NDArray[np.int64]  # (P,) ascending; the last is the number of scores
    scores: Array  # (P,), or (P, Q): each output in its own order


def summary(scores: ArrayLike, points: int = POINTS) -> Summary:
    r"""At most `points` of an agent's scores, those with ranks :math:`\lceil n (1 - (1 - j/P)^2) \rceil`, j = 1 .. P.

    They are denser towards the largest, where thresholds are sought. All are told if there are no more than `points`.

    Parameters
    ----------
    scores : (n,), or (n, Q) for Q outputs
        Finite.
    points : int
        Positive.

    Examples
    --------
    >>> summary(np.arange(1000.0), points=5)
    Summary(ranks=array([ 360,  640,  840,  960, 1000]), scores=array([359., 639., 839., 959., 999.]))
    """
    given = np.asarray(scores, np.float64)
    if given.ndim not in (1, 2) or not given.size:
        raise InvalidInput(f"`scores` must be one or more of each output; their shape is {given.shape}.")
    if not np.isfinite(given).all():
        raise InvalidInput("`scores` must be finite; they are not.")
    if points < 1:
        raise InvalidInput(f"`points` must be at least 1; got {points}.")
    n = len(given)
    ranks = np.arange(1, n + 1)
    if n > points:
        above = points - np.arange(1, points + 1)
        ranks = np.unique(n - n * above**2 // points**2)
    return Summary(ranks, np.sort(given, axis=0)[ranks - 1])


def threshold(summaries: Iterable[Summary], coverage: float) -> Array:
    r"""What the score of a new outcome does not exceed with probability `coverage`, for each output alone.

    With all n scores that is the :math:`k = \lceil (n + 1) \cdot \text{coverage} \rceil`-th smallest. A summary tells
    that at least r scores are at or below its score of rank r: the threshold is the least score at or below which there
    are k for sure. So it is never below the k-th smallest, is that when every score was told, and otherwise above at
    most as many more scores as lie between those told: fewer than 1 in 256 of them.

    Parameters
    ----------
    summaries : one from each agent
    coverage : float
        Between 0 and 1.

    Returns
    -------
    (), or (Q,)

    Examples
    --------
    >>> threshold([summary([3.0, 1.0, 2.0]), summary([5.0, 4.0, 9.0, 8.0, 7.0, 6.0])], 0.8)
    array(8.)
    """
    told = list(summaries)
    _check(told)
    n = int(sum(int(each.ranks[-1]) for each in told))
    least = rows_needed(coverage)
    if n < least:
        raise InvalidInput(f"A coverage of {coverage:g} must be calibrated on at least {least} rows; there are {n}.")
    scores = np.concatenate([each.scores for each in told])
    more = np.concatenate([np.diff(each.ranks, prepend=0) for each in told])
    order = np.argsort(scores, axis=0)
    for_sure = np.cumsum(more[order], axis=0)
    first = np.argmax(for_sure >= rank_of(n, coverage), axis=0)
    at = np.take_along_axis(order, np.expand_dims(first, 0), axis=0)
    return np.asarray(np.take_along_axis(scores, at, axis=0)[0])


def rows_needed(coverage: float) -> int:
    r"""How many rows a threshold for this coverage takes, the least n with :math:`\lceil (n + 1) c \rceil \le n`.

    With fewer no finite interval has that coverage.

    Examples
    --------
    >>> rows_needed(0.5), rows_needed(0.9), rows_needed(0.99)
    (1, 9, 99)
    """
    is_number = type(coverage) is float or (isinstance(coverage, Real) and not isinstance(coverage, bool))
    if not is_number or not 0.0 < float(coverage) < 1.0:
        raise InvalidInput(f"`coverage` must lie between 0 and 1; got {coverage!r}.")
    c = float(coverage)
    return max(1, math.ceil((c - ROUNDING) / (1.0 - c)))


def class_scores(probabilities: ArrayLike, outcomes: ArrayLike) -> Array:
    r"""How far off class probabilities are, :math:`1 - p_{\text{outcome}}`.

    Sadinle, Lei and Wasserman, *Least ambiguous set-valued classifiers with bounded error levels*, 2019: where the
    probabilities are right, no sets that hold the outcome as often are smaller on average. Scores by cumulated
    probability (Romano, Sesia and Candès, 2020) even out the coverage between easy and hard points, by larger sets.

    Parameters
    ----------
    probabilities : (n, Q)
    outcomes : (n, Q)
        1 for the class that came out, 0 elsewhere.

    Returns
    -------
    (n,)

    Examples
    --------
    >>> class_scores([[0.5, 0.25, 0.25]], [[0, 0, 1]])
    array([0.75])
    """
    scores: Array = 1.0 - (np.asarray(probabilities, np.float64) * np.asarray(outcomes)).sum(axis=-1)
    return scores


def prediction_sets(probabilities: ArrayLike, threshold: float) -> NDArray[np.bool_]:
    r"""The classes that are in each set: those with :math:`1 - p_q \le t`, and the most probable in any case.

    So no set is empty, and coverage can only gain.

    Parameters
    ----------
    probabilities : (M, Q)
    threshold : float

    Returns
    -------
    (M, Q)

    Examples
    --------
    >>> prediction_sets([[0.7, 0.2, 0.1], [0.4, 0.35, 0.25]], 0.65)
    array([[ True, False, False],
           [ True,  True, False]])
    """
    given = np.asarray(probabilities, np.float64)
    held: NDArray[np.bool_] = (1.0 - given <= threshold) | (given == given.max(axis=-1, keepdims=True))
    return held


def rank_of(n: int, coverage: float) -> int:
    """Which of n scores, in ascending order, is the threshold."""
    return max(1, math.ceil((n + 1) * float(coverage) - ROUNDING))


def _check(summaries: Sequence[Summary]) -> None:
    """Refuse what cannot be summaries of scores of the same outputs."""
    if not summaries:
        raise InvalidInput("A threshold must come from at least one summary; there is none.")
    for place, each in enumerate(summaries):
        ranks, scores = np.asarray(each.ranks), np.asarray(each.scores)
        if ranks.ndim != 1 or not len(ranks) or ranks[0] < 1 or (np.diff(ranks) < 1).any():
            raise InvalidInput(f"The ranks of a summary must be positive and rise; those of number {place} do not.")
        if scores.shape != (len(ranks), *np.shape(summaries[0].scores)[1:]):
            raise InvalidInput(
                f"A summary must have a score of each output for each of its {len(ranks)} ranks; the shape of "
                f"number {place}'s is {scores.shape}."
            )
        if not np.isfinite(scores).all() or (np.diff(scores, axis=0) < 0.0).any():
            raise InvalidInput(f"The scores of a summary must be finite and in order; those of number {place} are not.")
