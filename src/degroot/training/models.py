"""Models: what an organisation can train that has none yet. All take rows by the schema, with categories and gaps."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from degroot.agents.classification import one_hot
from degroot.agents.units import code_units
from degroot.compute.compiled import Array
from degroot.compute.progress import SlowWork
from degroot.estimators.self_scoring import CROSS, FOLDS, train_with_own_predictions
from degroot.exceptions import InvalidInput
from degroot.schema.columns import CATEGORY, MAX_CATEGORIES
from degroot.schema.schema import Schema
from degroot.training.organisation import Organisation

LINEAR, FOREST, BOOSTING, BEST = MODELS = ("linear", "forest", "boosting", "best")
TREES = 100
MIN_BOOSTING_ROWS = 500  # below which boosting has too few
MAX_FOREST_ROWS = 5_000  # from which on forests take longer, for no more
MIN_SPARSE_ROWS = 20_000  # from which on one-hot vectors are sparse
MIN_KNOWN_ROWS, MIN_KNOWN_UNITS = 20, 10  # that must know a feature for boosting, which stops where a fold knows none


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
    return (LINEAR, *((FOREST,) if n < MAX_FOREST_ROWS else ()), *((BOOSTING,) if n >= MIN_BOOSTING_ROWS else ()))


def fit_best(organisation: Organisation, schema: Schema, tried: Sequence[str], seed: int, work: SlowWork) -> Fitted:
    """The best of the kinds that are `tried`, by the squared error of five folds of the organisation's own rows.

    A step of `work` is a row for one kind.
    """
    X, y, name, weights = organisation.X, organisation.y, organisation.name, organisation.weights
    labels = None if schema.classes is None else np.array(schema.classes)
    found = []
    for kind in tried:
        work.name_step(f"{name}, {kind}")
        # A fold may lack a class, or a feature be the same in all rows. Threads that wait for each other take far
        # longer than one alone where others use the cores.
        with warnings.catch_warnings(action="ignore"), threadpool_limits(1):
            model = make_model(kind, organisation, schema, seed)
            done = train_with_own_predictions(model, X, y, name, labels, CROSS, seed, organisation.units, weights)
        found.append(Fitted(kind, done.model, np.asarray(done.own)))
        work(len(y))
    truth = y if labels is None else one_hot(y, labels, len(y), InvalidInput)
    losses = [(each.own - truth) ** 2 for each in found]
    counts = weights if weights is not None and weights.any() else None
    means = [np.average(loss if loss.ndim == 1 else loss.sum(axis=1), weights=counts) for loss in losses]
    return found[int(np.argmin(means))]


def make_model(kind: str, organisation: Organisation, schema: Schema, seed: int) -> Any:
    """A model that takes rows by the schema and looks at the columns alone that the organisation has."""
    from sklearn.ensemble import (
        HistGradientBoostingClassifier,
        HistGradientBoostingRegressor,
        RandomForestClassifier,
        RandomForestRegressor,
    )

    classifies = schema.classes is not None
    columns = np.flatnonzero(~organisation.lacks).tolist()
    if kind == LINEAR:
        return _linear(columns, schema, classifies, len(organisation.y))
    if kind == FOREST:
        forest = RandomForestClassifier if classifies else RandomForestRegressor
        return _select(columns, forest(TREES, min_samples_leaf=3, random_state=seed))
    columns = [k for k in columns if _is_known_in_folds(organisation, k)] or columns
    boosting = HistGradientBoostingClassifier if classifies else HistGradientBoostingRegressor
    categories = [place for place, k in enumerate(columns) if is_native_category(schema, k)]
    return _select(columns, boosting(categorical_features=categories or None, random_state=seed))


def is_native_category(schema: Schema, place: int) -> bool:
    """Whether boosting splits on sets of a column's categories."""
    column = schema.columns[place]
    return column.kind == CATEGORY and len(column.categories) <= MAX_CATEGORIES


def _is_known_in_folds(organisation: Organisation, place: int) -> bool:
    """Whether a feature has values in the rows that are left when any fold is taken away."""
    known = ~np.isnan(organisation.X[:, place])
    if organisation.units is None:
        return bool(known.sum() > min(MIN_KNOWN_ROWS, -(-len(known) // FOLDS)))
    labels, codes = code_units(organisation.units)
    n_units = len(np.unique(codes[known]))
    return n_units >= 2 if len(labels) <= FOLDS else n_units >= min(MIN_KNOWN_UNITS, len(labels))


def _linear(columns: Sequence[int], schema: Schema, classifies: bool, n_rows: int) -> Any:
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression, Ridge, RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    large = n_rows >= MIN_SPARSE_ROWS
    listed = [k for k in columns if schema.columns[k].is_listed]
    scaled = [k for k in columns if not schema.columns[k].is_listed]
    numbers = make_pipeline(SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler())
    parts: list[Any] = [("numbers", numbers, scaled)] if scaled else []
    parts += [("listed", OneHotEncoder(handle_unknown="ignore", sparse_output=large), listed)] if listed else []
    if classifies:
        last: Any = LogisticRegression(max_iter=2000)
    else:
        last = Ridge() if large else RidgeCV(np.logspace(-3, 3, 13))
    return make_pipeline(ColumnTransformer(parts, sparse_threshold=1.0 if large and listed else 0.0), last)


def _select(columns: Sequence[int], model: Any) -> Any:
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import make_pipeline

    return make_pipeline(ColumnTransformer([("columns", "passthrough", list(columns))]), model)
