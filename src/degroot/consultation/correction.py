r"""A correction: what is left of a predictor's errors, learned on the asker's own rows without any peer.

Ridge regression of the left-out residuals on Nyström features of an RBF kernel of the rows and the prediction itself;
bandwidth and penalty are chosen by folds of whole units. Of penalties that do about as well as the best the largest is
taken, and no correction unless it is better by more than one standard error (Breiman et al., *Classification and
regression trees*, 1984). What it adds is held to the range of the residuals it has learned from.

Williams and Seeger, *Using the Nyström method to speed up kernel machines*, 2001.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse
from scipy.sparse import hstack as sparse_hstack

from degroot.asker.mixture import clustered_standard_error
from degroot.compute.compiled import Array

LANDMARKS = 150
BANDWIDTHS = (0.1, 0.3, 1.0)  # of the kernel, over twice the inverse of the median squared distance
PENALTIES = np.logspace(-3, 2, 11)
LEAST_ROWS = 50  # from which on the asker's view may learn a correction
CONTROL_ROWS = 10  # from which on the control does, which is what peers are compared with


@dataclass(frozen=True)
class Correction:
    """A learned correction: what has to be added to predictions."""

    features: Any  # fitted: takes scaled rows to kernel features; None: there is nothing to correct
    scale: Any  # rows and predictions on one scale
    coefficients: Array  # (features, Q)
    low: Array  # (Q,)
    high: Array  # (Q,)
    left_out: Array  # (n, Q) for the rows it was learned from, by what was learned without their units

    def at(self, rows: Any, predictions: Array) -> Array:
        """What to add to `predictions` (M, Q) at points whose transformed rows are `rows`, (M, Q)."""
        if self.features is None or not len(predictions):
            return np.zeros(predictions.shape)
        kernel = self.features.transform(self.scale(rows, predictions))
        added: Array = np.clip(kernel @ self.coefficients, self.low, self.high)
        return added


def learn_correction(
    rows: Any, predictions: Array, residuals: Array, units: NDArray[np.intp], folds: NDArray[np.intp]
) -> Correction:
    """Learn what to add to `predictions` (n, Q) from label minus prediction, `residuals` (n, Q), on these `rows`."""
    from sklearn.kernel_approximation import Nystroem
    from sklearn.metrics import pairwise_distances

    scale = _fit_scale(rows, predictions)
    table = scale(rows, predictions)
    some = np.random.default_rng(0).choice(len(residuals), min(LANDMARKS, len(residuals)), replace=False)
    between = pairwise_distances(table[some], metric="sqeuclidean")[np.triu_indices(len(some), 1)]
    median = float(np.median(between)) if len(between) else 0.0
    low, high = residuals.min(axis=0), residuals.max(axis=0)
    nothing = Correction(None, scale, np.zeros((0, 0)), low, high, np.zeros_like(residuals))
    if median <= 0.0 or len(np.unique(folds)) < 2:
        return nothing
    best, least = nothing, float((residuals**2).sum(axis=1).mean())
    for bandwidth in BANDWIDTHS:
        made = Nystroem(gamma=2.0 * bandwidth / median, n_components=len(some), random_state=0).fit(table)
        kernel = made.transform(table)
        left = np.clip(_left_out(kernel, residuals, folds), low, high)  # (penalties, n, Q)
        losses = ((residuals - left) ** 2).sum(axis=-1).T
        chosen = _choose_penalty(losses, units)
        gained = (residuals**2).sum(axis=1) - losses[:, chosen]
        if gained.mean() <= clustered_standard_error(gained, units) or losses[:, chosen].mean() >= least:
            continue
        least = float(losses[:, chosen].mean())
        ridge = kernel.T @ kernel + PENALTIES[chosen] * np.eye(kernel.shape[1])
        best = Correction(made, scale, np.linalg.solve(ridge, kernel.T @ residuals), low, high, left[chosen])
    return best


def _choose_penalty(losses: Array, units: NDArray[np.intp]) -> int:
    """The largest penalty whose `losses` (n, penalties) are within one standard error of the least."""
    mean = losses.mean(axis=0)
    best = int(np.argmin(mean))
    error = clustered_standard_error(losses - losses[:, [best]], units)
    return int(np.flatnonzero(mean <= mean[best] + error).max())


def _left_out(kernel: Array, residuals: Array, folds: NDArray[np.intp]) -> Array:
    """Ridge predictions (penalties, n, Q) for each fold by what the others give, for all penalties at once."""
    gram, products = kernel.T @ kernel, kernel.T @ residuals
    left = np.empty((len(PENALTIES), *residuals.shape))
    for fold in np.unique(folds):
        rows = folds == fold
        part = kernel[rows]
        values, vectors = np.linalg.eigh(gram - part.T @ part)
        target, turned = vectors.T @ (products - part.T @ residuals[rows]), part @ vectors
        for k, penalty in enumerate(PENALTIES):
            left[k, rows] = turned @ (target / (np.maximum(values, 0.0) + penalty)[:, None])
    return left


def _fit_scale(rows: Any, predictions: Array) -> Any:
    """Puts rows and predictions beside each other, each with a standard deviation of 1; sparse rows as they are."""
    spread = _positive(predictions.std(axis=0))
    if issparse(rows):
        return lambda X, said: csr_array(sparse_hstack([X, said / spread]))
    centre, width = rows.mean(axis=0), _positive(rows.std(axis=0))
    middle = predictions.mean(axis=0)
    return lambda X, said: np.column_stack([(X - centre) / width, (said - middle) / spread])


def _positive(spread: Array) -> Array:
    return np.where(spread > 0.0, spread, 1.0)
