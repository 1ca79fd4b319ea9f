"""Models: what an organisation can train that has none yet. All of them take gaps."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from degroot.agents.classification import one_hot
from degroot.compute.compiled import Array
from degroot.compute.progress import Advance
from degroot.estimators.self_scoring import CROSS, train_with_own_predictions
from degroot.exceptions import InvalidInput
from degroot.training.organisations import Organisation

LINEAR, FOREST, BOOSTING, BEST = MODELS = ("linear", "forest", "boosting", "best")
TREES = 100
FEW, MANY = 500, 20_000  # rows below which boosting has too few, and from which on a forest takes too much room


@dataclass(frozen=True, slots=True)
class Fitted:
    """An organisation's model, and what it says of the organisation's rows without having been trained on them."""

    kind: str
    model: Any
    own: Array


def kinds(asked: str, organisation: Organisation) -> tuple[str, ...]:
    """The kinds of models that are tried."""
    if asked not in MODELS:
        raise InvalidInput(f"--model must be one of {', '.join(MODELS)}; got {asked!r}.")
    if asked != BEST:
        return (asked,)
    n = len(organisation.y)
    return (LINEAR, *((FOREST,) if n < MANY else ()), *((BOOSTING,) if n >= FEW else ()))


def fit_best(
    organisation: Organisation, classes: Sequence[str] | None, tried: Sequence[str], seed: int, advance: Advance
) -> Fitted:
    """The best of the kinds that are `tried`, by the squared error of five folds of the organisation's own rows."""
    X, y, name = organisation.X, organisation.y, organisation.name
    labels = None if classes is None else np.array(classes)
    found = []
    for kind in tried:
        # A fold may lack a class, or a feature be the same in all rows. Threads that wait for each other take long.
        with warnings.catch_warnings(action="ignore"), threadpool_limits(1 if len(y) < MANY else None):
            model = _model(kind, classes is not None, seed)
            done = train_with_own_predictions(model, X, y, name, labels, CROSS, seed, organisation.units)
        found.append(Fitted(kind, done.model, np.asarray(done.own)))
        advance()
    truth = y if labels is None else one_hot(y, labels, len(y), InvalidInput)
    return min(found, key=lambda each: float(np.mean((each.own - truth) ** 2)))


def _model(kind: str, classifies: bool, seed: int) -> Any:
    from sklearn.ensemble import (
        HistGradientBoostingClassifier,
        HistGradientBoostingRegressor,
        RandomForestClassifier,
        RandomForestRegressor,
    )
    from sklearn.linear_model import LogisticRegression, RidgeCV

    if kind == LINEAR:
        return _pipeline(LogisticRegression(max_iter=2000) if classifies else RidgeCV(np.logspace(-3, 3, 13)))
    if kind == FOREST:
        forest = RandomForestClassifier if classifies else RandomForestRegressor
        return forest(TREES, min_samples_leaf=3, random_state=seed)
    boosting = HistGradientBoostingClassifier if classifies else HistGradientBoostingRegressor
    return boosting(random_state=seed)


def space() -> Any:
    """Where distances are taken if values are missing: gaps filled with the median, features on one scale."""
    return _pipeline()


def _pipeline(*last: Any) -> Any:
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler(), *last)
