"""Self-scoring: an agent's model, and its out-of-fold predictions of the agent's own rows."""

import inspect
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold
from sklearn.pipeline import Pipeline

from degroot.agents.classification import probabilities
from degroot.agents.units import code_units
from degroot.answers.display import counted
from degroot.compute.compiled import Array
from degroot.compute.gaps import describe_failure
from degroot.compute.progress import progress
from degroot.compute.tables import call_model, take, to_outputs
from degroot.exceptions import AgentError, InvalidInput
from degroot.files.source import PEERS
from degroot.schema.frames import has_words

CROSS, TRAIN = "cross", "train"
SELF_SCORING = (CROSS, TRAIN, PEERS)
FOLDS = 5
MANY_UNITS = 5000  # from which on folds have nearly the same mix of labels without looking at it, which takes long

TAKES_FRAMES = "Models of frames with texts or dates are pipelines that encode them, OneHotEncoder for example."


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
    sample_weight: Array | None = None,
) -> CrossFittedModel:
    """Train `model` on the rows of the agent called `name`; where it scores itself by cross-fitting, also on folds.

    Rows with the same label in `units`, (n,), are in the same fold. One row cannot be left out of itself: then peers
    score the model. `sample_weight`, (n,), is what the model's training counts each row for; a pipeline hands it to its
    last step. Out-of-fold predictions are of all rows, whatever their weights.
    """
    try:
        fitted = _fit(model, X, y, classes, sample_weight)
    except Exception as error:
        remedy = " Join its row to another group's, or leave it out." if len(y) == 1 else ""
        if len(y) > 1 and has_words(X):
            remedy = f" {TAKES_FRAMES}"
        raise AgentError(
            name, f"its model must train on its {counted(len(y), 'row')}; {describe_failure(X, error)}.{remedy}"
        ) from error
    if self_scoring == TRAIN:
        return CrossFittedModel(fitted, None)
    if self_scoring == PEERS or len(y) == 1:
        return CrossFittedModel(fitted, PEERS)
    folds = _folds(y, name, classes, units, np.random.default_rng(seed))
    return CrossFittedModel(fitted, _out_of_fold(model, X, y, name, classes, folds, sample_weight))


def _out_of_fold(
    model: Any,
    X: Any,
    y: NDArray[Any],
    name: str,
    classes: NDArray[Any] | None,
    folds: list[NDArray[np.intp]],
    sample_weight: Array | None,
) -> Array:
    own = np.empty(y.shape if classes is None else (len(y), len(classes)))
    with progress(f"Out-of-fold predictions of {name}", len(folds)) as advance:
        for fold in folds:
            rest = np.setdiff1d(np.arange(len(y)), fold)
            rows, weight = take(X, rest), None if sample_weight is None else sample_weight[rest]
            try:
                other = _fit(model, rows, y[rest], classes, weight)
            except Exception as error:
                raise AgentError(
                    name,
                    f"to score itself its model must train on {len(rest)} of its {len(y)} rows; "
                    f"{describe_failure(rows, error)}. "
                    f"`self_scoring` {TRAIN!r} or {PEERS!r} does without.",
                ) from error
            own[fold] = _says(other, take(X, fold), y.shape[1:], name, classes)
            advance()
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


def _fit(model: Any, X: Any, y: NDArray[Any], classes: NDArray[Any] | None, sample_weight: Array | None = None) -> Any:
    """A trained clone. Most classifiers cannot learn from one class: where there is but one, it is the answer."""
    weights = {} if sample_weight is None else _name_weights(model, sample_weight)
    learned = y if sample_weight is None else y[sample_weight > 0.0]
    if classes is not None and len(np.unique(learned)) == 1:
        return DummyClassifier(strategy="most_frequent").fit(X, y, sample_weight)
    return clone(model).fit(X, y, **weights)


def _name_weights(model: Any, sample_weight: Array) -> dict[str, Array]:
    """Weights as ``model.fit`` takes them: a pipeline by the name of its last step, unless metadata is routed."""
    if not sample_weight.any():
        raise InvalidInput("some of these rows must have a weight that is not zero; all weights are zero.")
    if isinstance(model, Pipeline) and not sklearn.get_config()["enable_metadata_routing"]:
        step, last = model.steps[-1]
        return {f"{step}__{name}": weights for name, weights in _name_weights(last, sample_weight).items()}
    accepted = inspect.signature(model.fit).parameters
    if "sample_weight" in accepted or any(each.kind == each.VAR_KEYWORD for each in accepted.values()):
        return {"sample_weight": sample_weight}
    raise InvalidInput(
        f"with weights of rows its fit must take sample_weight; that of {type(model).__name__} does not."
    )


def _says(model: Any, X: Any, outputs: tuple[int, ...], name: str, classes: NDArray[Any] | None) -> Array:
    def complaint(message: str) -> AgentError:
        return AgentError(name, message)

    if classes is not None:
        return probabilities(model, X, classes, complaint)
    answer = call_model(model.predict, X, complaint)
    return to_outputs(answer, X.shape[0], complaint, "predict(X)", outputs[0] if outputs else None)
