"""Kernel ridge regression on an asker's rows, with bandwidth and penalty tried in folds of whole units.

Nyström features of an RBF kernel of the rows and of a prediction beside them (Williams and Seeger, *Using the Nyström
method to speed up kernel machines*, 2001). What a fold would be told by the others comes for all penalties from one
eigendecomposition.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array, as_kernel_array
from degroot.compute.kernel import compiled_for
from degroot.compute.tables import is_sparse

LANDMARKS = 150
FEW_INPUTS = 100  # numbers up to which a compiled loop is quicker than numpy
PENALTIES = np.logspace(-4, 2, 13)
SMALLEST_EIGENVALUE_RATIO = 1e-13  # of the largest: below it there is hardly more than rounding


@dataclass(frozen=True)
class KernelRidge:
    r"""A fitted regression: :math:`k(x, C) a` with a kernel :math:`k(x, c) = \exp(-\gamma |x - c|^2)`."""

    kernel: "RBFKernel"
    dual: Array  # (m, T) a

    def predict(self, table: Any) -> Array:
        """At points (M, inputs): (M, T)."""
        if self.kernel.is_sparse or table.size > FEW_INPUTS:
            return np.asarray(self.kernel.at(table) @ self.dual)
        predicted = np.zeros((len(table), self.dual.shape[1]))
        _predict_into(as_kernel_array(table), self.kernel.landmarks, self.kernel.gamma, self.dual, predicted)
        return predicted


@compiled_for("f8[2] f8[2] f8 f8[2] f8[2]")
def _predict_into(table: Array, landmarks: Array, gamma: float, dual: Array, predicted: Array) -> None:
    """Add to `predicted` (M, T); in one call, which for a point of few inputs takes a third of numpy's time."""
    for point in range(len(table)):
        for landmark in range(len(landmarks)):
            gap = 0.0
            for k in range(table.shape[1]):
                gap += (table[point, k] - landmarks[landmark, k]) ** 2
            similarity = np.exp(-gamma * gap)
            for target in range(dual.shape[1]):
                predicted[point, target] += similarity * dual[landmark, target]


@dataclass(frozen=True)
class RBFKernel:
    """Similarities to landmarks, without scikit-learn's checks of every input, which take longer than one point."""

    gamma: float
    landmarks: Any  # (m, inputs) C, dense or sparse
    squares: Array  # (m,) their squared norms
    is_sparse: bool

    def at(self, table: Any) -> Array:
        """Of points (M, inputs): (M, m)."""
        similarities: Array = np.exp(_squared_distances(table, self.landmarks, self.squares) * -self.gamma)
        return similarities

    @classmethod
    def choose(cls, table: Any, gamma: float, count: int) -> "RBFKernel":
        """With so many rows of the table as landmarks."""
        landmarks = table[np.random.RandomState(0).permutation(table.shape[0])[:count]]
        sparse = is_sparse(table)
        landmarks = landmarks if sparse else as_kernel_array(landmarks)
        return cls(gamma, landmarks, _squared_norms(landmarks, sparse), sparse)


@dataclass(frozen=True)
class RidgeTrial:
    """One bandwidth, tried on all rows and, for every penalty, on folds that were left out."""

    kernel: RBFKernel
    basis: Array  # (m, r) from similarities to Nyström features
    features: Array  # (n, r) of the rows
    targets: Array  # (n, T)
    left_out: Array  # (penalties, n, T) predictions for rows by what was learned without their folds

    def fit(self, penalty: int) -> KernelRidge:
        """From all rows, with the penalty of that number."""
        ridge = self.features.T @ self.features + PENALTIES[penalty] * np.eye(self.features.shape[1])
        return KernelRidge(self.kernel, self.basis @ np.linalg.solve(ridge, self.features.T @ self.targets))


def nystroem_basis(kernel: RBFKernel) -> Array:
    r"""B with :math:`k(x, C) B` the Nyström features of x: :math:`U \Lambda^{-1/2}` of :math:`k(C, C) = U \Lambda U'`.

    Directions whose eigenvalue is mostly rounding are left out: its inverse root would magnify the rounding of every
    prediction, so that a point alone and in a batch would get answers that differ.
    """
    values, vectors = np.linalg.eigh(kernel.at(kernel.landmarks))
    kept = values > SMALLEST_EIGENVALUE_RATIO * values[-1]
    basis: Array = vectors[:, kept] / np.sqrt(values[kept])
    return basis


def _squared_distances(table: Any, landmarks: Any, squares: Array) -> Array:
    """Of points (M, inputs) to landmarks (m, inputs) with these squared norms: (M, m)."""
    products, sparse = table @ landmarks.T, is_sparse(table)
    distances: Array = -2.0 * (products.toarray() if sparse else products)
    distances += _squared_norms(table, sparse)[:, None]
    distances += squares
    return np.maximum(distances, 0.0, out=distances)


def _squared_norms(table: Any, is_sparse: bool) -> Array:
    norms = table.multiply(table).sum(axis=1) if is_sparse else np.einsum("ij,ij->i", table, table)
    return np.asarray(norms, np.float64)


class Inputs:
    """Rows (n, d) and predictions (n, Q) beside each other, each with standard deviation 1; sparse rows as they are."""

    def __init__(self, rows: Any, predictions: Array) -> None:
        self._sparse = is_sparse(rows)
        if not self._sparse:
            self._centre = as_kernel_array(rows.mean(axis=0))
            self._width = as_kernel_array(_positive(rows.std(axis=0)))
        self._middle, self._spread = predictions.mean(axis=0), _positive(predictions.std(axis=0))
        self.table = self.scale(rows, predictions)

    def scale(self, rows: Any, predictions: Array) -> Any:
        """Points in the same form."""
        if self._sparse:
            from scipy.sparse import csr_array, hstack

            return csr_array(hstack([rows, (predictions - self._middle) / self._spread]))
        scaled = np.empty((len(predictions), rows.shape[1] + predictions.shape[1]))
        _scale_into(
            as_kernel_array(rows), as_kernel_array(predictions), self._centre, self._width, self._middle, self._spread,
            scaled,
        )  # fmt: skip
        return scaled


@compiled_for("f8[2] f8[2] f8[1] f8[1] f8[1] f8[1] f8[2]")
def _scale_into(
    rows: Array, predictions: Array, centre: Array, width: Array, middle: Array, spread: Array, scaled: Array
) -> None:
    d = rows.shape[1]
    for i in range(len(scaled)):
        for k in range(d):
            scaled[i, k] = (rows[i, k] - centre[k]) / width[k]
        for q in range(predictions.shape[1]):
            scaled[i, d + q] = (predictions[i, q] - middle[q]) / spread[q]


def try_bandwidths(
    inputs: Inputs, targets: Array, folds: NDArray[np.intp], bandwidths: tuple[float, ...]
) -> Iterator[RidgeTrial]:
    """A trial of every bandwidth, over twice the inverse of the median squared distance; none where there is nothing.

    `targets` are (n, T).
    """
    from threadpoolctl import threadpool_limits

    n = len(targets)
    some = inputs.table[np.random.default_rng(0).choice(n, min(LANDMARKS, n), replace=False)]
    distances = _squared_distances(some, some, _squared_norms(some, is_sparse(some)))
    between = distances[np.triu_indices(len(distances), 1)]
    median = float(np.median(between)) if len(between) else 0.0
    if median <= 0.0 or len(np.unique(folds)) < 2:
        return
    for bandwidth in bandwidths:
        with threadpool_limits(1):  # matrices are small: threads that wait for each other take many times as long
            kernel = RBFKernel.choose(inputs.table, 2.0 * bandwidth / median, len(distances))
            basis = nystroem_basis(kernel)
            features = kernel.at(inputs.table) @ basis
            trial = RidgeTrial(kernel, basis, features, targets, _leave_folds_out(features, targets, folds))
        yield trial


def _leave_folds_out(features: Array, targets: Array, folds: NDArray[np.intp]) -> Array:
    """Predictions (penalties, n, T) for each fold by what the others give."""
    gram, products = features.T @ features, features.T @ targets
    left = np.empty((len(PENALTIES), *targets.shape))
    for fold in np.unique(folds):
        rows = folds == fold
        part = features[rows]
        values, vectors = np.linalg.eigh(gram - part.T @ part)
        told, turned = vectors.T @ (products - part.T @ targets[rows]), part @ vectors
        for k, penalty in enumerate(PENALTIES):
            left[k, rows] = turned @ (told / (np.maximum(values, 0.0) + penalty)[:, None])
    return left


def _positive(spread: Array) -> Array:
    return np.where(spread > 0.0, spread, 1.0)
