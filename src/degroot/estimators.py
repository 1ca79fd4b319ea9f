"""scikit-learn's face: an estimator that deals rows to agents, trains a model for each, and lets them pool."""

import reprlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.linear_model import Ridge
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from degroot import partitions
from degroot.agents import Agent
from degroot.collective import Collective
from degroot.exceptions import InvalidInput
from degroot.points import Array
from degroot.tables import is_frame, take, to_numbers, to_vector


class DeGrootRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
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
        How to deal: at random, in the order of the label or of a feature (its number or its name), or by
        ``partition(X, y)``, which gives the row numbers of each agent.
    fraction : float
        The share of the rows that is dealt in order, if any are; the rest is dealt at random.
    neighbours, rule, metric, kernel, space
        As in `Collective`.
    random_state : int, RandomState or None
        For dealing the rows, and for the agents' models where they want one.
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

    def __init__(
        self,
        estimator: Any = None,
        *,
        agents: Iterable[Agent] | None = None,
        n_agents: int = 5,
        partition: Any = "random",
        fraction: float = 1.0,
        neighbours: float = 0.01,
        rule: str = "degroot",
        metric: str = "euclidean",
        kernel: str = "uniform",
        space: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.agents = agents
        self.n_agents = n_agents
        self.partition = partition
        self.fraction = fraction
        self.neighbours = neighbours
        self.rule = rule
        self.metric = metric
        self.kernel = kernel
        self.space = space
        self.random_state = random_state
        self.n_jobs = n_jobs

    @classmethod
    def from_agents(cls, agents: Iterable[Agent], **settings: Any) -> "DeGrootRegressor":
        """A fitted regressor from agents that have trained models; `settings` are those of `Collective`."""
        model = cls(agents=agents, **settings)
        model.collective_ = model._collective(agents)
        model.n_features_in_ = model.agents_[0].n_features
        if model.collective_.feature_names is not None:
            model.feature_names_in_ = np.array(model.collective_.feature_names, dtype=object)
        return model

    def fit(self, X: Any, y: ArrayLike, groups: ArrayLike | None = None) -> "DeGrootRegressor":
        """Deal the rows to agents, one for each group where `groups` are given, and train a model for each."""
        X, labels = self._training(X, y)
        if self.agents is not None:
            self.collective_ = self._collective(self.agents)
            return self
        names, parts = self._parts(X, labels, groups)
        models = self._models(len(parts))
        trained = Parallel(n_jobs=self.n_jobs)(
            delayed(_fit)(model, take(X, part), labels[part]) for model, part in zip(models, parts, strict=True)
        )
        self.collective_ = self._collective(
            Agent(model, take(X, part), labels[part], name, space=self.space)
            for model, part, name in zip(trained, parts, names, strict=True)
        )
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The collective prediction, (M,); with `return_std`, also its standard error, the jackknife over agents."""
        check_is_fitted(self, "collective_")
        X = self._asked(X)
        if not return_std:
            return self.collective_.predict(X)
        answer = self.collective_.consult(X, fields=["value", "standard_error"])
        return answer.value, answer.standard_error

    @property
    def agents_(self) -> tuple[Agent, ...]:
        """The agents, in order."""
        return self.collective_.agents

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = [get_tags(model) for model in self._templates()]
        tags.input_tags.sparse = all(tag.input_tags.sparse for tag in inner)
        tags.input_tags.allow_nan = self.space is not None and all(tag.input_tags.allow_nan for tag in inner)
        return tags

    def _training(self, X: Any, y: Any) -> tuple[Any, Array]:
        """Checked rows and labels. Frames stay frames: the agents' models may want their columns by name."""
        if not is_frame(X):
            X, y = validate_data(self, X, y, y_numeric=True, **self._checks())
            return X, y.astype(np.float64)
        validate_data(self, X, skip_check_array=True)
        if not len(X):
            raise InvalidInput("`X` must have at least one row; it has none.")
        if self.space is None:
            to_numbers(X)
        return X, to_vector(column_or_1d(y, warn=True), len(X))

    def _asked(self, X: Any) -> Any:
        """Checked points to predict."""
        checks = {"skip_check_array": True} if is_frame(X) else self._checks()
        return validate_data(self, X, reset=False, **checks)

    def _checks(self) -> dict[str, Any]:
        """What scikit-learn should check; rows that a space turns into numbers may be anything."""
        agents = self.collective_.agents if hasattr(self, "collective_") else ()
        numbers = self.space is None and not (agents and all(agent.space is not None for agent in agents))
        return {
            "accept_sparse": "csr",
            "dtype": [np.float64, np.float32] if numbers else None,
            "ensure_all_finite": numbers,
        }

    def _templates(self) -> Sequence[Any]:
        if self.estimator is None:
            return [Ridge()]
        templates = self.estimator if isinstance(self.estimator, list | tuple) else [self.estimator]
        for template in templates:
            if isinstance(template, type) or not hasattr(template, "fit"):
                raise InvalidInput(f"`estimator` must be an estimator, or a list with one per agent; got {template!r}.")
        return templates

    def _models(self, n_agents: int) -> list[Any]:
        templates = self._templates()
        if isinstance(self.estimator, list | tuple):
            if len(templates) != n_agents:
                raise InvalidInput(
                    f"A list of estimators must have one for each of {n_agents} agents; it has {len(templates)}."
                )
        else:
            templates = [templates[0]] * n_agents
        random = check_random_state(self.random_state)
        return [_seeded(clone(template), random) for template in templates]

    def _parts(self, X: Any, y: Array, groups: ArrayLike | None) -> tuple[list[str], list[partitions.Rows]]:
        if groups is not None:
            labels, parts = partitions.by_group(groups)
            if sum(map(len, parts)) != len(y):
                raise InvalidInput(
                    f"`groups` must have one label for each of {len(y)} rows; it has {sum(map(len, parts))}."
                )
            return [str(label) for label in labels], parts
        parts = self._dealt(X, y)
        return [f"agent {k}" for k in range(1, len(parts) + 1)], parts

    def _dealt(self, X: Any, y: Array) -> list[partitions.Rows]:
        if callable(self.partition):
            return _row_numbers(self.partition(X, y), len(y))
        random = check_random_state(self.random_state)
        if isinstance(self.partition, str) and self.partition == "random":
            return partitions.random(len(y), self.n_agents, random)
        values = y if isinstance(self.partition, str) and self.partition == "label" else self._feature(X)
        return partitions.by_order(values, self.n_agents, self.fraction, random)

    def _feature(self, X: Any) -> Any:
        names = list(getattr(self, "feature_names_in_", []))
        place = names.index(self.partition) if self.partition in names else self.partition
        if not isinstance(place, int | np.integer) or not -X.shape[1] <= place < X.shape[1]:
            raise InvalidInput(
                "`partition` must be 'random', 'label', a callable or one of the features, by number or name; "
                f"got {self.partition!r}."
            )
        if is_frame(X):
            return X[X.columns[place]]
        column = X[:, [place]]
        return column.toarray().ravel() if hasattr(column, "toarray") else column[:, 0]

    def _collective(self, agents: Iterable[Agent]) -> Collective:
        return Collective(
            agents, self.neighbours, self.rule,
            metric=self.metric, kernel=self.kernel, space=self.space, n_jobs=self.n_jobs,
        )  # fmt: skip


def _row_numbers(parts: Any, n_rows: int) -> list[partitions.Rows]:
    """The row numbers that a `partition` gave for each agent, if they are that."""
    if not isinstance(parts, Iterable):
        raise InvalidInput(f"`partition` must give the row numbers of each agent; got {parts!r}.")
    rows = [np.asarray(part) for part in parts]
    for part in rows:
        if part.ndim != 1 or part.dtype.kind not in "iu" or not part.size or part.min() < 0 or part.max() >= n_rows:
            given = reprlib.repr(part.tolist())
            raise InvalidInput(f"`partition` must give each agent row numbers from 0 to {n_rows - 1}; got {given}.")
    return rows


def _fit(model: Any, X: Any, y: Array) -> Any:
    return model.fit(X, y)


def _seeded(model: Any, random: np.random.RandomState) -> Any:
    """`model`, with a seed of its own wherever it has an open one."""
    for name, value in sorted(model.get_params(deep=True).items()):
        if name.split("__")[-1] == "random_state" and value is None:
            model.set_params(**{name: int(random.randint(np.iinfo(np.int32).max))})
    return model
