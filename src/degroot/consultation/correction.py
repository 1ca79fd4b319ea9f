r"""A correction: what is left of a predictor's errors, learned on the asker's own rows without any peer.

Kernel ridge regression of the left-out residuals; bandwidth and penalty are chosen by folds of whole units. Of
penalties that do about as well as the best the largest is taken, and no correction unless it is better by more than one
standard error (Breiman et al., *Classification and regression trees*, 1984). What it adds is held to the range of the
residuals it has learned from.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.asker.mixture import clustered_standard_error
from degroot.compute.compiled import Array
from degroot.consultation.kernel_ridge import Inputs, KernelRidge, try_bandwidths

BANDWIDTHS = (0.1, 0.3, 1.0)
LEAST_ROWS = 50  # from which on the asker's view may learn a correction
CONTROL_ROWS = 10  # from which on the control does, which is what peers are compared with


@dataclass(frozen=True)
class Correction:
    """A learned correction: what has to be added to predictions."""

    inputs: Inputs
    regression: KernelRidge | None  # None: there is nothing to correct
    low: Array  # (Q,)
    high: Array  # (Q,)
    left_out: Array  # (n, Q) for the rows it was learned from, by what was learned without their units

    def at(self, rows: Any, predictions: Array) -> Array:
        """What to add to `predictions` (M, Q) at points whose transformed rows are `rows`, (M, Q)."""
        if self.regression is None or not len(predictions):
            return np.zeros(predictions.shape)
        added: Array = np.clip(self.regression.predict(self.inputs.scale(rows, predictions)), self.low, self.high)
        return added


def learn_correction(
    rows: Any, predictions: Array, residuals: Array, units: NDArray[np.intp], folds: NDArray[np.intp]
) -> Correction:
    """Learn what to add to `predictions` (n, Q) from label minus prediction, `residuals` (n, Q), on these `rows`."""
    inputs, low, high = Inputs(rows, predictions), residuals.min(axis=0), residuals.max(axis=0)
    best = Correction(inputs, None, low, high, np.zeros_like(residuals))
    before = (residuals**2).sum(axis=1)
    least = float(before.mean())
    for trial in try_bandwidths(inputs, residuals, folds, BANDWIDTHS):
        left = _hold_folds(trial.left_out, residuals, folds)
        losses = ((residuals - left) ** 2).sum(axis=-1).T
        chosen = _choose_penalty(losses, units)
        gained = before - losses[:, chosen]
        if gained.mean() > clustered_standard_error(gained, units) and losses[:, chosen].mean() < least:
            least = float(losses[:, chosen].mean())
            best = Correction(inputs, trial.fit(chosen), low, high, left[chosen])
    return best


def _hold_folds(left: Array, residuals: Array, folds: NDArray[np.intp]) -> Array:
    """What was learned without each fold, `left` (penalties, n, Q), held to the range of the other folds' residuals."""
    held = np.empty_like(left)
    for fold in np.unique(folds):
        at, others = folds == fold, residuals[folds != fold]
        held[:, at] = np.clip(left[:, at], others.min(axis=0), others.max(axis=0))
    return held


def _choose_penalty(losses: Array, units: NDArray[np.intp]) -> int:
    """The largest penalty whose `losses` (n, penalties) are within one standard error of the least."""
    mean = losses.mean(axis=0)
    best = int(np.argmin(mean))
    error = clustered_standard_error(losses - losses[:, [best]], units)
    return int(np.flatnonzero(mean <= mean[best] + error).max())
