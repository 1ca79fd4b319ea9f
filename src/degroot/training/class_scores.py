"""Scores of classifiers on held-out rows: error rate, log loss, Brier score and AUC, as scikit-learn computes them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, log_loss, mean_squared_error, roc_auc_score

from degroot.answers.gains import ClassScores
from degroot.compute.compiled import Array


def score_classes(truths: Sequence[Array], answers: Sequence[Array]) -> ClassScores:
    """Scores of probabilities (n, Q) on each organisation's rows, and on those of all together.

    `truths`: (n, Q) of each organisation, 1 for the class of the row and 0 for the others.
    """
    pairs = [*zip(truths, answers, strict=True), (np.concatenate(truths), np.concatenate(answers))]
    return ClassScores(*np.array([_score(truth, answer) for truth, answer in pairs]).T)


def _score(truth: Array, answer: Array) -> tuple[float, float, float, float]:
    """Error rate, log loss, Brier score and AUC."""
    labels, places = truth.argmax(axis=1), np.arange(truth.shape[1])
    chances = np.clip(answer, 0.0, 1.0)
    chances /= chances.sum(axis=1, keepdims=True)
    brier = mean_squared_error(truth, chances, multioutput="raw_values").sum()
    wrong = 1.0 - accuracy_score(labels, chances.argmax(axis=1))
    return wrong, log_loss(labels, chances, labels=places), brier, _auc(labels, chances)


def _auc(labels: NDArray[np.intp], chances: Array) -> float:
    """Of the second of two classes; of more, the mean over classes that occur, each against the rest. NaN: of one."""
    present = np.unique(labels)
    if len(present) < 2:
        return np.nan
    each = present if chances.shape[1] > 2 else [1]
    return float(np.mean([roc_auc_score(labels == q, chances[:, q]) for q in each]))
