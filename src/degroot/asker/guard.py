r"""The asker's guard: others' predictions at a point, held to what the asker expects of them by its own rows.

The asker knows what all models say of its rows, so it can learn what each will say at a point: the difference to its
own prediction, :math:`\hat D_j(x)`, with root mean squared error :math:`\tau_j` on rows that were left out. With
:math:`D_j = f_j - f_o` and s the own model's root mean squared error near the point, what model j says is

- clipped, so that :math:`|D_j - \hat D_j| \le \frac32 \tau_j`;
- replaced by :math:`f_o + \hat D_j` where it is beyond :math:`\frac92 \tau_j + s`;
- and where at least half of the others are beyond, the answer is the own prediction.

In the end the whole move away from the own prediction is held to :math:`\pm 2 s`. Nothing that others report of errors
or distances enters, and no majority of honest members is needed: whatever all others say, the answer stays within twice
the own model's local root mean squared error of its prediction.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array, as_kernel_array
from degroot.compute.kernel import compiled, compiled_for

CLIP, BEYOND = 1.5, 4.5  # errors of the forecast: where predictions are clipped, and beyond which not believed
REACH = 2.0  # local errors of the own model that the answer may be away from its prediction


class Bounded(NamedTuple):
    """Others' predictions as the guard lets them pass."""

    beliefs: Array  # (M, K, Q)
    replaced: NDArray[np.bool_]  # (M, K) not believed
    alone: NDArray[np.bool_]  # (M,) at least half of the others are not believed: the own model answers
    n_replaced: int  # in all
    reach: Array  # (M,) how far the answer may be from the own prediction
    absent: NDArray[np.bool_] | None = None  # (M, K) who abstains, and is none of the others; None: nobody

    def hold(self, value: Array, own: Array, alone: NDArray[np.bool_] | None = None) -> Array:
        """Answers (..., M, Q) drawn towards the own predictions (M, Q) until no output is farther than the reach.

        What lies between two sets of probabilities is one too. `alone`: where the own model
        answers, (..., M); by default `self.alone`.
        """
        held, (M, Q), D = np.empty(value.shape), own.shape, math.prod(value.shape[:-2])
        if alone is None:
            alone = self.alone if value.ndim == 2 else np.broadcast_to(self.alone, value.shape[:-1])
        _hold_into(
            as_kernel_array(value).reshape(D, M, Q), as_kernel_array(own), self.reach,
            np.ascontiguousarray(alone).reshape(D, M), held.reshape(D, M, Q),
        )  # fmt: skip
        return held

    def alone_without_each(self, own: int) -> NDArray[np.bool_]:
        """`alone` where each model in turn is left out, and does not count among the others, (K, M)."""
        M, K = self.replaced.shape
        alone = np.zeros((K, M), np.bool_)
        if self.n_replaced:
            absent = np.zeros((M, K), np.bool_) if self.absent is None else self.absent
            _find_alone_without_each(self.replaced, absent, own, alone)
        return alone


def bound_beliefs(
    beliefs: Array, expected: Array, spread: Array, error: Array, own: int, absent: NDArray[np.bool_] | None = None
) -> Bounded:
    """What models say at M points, `beliefs` (M, K, Q), held to what is expected of them.

    Parameters
    ----------
    beliefs : (M, K, Q)
    expected : (M, K, Q)
        Differences to the own prediction.
    spread : (K, Q)
        How far off such forecasts are.
    error : (M,)
        The own model's root mean squared error near the points.
    own : int
        The place of the asker's model.
    absent : (M, K), optional
        Models that abstain. Their `beliefs` are what stands in for them, and pass as they are.

    Examples
    --------
    >>> beliefs = np.array([[[1.0], [1.9], [50.0]]])
    >>> held = bound_beliefs(beliefs, np.zeros((1, 3, 1)), np.full((3, 1), 0.25), np.array([1.0]), own=0)
    >>> held.beliefs[0, :, 0], held.replaced[0], held.alone
    (array([1.   , 1.375, 1.   ]), array([False, False,  True]), array([ True]))
    """
    M, K, _ = beliefs.shape
    believed, replaced, alone = np.empty(beliefs.shape), np.empty((M, K), np.bool_), np.empty(M, np.bool_)
    beliefs, expected, spread, error = (as_kernel_array(each) for each in (beliefs, expected, spread, error))
    n_replaced = _bound_into(beliefs, expected, spread, error, own, believed, replaced, alone)
    if absent is not None:
        believed[absent], replaced[absent] = beliefs[absent], False
        n_replaced, others = int(replaced.sum()), K - 1 - np.delete(absent, own, axis=1).sum(axis=1)
        alone = (others > 0) & (2 * replaced.sum(axis=1) >= others)
    return Bounded(believed, replaced, alone, n_replaced, REACH * error, absent)


@compiled
def _is_alone(replaced: int, others: int) -> bool:
    """Whether at least half of the others are not believed, of which so many are `replaced`."""
    return others > 0 and 2 * replaced >= others


@compiled_for("f8[3] f8[3] f8[2] f8[1] i8 f8[3] b1[2] b1[1]")
def _bound_into(
    beliefs: Array, expected: Array, spread: Array, error: Array, own: int, believed: Array,
    replaced: NDArray[np.bool_], alone: NDArray[np.bool_],
) -> int:  # fmt: skip
    """Fill `believed` (M, K, Q), `replaced` (M, K) and `alone` (M,), and count those that are replaced.

    What is not a number is not believed.
    """
    M, K, Q = beliefs.shape
    total = 0
    for m in range(M):
        count = 0
        for k in range(K):
            replaced[m, k] = False
            for q in range(Q):
                off = beliefs[m, k, q] - beliefs[m, own, q] - expected[m, k, q]
                if k != own and not abs(off) <= BEYOND * spread[k, q] + error[m]:
                    replaced[m, k] = True
            count += replaced[m, k]
            for q in range(Q):
                forecast = beliefs[m, own, q] + expected[m, k, q]
                most = CLIP * spread[k, q]
                if k == own:
                    believed[m, k, q] = beliefs[m, k, q]
                elif replaced[m, k]:
                    believed[m, k, q] = forecast
                else:
                    believed[m, k, q] = forecast + min(max(beliefs[m, k, q] - forecast, -most), most)
        alone[m] = _is_alone(count, K - 1)
        total += count
    return total


@compiled_for("b1[2] b1[2] i8 b1[2]")
def _find_alone_without_each(
    replaced: NDArray[np.bool_], absent: NDArray[np.bool_], own: int, alone: NDArray[np.bool_]
) -> None:
    M, K = replaced.shape
    for m in range(M):
        count = replaced[m].sum()
        others = K - 1 - (absent[m].sum() - absent[m, own])
        for k in range(K):
            alone[k, m] = _is_alone(count - replaced[m, k], others if k == own or absent[m, k] else others - 1)


@compiled_for("f8[3] f8[2] f8[1] b1[2] f8[3]")
def _hold_into(value: Array, own: Array, reach: Array, alone: NDArray[np.bool_], held: Array) -> None:
    """Fill `held` (D, M, Q) with `value` (D, M, Q), at most `reach` (M,) from `own` (M, Q) in every output."""
    D, M, Q = value.shape
    for d in range(D):
        for m in range(M):
            farthest = 0.0
            for q in range(Q):
                farthest = max(farthest, abs(value[d, m, q] - own[m, q]))
            part = reach[m] / farthest if farthest > reach[m] else 1.0
            for q in range(Q):
                held[d, m, q] = own[m, q] + (0.0 if alone[d, m] else part * (value[d, m, q] - own[m, q]))
