"""A collective of regressors with scikit-learn's face."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.utils.validation import validate_data

from degroot.compute.compiled import Array
from degroot.compute.tables import is_frame, to_outputs
from degroot.estimators.base import CollectiveEstimator
from degroot.exceptions import InvalidInput


class DeGrootRegressor(RegressorMixin, CollectiveEstimator):  # type: ignore[misc]
    """A collective of regressors, each trained on its own share of the rows.

    Parameters
    ----------
    estimator : estimator, or list of estimators
        What every agent trains a clone of; a list has one for each agent. Ridge regression by default.
    agents : agents, optional
        Agents with trained models. Then `fit` deals no rows and trains nothing: it only lets them pool. `from_agents`
        does so at once.
    n_agents : int
        How many agents to deal the rows to, when `fit` gets no groups.
    partition : ``"random"``, ``"label"``, feature or callable
        How to deal: at random, in the order of the label (the first of several outputs) or of a feature (its number or
        its name), or by ``partition(X, y)``, which gives the row numbers of each agent.
    fraction : float
        The share of the rows that is dealt in order, if any are; the rest is dealt at random.
    self_scoring : ``"cross"``, ``"train"`` or ``"peers"``
        How an agent scores its own model: on rows that it was not trained on, by cross-fitting, which takes five
        further fits; on its training rows, as in the paper, which flatters it; or not at all, so that what the other
        agents measured of it stands in (a single agent is not scored at all).
    neighbours, rule, metric, kernel, space, ridge, guard, evidence, correct
        As in `Collective`.
    random_state : int, RandomState or None
        For dealing the rows and cross-fitting, and for the agents' models where they want one.
    n_jobs : int, optional
        How many models are trained at once (one by default), and how many threads predict (all by default).

    Attributes
    ----------
    collective_ : Collective
    agents_ : tuple of Agent
    n_features_in_ : int
    feature_names_in_ : array of str, where `X` has them

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = DeGrootRegressor(Ridge(0.1), n_agents=5, random_state=0).fit(X, y)
    >>> value, error = model.predict(X, return_std=True)
    >>> value.shape, error.shape
    ((442,), (442,))
    """

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        groups: ArrayLike | None = None,
        units: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> "DeGrootRegressor":
        """Deal the rows to agents, one for each group where `groups` are given, and train a model for each.

        `y` is (n,), or (n, Q) for several outputs, which share the weights. `units`, (n,), labels the rows of one
        person, farm or country: they go to one agent, and into one fold when it cross-fits. `sample_weight`, (n,), goes
        to the training of each agent's model, also in folds; rows are dealt, and count as evidence of errors, without
        it; those of weight 0 are left out.

        An agent with a single row is scored by its peers, as no row is left to score its model on.

        Examples
        --------
        >>> X = np.arange(20.0)[:, None]
        >>> DeGrootRegressor().fit(X, X[:, 0], groups=["north", "south"] * 10).agents_
        (Agent('north', Ridge, 10 rows x 1 features), Agent('south', Ridge, 10 rows x 1 features))
        """
        X, labels = self._check_training(X, y)
        self._deal(X, labels, groups, units, sample_weight)
        return self

    def predict(self, X: Any, return_std: bool = False, groups: ArrayLike | None = None) -> Any:
        """The collective prediction, (M,) or (M, Q).

        Parameters
        ----------
        X : (M, d)
        return_std : bool
            Whether to give its standard error too, the jackknife over agents.
        groups : (M,) labels, or one for all rows, optional
            For whom: rows whose group is the name of an agent get that agent's view. Other groups, and missing ones,
            get the neutral consensus, with a warning. By default all rows do. Metadata that can be routed:
            ``set_predict_request(groups=True)``.

        Examples
        --------
        >>> X = np.arange(40.0)[:, None]
        >>> model = DeGrootRegressor(Ridge(1e-6), n_agents=2, random_state=0).fit(X, 2 * X[:, 0])
        >>> model.predict([[3.0], [5.0]]).round(3)
        array([ 6., 10.])
        >>> value, error = model.predict([[3.0], [5.0]], return_std=True)
        """
        answer = self.consult(X, ["value", *(["standard_error"] if return_std else [])], groups=groups)
        return (answer.value, answer.standard_error) if return_std else answer.value

    def predict_interval(self, X: Any, coverage: float = 0.9, groups: ArrayLike | None = None) -> tuple[Array, Array]:
        """Where the outcome is, as often as `coverage` says: the lower and the upper bounds.

        Intervals for a group are calibrated on the rows of its agent, those of the consensus on all rows; see
        `degroot.intervals`.

        Examples
        --------
        >>> X = np.arange(40.0)[:, None]
        >>> model = DeGrootRegressor(Ridge(1e-6), n_agents=2, random_state=0).fit(X, 2 * X[:, 0])
        >>> lower, upper = model.predict_interval([[3.0], [5.0]], 0.8)
        >>> bool((lower <= upper).all())
        True
        """
        answer = self.consult(X, "value", coverage=coverage, groups=groups)
        return np.asarray(answer.lower), np.asarray(answer.upper)

    def score(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> float:
        """The coefficient of determination of the predictions for `groups`, as in scikit-learn.

        Examples
        --------
        >>> X = np.arange(40.0)[:, None]
        >>> DeGrootRegressor(Ridge(1e-6), n_agents=2, random_state=0).fit(X, X[:, 0]).score(X, X[:, 0])
        1.0
        """
        return float(r2_score(y, self.predict(X, groups=groups), sample_weight=sample_weight))

    def _default(self) -> Any:
        return Ridge()

    def _check_training(self, X: Any, y: Any) -> tuple[Any, Array]:
        """Checked rows and labels. Frames stay frames: the agents' models may want their columns by name."""
        if not is_frame(X):
            X, y = validate_data(self, X, y, y_numeric=True, multi_output=True, **self._checks())
            return X, to_outputs(y, X.shape[0])
        self._check_frame(X)
        validate_data(self, X, skip_check_array=True)
        if not len(X):
            raise InvalidInput("`X` must have at least one row; it has none.")
        return X, to_outputs(np.asarray(y), len(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
