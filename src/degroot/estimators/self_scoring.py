"""Self-scoring: an agent's model, and its out-of-fold predictions of the agent's own rows."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

from degroot.agents.classification import probabilities
from degroot.agents.units import code_units
from degroot.compute.compiled import Array
from degroot.compute.tables import call_model, take, to_outputs
from degroot.exceptions import AgentError, describe_error
from degroot.files.source import PEERS

CROSS, TRAIN = "cross", "train"
SELF_SCORING = (CROSS, TRAIN, PEERS)
FOLDS = 5
MANY_UNITS = 5000  # from which on folds have nearly the same mix of labels without looking at it, which takes long


@dataclass(frozen=True, slots=True)
class CrossFittedModel:
    """A trained model, and the own predictions that go with it, as an `Agent` takes them."""

    model: Any
    own: Array | str | None


def train_with_own_predictions(
    model: Any,
    X: Any,
    y: NDArray[Any],
    name: str,
    classes: NDArray[Any] | None,
    self_scoring: str,
    seed: int,
    units: NDArray[Any] | None = None,
) -> CrossFittedModel:
    """Train `model` on the rows of the agent called `name`; where it scores itself by cross-fitting, also on folds.

    Rows with the same label in `units`, (n,), are in the same fold. One row cannot be left out of itself: then peers
    score the model.
    """
    fitted = _fit(model, X, y, classes)
    if self_scoring == TRAIN:
        return CrossFittedModel(fitted, None)
    if self_scoring == PEERS or len(y) == 1:
        return CrossFittedModel(fitted, PEERS)
    folds = _folds(y, name, classes, units, np.random.default_rng(seed))
    return CrossFittedModel(fitted, _out_of_fold(model, X, y, name, classes, folds))


def _out_of_fold(
    model: Any, X: Any, y: NDArray[Any], name: str, classes: NDArray[Any] | None, folds: list[NDArray[np.intp]]
) -> Array:
    own = np.empty(y.shape if classes is None else (len(y), len(classes)))
    for fold in folds:
        rest = np.setdiff1d(np.arange(len(y)), fold)
        try:
            other = _fit(model, take(X, rest), y[rest], classes)
        except Exception as error:
            raise AgentError(
                name,
                f"to score itself its model must train on {len(rest)} of its {len(y)} rows; it raised "
                f"{describe_error(error)}. "
                f"`self_scoring` {TRAIN!r} or {PEERS!r} does without.",
            ) from error
        own[fold] = _says(other, take(X, fold), y.shape[1:], name, classes)
    return own


def _folds(
    y: NDArray[Any],
    name: str,
    classes: NDArray[Any] | None,
    units: NDArray[Any] | None,
    random: np.random.Generator,
) -> list[NDArray[np.intp]]:
    """Up to five folds, of whole units where there are any with several rows."""
    if units is None:
        return _folds_of_rows(y, random)
    codes = code_units(units)[1]
    n_units = int(codes.max()) + 1
    if n_units == len(y):
        return _folds_of_rows(y, random)
    if n_units == 1:
        raise AgentError(
            name,
            f"to score itself it must have rows of at least two units; all its {len(y)} rows are of unit "
            f"{units[:1].tolist()[0]!r}. `self_scoring` {TRAIN!r} or {PEERS!r} does without.",
        )
    return _folds_of_units(y if classes is not None else None, random.permutation(n_units)[codes], random)


def _folds_of_rows(y: NDArray[Any], random: np.random.Generator) -> list[NDArray[np.intp]]:
    """Up to five folds with nearly the same mix of labels: rows in the order of the label are dealt in turn."""
    labels = y if y.ndim == 1 else y[:, 0]
    order = np.lexsort((random.permutation(len(y)), labels))
    return [np.sort(order[k::FOLDS]) for k in range(min(FOLDS, len(y)))]


def _folds_of_units(
    labels: NDArray[Any] | None, units: NDArray[np.intp], random: np.random.Generator
) -> list[NDArray[np.intp]]:
    """Up to five folds of whole units, of nearly the same size or, with `labels` of classes, the same mix of them."""
    n_units = int(units.max()) + 1
    count = min(FOLDS, n_units)
    splitter: Any = GroupKFold(count)
    if labels is not None:
        labels, sizes = np.unique(labels, return_inverse=True, return_counts=True)[1:]
        if sizes.max() >= count and n_units < MANY_UNITS:
            splitter = StratifiedGroupKFold(count, shuffle=True, random_state=int(random.integers(2**31)))
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # of classes with fewer rows than folds
        folds = [np.asarray(fold, np.intp) for _, fold in splitter.split(units, labels, units)]
    return [fold for fold in folds if len(fold)]


def _fit(model: Any, X: Any, y: NDArray[Any], classes: NDArray[Any] | None) -> Any:
    """A trained clone. Most classifiers cannot learn from one class: where there is but one, it is the answer."""
    if classes is not None and len(np.unique(y)) == 1:
        return DummyClassifier(strategy="most_frequent").fit(X, y)
    return clone(model).fit(X, y)


def _says(model: Any, X: Any, outputs: tuple[int, ...], name: str, classes: NDArray[Any] | None) -> Array:
    def complaint(message: str) -> AgentError:
        return AgentError(name, message)

    if classes is not None:
        return probabilities(model, X, classes, complaint)
    answer = call_model(model.predict, X, complaint)
    return to_outputs(answer, X.shape[0], complaint, "predict(X)", outputs[0] if outputs else None)
