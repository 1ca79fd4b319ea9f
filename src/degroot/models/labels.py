"""Classifiers whose files know their classes by number only: 0, 1, 2, …"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.exceptions import InvalidInput


class Numbered:
    """A classifier; `answers` gives the probability of class 1 for each row, or those of all classes."""

    classes_: NDArray[Any]

    def answers(self, X: Any) -> NDArray[Any]:
        """What the file's own library says of each row."""
        raise NotImplementedError

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """The probability of each of `classes_`, (n, Q)."""
        answers = self.answers(X)
        return np.column_stack([1 - answers, answers]) if answers.ndim == 1 else answers

    def predict(self, X: Any) -> NDArray[Any]:
        """The likeliest class of each row."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])


def labels_for(count: int, classes: Sequence[Any] | None) -> NDArray[Any]:
    """The labels of so many classes, in the order of their numbers; the numbers themselves, where none are given."""
    if classes is None:
        return np.arange(count)
    labels = np.asarray(classes)
    if labels.shape != (count,) or len(np.unique(labels)) < count:
        raise InvalidInput(f"`classes` must be {count} different labels, as many as the model has; got {classes!r}.")
    return labels


def refuse_labels(classes: Sequence[Any] | None) -> None:
    """Refuse labels where they mean nothing."""
    if classes is not None:
        raise InvalidInput(
            "`classes` must come with a classifier in a file of LightGBM or XGBoost, which knows its classes by number "
            f"only; got {classes!r} for another model."
        )
