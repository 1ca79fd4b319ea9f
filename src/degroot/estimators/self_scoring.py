"""Self-scoring: an agent's model, and its out-of-fold predictions of the agent's own rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.dummy import DummyClassifier

from degroot.agents.classification import probabilities
from degroot.compute.compiled import Array
from degroot.compute.tables import call_model, take, to_outputs
from degroot.exceptions import AgentError, describe_error
from degroot.files.source import PEERS

CROSS, TRAIN = "cross", "train"
SELF_SCORING = (CROSS, TRAIN, PEERS)
FOLDS = 5


@dataclass(frozen=True, slots=True)
class CrossFittedModel:
    """A trained model, and the own predictions that go with it, as an `Agent` takes them."""

    model: Any
    own: Array | str | None


def train_with_own_predictions(
    model: Any, X: Any, y: NDArray[Any], name: str, classes: NDArray[Any] | None, self_scoring: str, seed: int
) -> CrossFittedModel:
    """Train `model` on the rows of the agent called `name`; where it scores itself by cross-fitting, also on folds.

    One row cannot be left out of itself: then peers score the model.
    """
    fitted = _fit(model, X, y, classes)
    if self_scoring == TRAIN:
        return CrossFittedModel(fitted, None)
    if self_scoring == PEERS or len(y) == 1:
        return CrossFittedModel(fitted, PEERS)
    return CrossFittedModel(fitted, _out_of_fold(model, X, y, name, classes, np.random.default_rng(seed)))


def _out_of_fold(
    model: Any, X: Any, y: NDArray[Any], name: str, classes: NDArray[Any] | None, random: np.random.Generator
) -> Array:
    own = np.empty(y.shape if classes is None else (len(y), len(classes)))
    for fold in _folds(y, random):
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


def _folds(y: NDArray[Any], random: np.random.Generator) -> list[NDArray[np.intp]]:
    """Up to five folds with nearly the same mix of labels: rows in the order of the label are dealt in turn."""
    labels = y if y.ndim == 1 else y[:, 0]
    order = np.lexsort((random.permutation(len(y)), labels))
    return [np.sort(order[k::FOLDS]) for k in range(min(FOLDS, len(y)))]


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
