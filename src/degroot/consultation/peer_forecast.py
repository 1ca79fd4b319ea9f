"""What the asker expects each peer to say: learned from what their models said of its own rows, for its guard."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array
from degroot.consultation.kernel_ridge import Inputs, KernelRidge, try_bandwidths

BANDWIDTHS = (0.03, 0.1, 0.3, 1.0)


@dataclass(frozen=True)
class PeerForecast:
    """Differences of all models' predictions to the asker's own, learned on its rows."""

    inputs: Inputs
    regression: KernelRidge | None  # of K * Q differences to their mean; None: the mean is all there is
    mean: Array  # (K, Q)
    spread: Array  # (K, Q) root mean squared error of forecasts for rows that were left out

    def at(self, rows: Any, own: Array) -> Array:
        """Expected differences (M, K, Q) at points with transformed `rows`, where the own model says `own` (M, Q)."""
        M = len(own)
        if self.regression is None or not M:
            return np.broadcast_to(self.mean, (M, *self.mean.shape)).copy()
        expected: Array = self.mean + self.regression.predict(self.inputs.scale(rows, own)).reshape(M, *self.mean.shape)
        return expected


def learn_peers(rows: Any, own: Array, differences: Array, folds: NDArray[np.intp]) -> PeerForecast:
    """Learn `differences` (n, K, Q) to the own predictions `own` (n, Q) on these `rows`.

    Bandwidth and penalty have the least median relative error over models and outputs, folds of whole units left out.
    """
    n, K, Q = differences.shape
    inputs, mean = Inputs(rows, own), differences.mean(axis=0)
    centred = (differences - mean).reshape(n, K * Q)
    scale = (centred**2).mean(axis=0)
    told = scale > 0.0
    best = PeerForecast(inputs, None, mean, np.sqrt(scale).reshape(K, Q))
    if not told.any():
        return best
    least = np.inf
    for trial in try_bandwidths(inputs, centred, folds, BANDWIDTHS):
        errors = ((trial.left_out - centred) ** 2).mean(axis=1)  # (penalties, K * Q)
        relative = np.median(errors[:, told] / scale[told], axis=1)
        chosen = int(np.argmin(relative))
        if relative[chosen] < least:
            least, spread = float(relative[chosen]), np.sqrt(errors[chosen]).reshape(K, Q)
            best = PeerForecast(inputs, trial.fit(chosen), mean, spread)
    return best
