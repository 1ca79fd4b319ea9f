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

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array

CLIP, BEYOND = 1.5, 4.5  # errors of the forecast: where predictions are clipped, and beyond which not believed
REACH = 2.0  # local errors of the own model that the answer may be away from its prediction


@dataclass(frozen=True, slots=True)
class Bounded:
    """Others' predictions as the guard lets them pass."""

    beliefs: Array  # (M, K, Q)
    replaced: NDArray[np.bool_]  # (M, K) not believed
    alone: NDArray[np.bool_]  # (M,) at least half of the others are not believed: the own model answers
    reach: Array  # (M,) how far the answer may be from the own prediction

    def hold(self, value: Array, own: Array) -> Array:
        """Answers (M, Q) drawn towards the own predictions (M, Q) until no output is farther than the reach.

        What lies between two sets of probabilities is one too.
        """
        move, reach = value - own, self.reach[:, None]
        farthest = np.abs(move).max(axis=-1, keepdims=True)
        part = np.divide(reach, farthest, out=np.ones_like(farthest), where=farthest > reach)
        held: Array = own + np.where(self.alone[:, None], 0.0, part * move)
        return held

    def without(self, model: int) -> "Bounded":
        """The same where another model than the own one is left out, and does not count among the others."""
        replaced = self.replaced.copy()
        replaced[:, model] = False
        return replace(self, alone=_is_alone(replaced, self.replaced.shape[1] - 2))


def bound_beliefs(beliefs: Array, expected: Array, spread: Array, error: Array, own: int) -> Bounded:
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

    Examples
    --------
    >>> beliefs = np.array([[[1.0], [1.9], [50.0]]])
    >>> held = bound_beliefs(beliefs, np.zeros((1, 3, 1)), np.full((3, 1), 0.25), np.array([1.0]), own=0)
    >>> held.beliefs[0, :, 0], held.replaced[0], held.alone
    (array([1.   , 1.375, 1.   ]), array([False, False,  True]), array([ True]))
    """
    K, at_own = beliefs.shape[1], beliefs[:, [own]]
    off = beliefs - at_own - expected
    replaced = np.asarray((np.abs(off) > BEYOND * spread + error[:, None, None]).any(axis=-1))
    clipped = np.clip(off, -CLIP * spread, CLIP * spread)
    believed = at_own + expected + np.where(replaced[..., None], 0.0, clipped)
    believed[:, own], replaced[:, own] = beliefs[:, own], False
    return Bounded(believed, replaced, _is_alone(replaced, K - 1), REACH * error)


def _is_alone(replaced: NDArray[np.bool_], others: int) -> NDArray[np.bool_]:
    """Whether at least half of so many others are not believed, (M,)."""
    is_alone: NDArray[np.bool_] = (2 * replaced.sum(axis=1) >= others) & (others > 0)
    return is_alone
