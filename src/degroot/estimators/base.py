"""The base of the estimators: from rows to agents with trained models."""

import reprlib
import warnings
from collections.abc import Iterable, Sequence
from functools import partial
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted, validate_data

from degroot import partitions
from degroot.agents.agent import Agent
from degroot.agents.units import LABEL_APART, as_units, check_units_apart, code_units
from degroot.answers.answer import FIELDS, Consensus
from degroot.answers.display.words import output_names
from degroot.answers.explanation import Explanation
from degroot.answers.gains import Gains
from degroot.collective import Collective
from degroot.compute.compiled import Array
from degroot.compute.gaps import check_finite
from degroot.compute.tables import as_array, is_frame, take, to_outputs
from degroot.consultation.groups import match_groups
from degroot.consultation.settings import OWN, check_choice
from degroot.estimators.self_scoring import SELF_SCORING, CrossFittedModel, train_with_own_predictions
from degroot.exceptions import AgentError, InvalidInput
from degroot.files.source import PEERS
from degroot.schema import is_mixed
from degroot.schema.frames import check_distinct, check_names

if TYPE_CHECKING:
    from degroot.audit import Audit


class CollectiveEstimator(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """An estimator that deals rows to agents, trains a model for each, and lets them pool."""

    __metadata_request__score: ClassVar = {"groups": False}  # unless somebody asks for it: splitters take `groups` too

    def __init__(
        self,
        estimator: Any = None,
        *,
        agents: Iterable[Agent] | None = None,
        n_agents: int = 5,
        partition: Any = "random",
        fraction: float = 1.0,
        self_scoring: str = "cross",
        neighbours: float | None = None,
        rule: str = "degroot",
        metric: str = "euclidean",
        kernel: str | None = None,
        space: Any = None,
        ridge: float | None = None,
        guard: bool | None = None,
        evidence: str = OWN,
        correct: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.agents = agents
        self.n_agents = n_agents
        self.partition = partition
        self.fraction = fraction
        self.self_scoring = self_scoring
        self.neighbours = neighbours
        self.rule = rule
        self.metric = metric
        self.kernel = kernel
        self.space = space
        self.ridge = ridge
        self.guard = guard
        self.evidence = evidence
        self.correct = correct
        self.random_state = random_state
        self.n_jobs = n_jobs

    @classmethod
    def from_agents(cls, agents: Iterable[Agent], **settings: Any) -> Self:
        """A fitted estimator from agents that have trained models; `settings` are those of `Collective`.

        Examples
        --------
        >>> from degroot import Agent, DeGrootRegressor
        >>> rows = np.arange(10.0)[:, None]
        >>> agents = [Agent(lambda X, k=k: k * X[:, 0], rows, 1.4 * rows[:, 0], f"times {k}") for k in (1, 2, 3)]
        >>> DeGrootRegressor.from_agents(agents).predict([[3.0]]).round(2)
        array([4.13])
        """
        model = cls(agents=agents, **settings)
        model._pool(agents)
        model.n_features_in_ = model.agents_[0].n_features
        if model.collective_.feature_names is not None:
            model.feature_names_in_ = np.array(model.collective_.feature_names, dtype=object)
        return model

    @property
    def agents_(self) -> tuple[Agent, ...]:
        """The agents, in order."""
        return self.collective_.agents

    def transform(self, X: Any) -> Any:
        """What every agent predicts on its own: a column for each agent, or for each agent and output or class.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from degroot import DeGrootRegressor
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> model = DeGrootRegressor(n_agents=2, random_state=0).fit(X, y).set_output(transform="pandas")
        >>> model.transform(X[:2]).round(0)
           degrootregressor_agent 1  degrootregressor_agent 2
        0                     176.0                     174.0
        1                     107.0                      99.0
        """
        beliefs = np.asarray(self.consult(X, "beliefs").beliefs)
        return beliefs.reshape(len(beliefs), -1)

    def consult(
        self,
        X: Any,
        fields: Sequence[str] | str = FIELDS,
        *,
        coverage: float | None = None,
        groups: ArrayLike | None = None,
    ) -> Consensus:
        """The prediction with what lies behind it, as `Collective.consult` gives it.

        Parameters
        ----------
        X : (M, d)
        fields : names of fields of `Consensus`
        coverage : float, optional
            How often the outcome shall lie between `lower` and `upper`, or in `sets` of classes. The consensus is
            calibrated when that is first needed.
        groups : (M,) labels, or one for all rows, optional
            For whom: rows whose group is the name of an agent get that agent's view. Other groups, and missing ones,
            get the neutral consensus, with a warning.

        Examples
        --------
        >>> from degroot import DeGrootRegressor
        >>> X = np.arange(40.0)[:, None]
        >>> model = DeGrootRegressor().fit(X, X[:, 0], groups=["north", "south"] * 20)
        >>> model.consult(X[:2], groups=["south", "north"]).asker
        array(['south', 'north'], dtype=object)
        """
        check_is_fitted(self, "collective_")
        points = self._check_points(X)
        askers = None if groups is None else self._match_groups(groups, points.shape[0])
        self._calibrate_for(coverage, askers)
        return self.collective_.consult(points, fields, coverage=coverage, asker=askers)

    def explain(
        self,
        X: Any,
        point: int = 0,
        *,
        groups: ArrayLike | None = None,
        coverage: float | None = None,
        output: int | str | None = None,
    ) -> Explanation:
        """Where the prediction for one of the points comes from, in words; with `groups`, that for its group.

        `coverage` and `groups` are as of `consult`, `output` as of `Collective.explain`.

        Examples
        --------
        >>> from degroot import DeGrootRegressor
        >>> X = np.arange(40.0)[:, None]
        >>> model = DeGrootRegressor().fit(X, X[:, 0], groups=["north", "south"] * 20)
        >>> model.explain(X, 3, groups="north").text.splitlines()[0]
        'The collective says 3.005106 for point 3, asked by north.'
        """
        return self.consult(X, coverage=coverage, groups=groups).explain(point, output)

    def audit(self, X: Any, groups: ArrayLike | None = None) -> "Audit":
        """Who carries the predictions for the points `X`, and who could be dropped; see `Collective.audit`.

        An audit is for one agent, or for nobody: `groups` is one label, or the same for all rows.

        Examples
        --------
        >>> from degroot import DeGrootRegressor
        >>> X = np.arange(40.0)[:, None]
        >>> model = DeGrootRegressor().fit(X, X[:, 0], groups=["north", "south"] * 20)
        >>> print(str(model.audit(X)).partition(";")[0])
        2 agents, 40 points. On average an answer rests on 1.99 agents
        """
        check_is_fitted(self, "collective_")
        points = self._check_points(X)
        askers = {None} if groups is None else set(self._match_groups(groups, points.shape[0]))
        if len(askers) > 1:
            raise InvalidInput(f"`groups` of an audit must be one agent for all rows; got {len(askers)}.")
        return self.collective_.audit(points, asker=askers.pop())

    def gains(self, shapley: bool = False) -> Gains:
        """What every agent gains by asking for its own view, on its own rows; see `Collective.gains`.

        Examples
        --------
        >>> from degroot import DeGrootRegressor
        >>> X = np.arange(40.0)[:, None]
        >>> model = DeGrootRegressor().fit(X, X[:, 0], groups=["north", "south"] * 20)
        >>> print(str(model.gains()).partition(",")[0])
        2 of 2 organisations gain
        """
        check_is_fitted(self, "collective_")
        return self.collective_.gains(shapley)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """What the columns of `transform` are called; the names of the features make no difference.

        Examples
        --------
        >>> from degroot import DeGrootRegressor
        >>> X = np.arange(20.0).reshape(10, 2)
        >>> DeGrootRegressor(n_agents=2).fit(X, X[:, 0]).get_feature_names_out().tolist()
        ['degrootregressor_agent 1', 'degrootregressor_agent 2']
        """
        check_is_fitted(self, "collective_")
        outputs = output_names(self.collective_.outputs, self.collective_.classes)
        agents = [f"{type(self).__name__.lower()}_{name}" for name in self.collective_.names]
        names = agents if outputs is None else [f"{agent}_{output}" for agent in agents for output in outputs]
        return np.asarray(names, dtype=object)

    def _default(self) -> Any:
        """What is trained when no estimator is given."""
        raise NotImplementedError

    def _deal(
        self,
        X: Any,
        y: NDArray[Any],
        groups: ArrayLike | None,
        units: ArrayLike | None,
        sample_weight: ArrayLike | None,
        classes: NDArray[Any] | None = None,
    ) -> None:
        """Deal checked rows to agents, train a model for each and let them pool."""
        check_choice("self_scoring", self.self_scoring, SELF_SCORING)
        if self.agents is not None:
            self._pool(self.agents)
            return
        labels = None if units is None else as_units(units, len(y))
        weights = None if sample_weight is None else _as_weights(sample_weight, len(y))
        if weights is not None and not weights.all():
            kept = np.flatnonzero(weights)
            X, y, weights, groups = take(X, kept), y[kept], weights[kept], _keep_groups(groups, kept, len(y))
            labels = None if labels is None else labels[kept]
        names, parts = self._parts(X, y, groups, labels)
        if self._needs_numbers and not is_mixed(X):
            for name, part in zip(names, parts, strict=True):
                check_finite(take(X, part), partial(AgentError, name))
        held = [None if labels is None else labels[part] for part in parts]
        models = self._models(len(parts))
        random = check_random_state(self.random_state)
        seeds = [int(random.randint(np.iinfo(np.int32).max)) for _ in parts]
        counted = [None if weights is None else weights[part] for part in parts]
        results: Sequence[CrossFittedModel] = Parallel(n_jobs=self.n_jobs)(
            delayed(train_with_own_predictions)(
                model, take(X, part), y[part], name, classes, self.self_scoring, seed, own, weight
            )
            for model, part, name, seed, own, weight in zip(models, parts, names, seeds, held, counted, strict=True)
        )
        alone = len(parts) == 1
        self._pool(
            Agent(
                done.model, take(X, part), y[part], name,
                space=self.space,
                own_predictions=None if alone and isinstance(done.own, str) and done.own == PEERS else done.own,
                classes=classes,
                units=own,
            )
            for done, part, name, own in zip(results, parts, names, held, strict=True)
        )  # fmt: skip

    def _pool(self, agents: Iterable[Agent]) -> None:
        self.collective_ = Collective(
            agents, self.neighbours, self.rule,
            metric=self.metric, kernel=self.kernel, space=self.space, ridge=self.ridge, guard=self.guard,
            evidence=self.evidence, correct=self.correct, n_jobs=self.n_jobs,
        )  # fmt: skip

    def _match_groups(self, groups: ArrayLike, M: int) -> NDArray[Any]:
        """The agent of each row's group, (M,), None where there is none, which is told in one warning."""
        labels = as_array(groups, lambda why: InvalidInput(f"`groups` must hold one label for each row; {why}."))
        if labels.ndim == 0:
            labels = np.repeat(labels, M)
        if labels.shape != (M,):
            raise InvalidInput(f"`groups` must hold one label for each of {M} rows; its shape is {labels.shape}.")
        names = [agent.name for agent in self.agents_ if not agent.scored_by_peers]
        askers, strange = match_groups(labels, names)
        if strange.rows:
            warnings.warn(strange.describe(M, "a group") + ".", stacklevel=4)
        return askers

    def _calibrate_for(self, coverage: float | None, askers: NDArray[Any] | None) -> None:
        """Calibrate the consensus, if intervals are asked of it for the first time."""
        neutral = askers is None or any(asker is None for asker in askers)
        if coverage is not None and neutral and not self.collective_.is_calibrated:
            self.collective_.calibrate()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = [get_tags(model) for model in self._templates()]
        tags.input_tags.sparse = all(tag.input_tags.sparse for tag in inner)
        tags.input_tags.allow_nan = self.space is not None and all(tag.input_tags.allow_nan for tag in inner)
        return tags

    def _check_points(self, X: Any) -> Any:
        """Checked points to predict."""
        if is_frame(X):
            check_distinct(X.columns, "`X`")
        checks = {"skip_check_array": True} if is_frame(X) else self._checks()
        points = validate_data(self, X, reset=False, **checks)
        if self._needs_numbers and self.collective_.schema is None:
            check_finite(points)
        return points

    def _check_frame(self, X: Any) -> None:
        """Refuse a frame with columns of one name, or one that takes a schema and has names that are no texts."""
        check_distinct(X.columns, "`X`")
        if self.space is None and is_mixed(X):
            check_names(X)

    def _checks(self) -> dict[str, Any]:
        """What scikit-learn should check; whether numbers are finite is looked at with the names of agents at hand."""
        dtype = [np.float64, np.float32] if self._needs_numbers else None
        return {"accept_sparse": "csr", "dtype": dtype, "ensure_all_finite": False}

    @property
    def _needs_numbers(self) -> bool:
        """Whether rows have to be finite numbers: those that a space turns into numbers may be anything."""
        agents = self.collective_.agents if hasattr(self, "collective_") else ()
        return self.space is None and not (agents and all(agent.space is not None for agent in agents))

    def _templates(self) -> Sequence[Any]:
        if self.estimator is None:
            return [self._default()]
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
        return [_set_seeds(clone(template), random) for template in templates]

    def _parts(
        self, X: Any, y: NDArray[Any], groups: ArrayLike | None, units: NDArray[Any] | None
    ) -> tuple[list[str], list[partitions.Rows]]:
        """The names of the agents and the row numbers of each: whole units, or they are refused."""
        if groups is not None:
            labels, parts = partitions.by_group(groups)
            if sum(map(len, parts)) != len(y):
                raise _groups_error(len(y), sum(map(len, parts)))
            names, hint = [str(label) for label in labels], LABEL_APART
        else:
            parts = self._deal_rows(X, y, units)
            names, hint = [f"agent {k}" for k in range(1, len(parts) + 1)], "`partition` 'random' deals whole units."
        if units is not None:
            held = ((name, np.unique(units[part])) for name, part in zip(names, parts, strict=True))
            check_units_apart(held, hint=hint)
        return names, parts

    def _deal_rows(self, X: Any, y: NDArray[Any], units: NDArray[Any] | None) -> list[partitions.Rows]:
        if isinstance(self.n_agents, Integral) and self.n_agents > len(y) and not callable(self.partition):
            raise InvalidInput(
                f"`n_agents` must be at most the number of rows, as every agent must get one; got "
                f"n_agents={self.n_agents} and n_samples={len(y)}."
            )
        if callable(self.partition):
            return _row_numbers(self.partition(X, y), len(y))
        random = check_random_state(self.random_state)
        if isinstance(self.partition, str) and self.partition == "random":
            if units is not None:
                return self._deal_units(units, random)
            return partitions.random(len(y), self.n_agents, random)
        if isinstance(self.partition, str) and self.partition == "label":
            values: Any = _ranks(y if y.ndim == 1 else y[:, 0])
        else:
            values = self._feature(X)
        return partitions.by_order(values, self.n_agents, self.fraction, random)

    def _deal_units(self, units: NDArray[Any], random: np.random.RandomState) -> list[partitions.Rows]:
        """Whole units dealt at random, equally many to every agent up to one."""
        labels, codes = code_units(units)
        if isinstance(self.n_agents, Integral) and len(labels) < self.n_agents:
            raise InvalidInput(f"Every agent must get a unit; got {len(labels)} units for {self.n_agents} agents.")
        owner = np.empty(len(labels), np.intp)
        for k, dealt in enumerate(partitions.random(len(labels), self.n_agents, random)):
            owner[dealt] = k
        return partitions.by_group(owner[codes])[1]

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


def _as_weights(sample_weight: ArrayLike, n_rows: int) -> Array:
    """Weights of rows, (n,), if they are finite numbers and none is negative."""
    weights = to_outputs(sample_weight, n_rows, name="sample_weight", outputs=None)
    if (weights < 0.0).any():
        row = int(np.flatnonzero(weights < 0.0)[0])
        raise InvalidInput(f"`sample_weight` must not be negative; row {row} is {weights[row]:g}.")
    if not weights.any():
        raise InvalidInput("`sample_weight` must be above zero for some rows; all weights are zero.")
    return weights


def _keep_groups(groups: ArrayLike | None, kept: NDArray[np.intp], n_rows: int) -> ArrayLike | None:
    """The groups of the rows that have a weight, if every group has such a row."""
    if groups is None:
        return None
    labels = as_array(groups, lambda why: InvalidInput(f"`groups` must hold one label for each row; {why}."))
    if len(labels) != n_rows:
        raise _groups_error(n_rows, len(labels))
    left = set(labels.tolist()) - set(labels[kept].tolist())
    if left:
        raise InvalidInput(f"Every group must have a row with a weight above zero; {min(left, key=str)!r} has none.")
    return labels[kept]


def _groups_error(n_rows: int, count: int) -> InvalidInput:
    return InvalidInput(f"`groups` must have one label for each of {n_rows} rows; it has {count}.")


def _ranks(labels: NDArray[Any]) -> NDArray[Any]:
    """Numbers in the order of the labels, which may be strings."""
    return labels if labels.dtype.kind in "fiub" else np.unique(labels, return_inverse=True)[1]


def _set_seeds(model: Any, random: np.random.RandomState) -> Any:
    """`model`, with a seed of its own wherever it has an open one."""
    for name, value in sorted(model.get_params(deep=True).items()):
        if name.split("__")[-1] == "random_state" and value is None:
            model.set_params(**{name: int(random.randint(np.iinfo(np.int32).max))})
    return model
