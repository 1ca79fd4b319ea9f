"""Classes: labels as one-hot outputs, and models' answers as probabilities of all the classes.

The squared error of probabilities, summed over the classes, is the Brier score (Brier, 1950).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from degroot.compute.compiled import Array
from degroot.compute.tables import ErrorFactory, as_array, as_floats, call_model
from degroot.exceptions import InvalidInput, describe_error

SUM_TOLERANCE = 1e-4  # of probabilities, which models often give in float32


def known_classes(classes: Any, complaint: ErrorFactory = InvalidInput) -> NDArray[Any]:
    """`classes` as an array, if they are distinct labels."""
    labels = as_array(classes, lambda why: complaint(f"`classes` must be distinct labels; {why}."))
    if labels.ndim != 1 or not len(labels) or len(_distinct(labels, complaint, "classes")[0]) != len(labels):
        raise complaint(f"`classes` must be distinct labels; got {classes!r}.")
    return labels


def is_sklearn_classifier(model: Any) -> bool:
    """Whether a model is a classifier of scikit-learn, or calls itself one as those do.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge, RidgeClassifier
    >>> is_sklearn_classifier(RidgeClassifier()), is_sklearn_classifier(Ridge()), is_sklearn_classifier(len)
    (True, False, False)
    """
    if isinstance(model, type) or not hasattr(model, "__sklearn_tags__"):
        return False
    from sklearn.base import is_classifier

    return bool(is_classifier(model))


def one_hot(labels: ArrayLike, classes: NDArray[Any], length: int, complaint: ErrorFactory, name: str = "y") -> Array:
    """Labels (n,) as (n, Q): 1 for the label's class, 0 elsewhere."""
    given = as_array(labels, lambda why: complaint(f"`{name}` must hold labels; {why}."))
    if given.ndim == 2 and given.shape[1] == 1:
        given = given[:, 0]
    if given.shape != (length,):
        raise complaint(f"`{name}` must hold one label for each of {length} rows; its shape is {given.shape}.")
    distinct, which = _distinct(given, complaint, name)
    outputs = (distinct[:, None] == classes).astype(np.float64)
    if not outputs.any(axis=1).all():
        strange = distinct[~outputs.any(axis=1)].tolist()[0]
        raise complaint(f"`{name}` must hold labels among {', '.join(map(repr, classes.tolist()))}; got {strange!r}.")
    coded: Array = outputs[which]
    return coded


def probabilities(
    model: Any,
    X: Any,
    classes: NDArray[Any],
    complaint: ErrorFactory,
    warn_of_hard_labels: Callable[[], None] | None = None,
) -> Array:
    """What `model` says of each row of `X`, (M, Q). Classes it has never seen get 0; labels alone become 1 or 0.

    Where it gives labels alone, `warn_of_hard_labels` is called.
    """
    length = X.shape[0]
    if not hasattr(model, "predict_proba"):
        answer = _array(call_model(model.predict if hasattr(model, "predict") else model, X, complaint), complaint)
        if answer.ndim == 2 and answer.shape[1] == len(classes):
            return as_probabilities(answer, length, classes, complaint, "predict(X)")
        found = one_hot(answer, classes, length, complaint, "predict(X)")
        if warn_of_hard_labels is not None:
            warn_of_hard_labels()
        return found
    answer = _array(call_model(model.predict_proba, X, complaint), complaint)
    seen = np.asarray(getattr(model, "classes_", classes))
    if answer.ndim != 2 or seen.ndim != 1 or answer.shape[1] != len(seen):
        raise complaint(
            f"`predict_proba(X)` must give a probability for each of its {seen.size} classes; "
            f"its shape is {answer.shape}."
        )
    places = one_hot(seen, classes, len(seen), complaint, "classes_")
    return as_probabilities(as_floats(answer, complaint, "predict_proba(X)") @ places, length, classes, complaint)


def as_probabilities(
    answer: ArrayLike, length: int, classes: NDArray[Any], complaint: ErrorFactory, name: str = "predict_proba(X)"
) -> Array:
    """`answer` (M, Q), if its rows are probabilities of the classes."""
    given = as_array(answer, lambda why: complaint(f"`{name}` must hold probabilities; {why}."))
    if given.shape != (length, len(classes)):
        raise complaint(
            f"`{name}` must hold {len(classes)} probabilities for each of {length} rows; its shape is {given.shape}."
        )
    table = as_floats(given, complaint, name)
    sums = table.sum(axis=1)
    wrong = ~(np.isfinite(table).all(axis=1) & (table >= 0.0).all(axis=1) & (np.abs(sums - 1.0) <= SUM_TOLERANCE))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise complaint(
            f"`{name}` must hold probabilities that are not negative and sum to 1; row {row} is {table[row].tolist()}."
        )
    scaled: Array = table / sums[:, None]
    return scaled


def _array(answer: Any, complaint: ErrorFactory) -> NDArray[Any]:
    return as_array(answer, lambda why: complaint(f"its model must give one answer for each row; {why}."))


def _distinct(labels: NDArray[Any], complaint: ErrorFactory, name: str) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """The distinct labels, and which of them each is."""
    try:
        return np.unique(labels, return_inverse=True)
    except TypeError as error:
        raise complaint(f"`{name}` must hold labels that can be put in order; {describe_error(error)}.") from error
