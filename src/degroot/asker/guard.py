r"""The asker's guard: others' predictions at a point, held to what the asker's own rows near it lead one to expect.

For model j, :math:`D = f_j - f_o` on the asker's rows near the point, with :math:`f_o` its own model (by out-of-fold
predictions), has mean :math:`\mu_j` and standard deviation :math:`\sigma_j`; s is the own model's root mean squared
error there. With :math:`h = 2.5 \sigma_j`, what model j says at the point is

- clipped, so that :math:`|f_j - f_o - \mu_j| \le 1.2 h`;
- replaced by :math:`f_o + \mu_j` where it is beyond :math:`3 h + s`;
- and where at least half of the others are beyond, the answer is the own prediction.

In the end the whole move away from the own prediction is held to :math:`\pm s`. Nothing that others report of errors or
distances enters, and no majority of honest members is needed: whatever all others say, the answer stays within one
local root mean squared error of the own model's.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from degroot.asker.candidates import Moments
from degroot.compute.compiled import Array

RANGE = 2.5  # standard deviations that an honest difference may be from its mean
CLIP, BEYOND = 1.2, 3.0  # of that range: where predictions are clipped, and beyond which they are not believed


@dataclass(frozen=True, slots=True)
class Bounded:
    """Others' predictions as the guard lets them pass."""

    beliefs: Array  # (M, K, Q)
    replaced: NDArray[np.bool_]  # (M, K) not believed
    alone: NDArray[np.bool_]  # (M,) at least half of the others are not believed: the own model answers
    reach: Array  # (M,) how far the answer may be from the own prediction

    def hold(self, value: Array, own: Array) -> Array:
        """Answers (..., M, Q) held near the own predictions (M, Q)."""
        move = np.clip(value - own, -self.reach[:, None], self.reach[:, None])
        held: Array = own + np.where(self.alone[:, None], 0.0, move)
        return held


def bound_beliefs(beliefs: Array, found: Moments, own: int) -> Bounded:
    """What models say at M points, `beliefs` (M, K, Q), held to what was `found` on the asker's rows near them."""
    _, K, Q = beliefs.shape
    gram, means = found.gram(K), found.means(K, Q)
    expected = means - means[:, [own]]  # (M, K, Q) mean difference to the own model
    diagonal = np.einsum("mkk->mk", gram)
    square = diagonal - 2.0 * gram[:, :, own] + diagonal[:, [own]]
    spread = np.sqrt(np.maximum(square - (expected**2).sum(axis=-1), 0.0))
    reach = np.sqrt(np.maximum(diagonal[:, own], 0.0))
    off = beliefs - beliefs[:, [own]] - expected
    clip = RANGE * CLIP * spread
    replaced = (np.abs(off) > (RANGE * BEYOND * spread + reach[:, None])[..., None]).any(axis=-1)
    held = np.clip(off, -clip[..., None], clip[..., None])
    believed = beliefs[:, [own]] + expected + np.where(replaced[..., None], 0.0, held)
    believed[:, own] = beliefs[:, own]
    replaced[:, own] = False
    alone = (2 * replaced.sum(axis=1) >= K - 1) & (K > 1)
    return Bounded(believed, replaced, alone, reach)
