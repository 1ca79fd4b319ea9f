"""A collective of classifiers with scikit-learn's face."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d, validate_data

from degroot.agents.agent import Agent
from degroot.compute.compiled import Array
from degroot.compute.tables import as_array, is_frame, is_missing
from degroot.estimators.base import CollectiveEstimator
from degroot.exceptions import InvalidInput, describe_error


class DeGrootClassifier(ClassifierMixin, CollectiveEstimator):  # type: ignore[misc]
    """A collective of classifiers, each trained on its own share of the rows.

    Agents trust models by the Brier score of their probabilities near the point. A model that gives labels only counts
    as certain of them; a class that an agent has never seen has probability 0 for it.

    Parameters
    ----------
    estimator : estimator, or list of estimators
        What every agent trains a clone of; a list has one for each agent. Logistic regression by default. An agent
        whose rows are all of one class gives that class, as most classifiers cannot learn from one.
    agents, n_agents, partition, fraction, self_scoring, random_state, n_jobs
        As in `DeGrootRegressor`.
    neighbours, rule, metric, kernel, space, ridge, guard, evidence, correct
        As in `Collective`.

    Attributes
    ----------
    classes_ : (Q,) labels
    collective_ : Collective
    agents_ : tuple of Agent
    n_features_in_ : int
    feature_names_in_ : array of str, where `X` has them

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = DeGrootClassifier(LogisticRegression(max_iter=1000), n_agents=3, random_state=0).fit(X, y)
    >>> model.predict(X[:2]), model.predict_proba(X[:2]).shape
    (array([0, 0]), (2, 3))
    """

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        groups: ArrayLike | None = None,
        units: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> "DeGrootClassifier":
        """Deal the rows to agents, one for each group where `groups` are given, and train a model for each.

        `units`, (n,), labels the rows of one person, farm or country: they go to one agent, and into one fold when it
        cross-fits. `sample_weight`, (n,), goes to the training of each agent's model, also in folds; rows are dealt,
        and count as evidence of errors, without it; those of weight 0 are left out.

        An agent with a single row is scored by its peers, as no row is left to score its model on.

        Examples
        --------
        >>> X = np.arange(20.0)[:, None]
        >>> model = DeGrootClassifier().fit(X, ["low"] * 10 + ["high"] * 10, groups=["north", "south"] * 10)
        >>> model.classes_, model.collective_.names
        (array(['high', 'low'], dtype='<U4'), ('north', 'south'))
        """
        X, labels = self._check_training(X, y)
        self.classes_: NDArray[Any] = np.unique(labels)
        self._deal(X, labels, groups, units, sample_weight, self.classes_)
        return self

    def predict_proba(self, X: Any, groups: ArrayLike | None = None) -> Array:
        """The collective's probability of every class, (M, Q).

        Parameters
        ----------
        X : (M, d)
        groups : (M,) labels, or one for all rows, optional
            For whom: rows whose group is the name of an agent get that agent's view. Other groups, and missing ones,
            get the neutral consensus, with a warning. By default all rows do. Metadata that can be routed:
            ``set_predict_proba_request(groups=True)``.

        Examples
        --------
        >>> X = np.arange(20.0)[:, None]
        >>> model = DeGrootClassifier(n_agents=2, random_state=0).fit(X, ["low"] * 10 + ["high"] * 10)
        >>> model.predict_proba([[3.0]]).shape
        (1, 2)
        """
        return np.asarray(self.consult(X, "value", groups=groups).value)

    def predict(self, X: Any, groups: ArrayLike | None = None) -> NDArray[Any]:
        """The class with the largest probability, (M,); `groups` as of `predict_proba`.

        Examples
        --------
        >>> X = np.arange(20.0)[:, None]
        >>> model = DeGrootClassifier(n_agents=2, random_state=0).fit(X, ["low"] * 10 + ["high"] * 10)
        >>> model.predict([[3.0], [18.0]])
        array(['low', 'high'], dtype='<U4')
        """
        likeliest = np.asarray(self.consult(X, "value", groups=groups).value).argmax(axis=1)
        labels: NDArray[Any] = self.classes_[likeliest]
        return labels

    def predict_set(self, X: Any, coverage: float = 0.9, groups: ArrayLike | None = None) -> NDArray[np.bool_]:
        """The classes among which the outcome is, as often as `coverage` says, (M, Q): a column for each of `classes_`.

        Sets for a group are calibrated on the rows of its agent, those of the consensus on all rows; see
        `degroot.intervals`.

        Examples
        --------
        >>> X = np.arange(20.0)[:, None]
        >>> model = DeGrootClassifier(n_agents=2, random_state=0).fit(X, ["low"] * 10 + ["high"] * 10)
        >>> model.predict_set([[3.0]], 0.8)
        array([[False,  True]])
        """
        return np.asarray(self.consult(X, "value", coverage=coverage, groups=groups).sets)

    def score(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> float:
        """The share of right classes in the predictions for `groups`, as in scikit-learn.

        Examples
        --------
        >>> X, y = np.arange(20.0)[:, None], ["low"] * 10 + ["high"] * 10
        >>> DeGrootClassifier(n_agents=2, random_state=0).fit(X, y).score(X, y)
        1.0
        """
        return float(accuracy_score(y, self.predict(X, groups=groups), sample_weight=sample_weight))

    def _default(self) -> Any:
        return LogisticRegression(max_iter=1000)

    def _pool(self, agents: Any) -> None:
        agents = tuple(agents)
        for agent in agents:
            if isinstance(agent, Agent) and agent.classes is None:
                raise agent.error("it must have `classes` to be part of a classifier; it has none.")
        super()._pool(agents)
        self.classes_ = np.asarray(self.agents_[0].classes)

    def _check_training(self, X: Any, y: Any) -> tuple[Any, NDArray[Any]]:
        """Checked rows and labels. Frames stay frames: the agents' models may want their columns by name."""
        _check_labels(y)
        if not is_frame(X):
            X, y = validate_data(self, X, y, **self._checks())
        else:
            self._check_frame(X)
            validate_data(self, X, skip_check_array=True)
            if not len(X):
                raise InvalidInput("`X` must have at least one row; it has none.")
            y = column_or_1d(y, warn=True)
            check_consistent_length(X, y)
        try:
            check_classification_targets(y)
            np.unique(y)
        except TypeError as error:
            raise InvalidInput(f"`y` must hold labels that can be put in order; {describe_error(error)}.") from error
        return X, y


def _check_labels(y: Any) -> None:
    """Refuse missing labels among others that are no numbers."""
    labels = np.empty(0) if y is None else as_array(y, lambda why: InvalidInput(f"`y` must hold labels; {why}."))
    if labels.dtype.kind in "US" and isinstance(y, list | tuple):  # of which numpy makes NaN a text
        labels = np.asarray(y, object)
    missing = is_missing(labels.reshape(-1)) if labels.dtype.kind == "O" else np.zeros(0, np.bool_)
    if missing.any():
        row = int(np.flatnonzero(missing)[0]) // max(1, labels.size // len(labels))
        raise InvalidInput(f"`y` must hold no missing labels; row {row} is {labels.reshape(-1)[missing][0]}.")
