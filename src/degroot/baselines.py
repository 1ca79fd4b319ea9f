"""Baselines: other ways to weigh the same models, behind the same face as `Collective`.

Three need no further data and are rules of `Collective`. The others weigh models by their error on held-out rows that
no agent has, which is what the agents wanted to do without: they are what to compare with.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from degroot.agents.agent import Agent, Scorer, squared_errors
from degroot.answers.answer import FIELDS as ALL_FIELDS
from degroot.answers.answer import Consensus, check_fields, drop_output_axis
from degroot.collective import Collective
from degroot.compute.compiled import Array
from degroot.compute.tables import as_table, row_labels, same_columns
from degroot.consultation.consult import compute_fields
from degroot.consultation.roster import check_spaces
from degroot.rules.evidence import Evidence, NeighbourhoodSpec, Rule
from degroot.rules.rules import leaving_out
from degroot.trust import from_errors

FIELDS = tuple(field for field in ALL_FIELDS if field != "trust")


def average(agents: Iterable[Agent]) -> Collective:
    """M-avg: the plain mean of all models.

    Examples
    --------
    >>> rows = np.arange(10.0)[:, None]
    >>> agents = [Agent(lambda X, k=k: k * X[:, 0], rows, 1.4 * rows[:, 0], f"times {k}") for k in (1, 2, 3)]
    >>> average(agents).predict([[3.0]])
    array([6.])
    """
    return Collective(agents, rule="average")


def trust_average(agents: Iterable[Agent], neighbours: float | None = None, **settings: Any) -> Collective:
    """tau-avg: weights are the mean of the agents' trust; one round of pooling.

    Examples
    --------
    >>> rows = np.arange(10.0)[:, None]
    >>> agents = [Agent(lambda X, k=k: k * X[:, 0], rows, 1.4 * rows[:, 0], f"times {k}") for k in (1, 2, 3)]
    >>> trust_average(agents).predict([[3.0]]).round(3)
    array([4.134])
    """
    return Collective(agents, neighbours, rule="trust-average", **settings)


def error_average(agents: Iterable[Agent], neighbours: float | None = None, **settings: Any) -> Collective:
    """MSE-avg: weights in inverse proportion to the mean of the agents' local errors.

    Examples
    --------
    >>> rows = np.arange(10.0)[:, None]
    >>> agents = [Agent(lambda X, k=k: k * X[:, 0], rows, 1.4 * rows[:, 0], f"times {k}") for k in (1, 2, 3)]
    >>> error_average(agents).predict([[3.0]]).round(3)
    array([4.134])
    """
    return Collective(agents, neighbours, rule="error-average", **settings)


def cv_static(agents: Iterable[Agent], X: Any, y: ArrayLike) -> "HeldOut":
    """CV-static: weights in inverse proportion to the error on all held-out rows, the same everywhere.

    Examples
    --------
    >>> rows = np.arange(10.0)[:, None]
    >>> agents = [Agent(lambda X, k=k: k * X[:, 0], rows, 1.4 * rows[:, 0], f"times {k}") for k in (1, 2, 3)]
    >>> cv_static(agents, rows, 1.4 * rows[:, 0]).predict([[3.0]]).round(3)
    array([4.134])
    """
    return HeldOut(agents, X, y, from_errors)


def cv_adaptive(agents: Iterable[Agent], X: Any, y: ArrayLike, neighbours: float = 0.01, **settings: Any) -> "HeldOut":
    """CV-adaptive: weights in inverse proportion to the error on the held-out rows near the point.

    Examples
    --------
    >>> rows = np.arange(10.0)[:, None]
    >>> agents = [Agent(lambda X, k=k: k * X[:, 0], rows, 1.4 * rows[:, 0], f"times {k}") for k in (1, 2, 3)]
    >>> cv_adaptive(agents, rows, 1.4 * rows[:, 0], neighbours=3).predict([[3.0]]).round(3)
    array([4.134])
    """
    return HeldOut(agents, X, y, from_errors, neighbours, **settings)


def best_single(agents: Iterable[Agent], X: Any, y: ArrayLike) -> "HeldOut":
    """The one model with the least error on the held-out rows.

    Examples
    --------
    >>> rows = np.arange(10.0)[:, None]
    >>> agents = [Agent(lambda X, k=k: k * X[:, 0], rows, 1.4 * rows[:, 0], f"times {k}") for k in (1, 2, 3)]
    >>> best_single(agents, rows, 1.4 * rows[:, 0]).predict([[3.0]])
    array([3.])
    """
    return HeldOut(agents, X, y, _winner)


class HeldOut:
    """Models weighted by their errors on held-out rows.

    Parameters
    ----------
    agents : agents
        Their models; their rows are not used.
    X, y : (n, d), (n,)
        The held-out rows.
    rule : callable
        From errors (M, K) on held-out rows near each point to weights (M, K).
    neighbours, metric, kernel, space
        Which of the held-out rows are near, as in `Collective`. Without `neighbours` all are.

    Examples
    --------
    >>> rows = np.arange(4.0)[:, None]
    >>> right, wrong = (Agent(lambda X, b=b: X[:, 0] + b, rows, rows[:, 0], str(b)) for b in (0, 1))
    >>> best_single([right, wrong], rows, rows[:, 0]).predict(rows)
    array([0., 1., 2., 3.])
    """

    def __init__(
        self,
        agents: Iterable[Agent],
        X: Any,
        y: ArrayLike,
        rule: Callable[[Array], Array],
        neighbours: float | None = None,
        *,
        metric: str = "euclidean",
        kernel: str = "uniform",
        space: Any = None,
    ) -> None:
        size = 1.0 if neighbours is None else neighbours
        self._models = Collective(agents, size, rule="average", metric=metric, kernel=kernel, space=space)
        if neighbours is None and all(agent.space is not None for agent in self.agents):
            space = self.agents[0].space  # whatever the agents can hold will do, as no distances are taken
        schema = self._models.schema
        holder = Agent(self._models, X, y, "hold-out", space=space, classes=self.agents[0].classes, schema=schema)
        check_spaces([holder], space)
        if holder.n_features != self.agents[0].n_features:
            raise holder.error(f"it must have {self.agents[0].n_features} features; got {holder.n_features}.")
        same_columns(holder.feature_names, self._models.feature_names, "its rows", holder.error)
        self._scorer: Scorer | None = None
        self._reach = NeighbourhoodSpec(size, kernel)
        if neighbours is None:
            self._errors = squared_errors(holder, self.agents).mean(axis=0)
        else:
            self._scorer = holder.score_models(self.agents, metric, space)
            self._scorer.ready(self._reach)
        self._rule = rule

    @property
    def agents(self) -> tuple[Agent, ...]:
        """The agents whose models are weighted."""
        return self._models.agents

    @property
    def names(self) -> tuple[str, ...]:
        """The agents' names, in order."""
        return self._models.names

    def predict(self, X: Any) -> Array:
        """The weighted prediction for each row of `X`, (M,).

        Examples
        --------
        >>> rows = np.arange(10.0)[:, None]
        >>> agents = [Agent(lambda X, k=k: k * X[:, 0], rows, 1.4 * rows[:, 0], f"times {k}") for k in (1, 2, 3)]
        >>> cv_static(agents, rows, 1.4 * rows[:, 0]).predict([[3.0]]).round(3)
        array([4.134])
        """
        return np.asarray(self.consult(X, fields="value").value)

    def consult(self, X: Any, fields: Sequence[str] | str = FIELDS) -> Consensus:
        """The prediction with what lies behind it; there is no trust between agents here.

        Examples
        --------
        >>> rows = np.arange(10.0)[:, None]
        >>> agents = [Agent(lambda X, k=k: k * X[:, 0], rows, 1.4 * rows[:, 0], f"times {k}") for k in (1, 2, 3)]
        >>> cv_static(agents, rows, 1.4 * rows[:, 0]).consult([[3.0]]).weights.round(3)
        array([[0.664, 0.295, 0.041]])
        """
        names, X = check_fields(fields, FIELDS), as_table(X)
        beliefs = np.asarray(self._models.consult(X, fields="beliefs").beliefs)
        several, evidence = beliefs.ndim == 3, Evidence(self._near(X)[:, None])
        rule = Rule(lambda near: self._rule(near.errors[:, 0]), self._values_without)
        known = compute_fields(names, rule, evidence, beliefs if several else beliefs[..., None])
        told = known if several else drop_output_axis(known)
        return Consensus(self.names, **told, classes=self._models.classes, index=row_labels(X))

    def _near(self, X: Any) -> Array:
        """Errors (M, K) on the held-out rows near each point."""
        if self._scorer is None:
            return np.tile(self._errors, (X.shape[0], 1))
        return self._scorer.near[self._reach].means(self._scorer.transform(X), self._scorer.errors)

    def _values_without(self, evidence: Evidence, beliefs: Array) -> Array:
        errors = evidence.errors[:, 0]

        def value_of(others: NDArray[np.intp]) -> Array:
            value: Array = (self._rule(errors[:, others]) * beliefs[:, others]).sum(axis=-1)
            return value

        return leaving_out(beliefs.shape[-1], value_of)


def _winner(errors: Array) -> Array:
    weights = np.zeros_like(errors)
    np.put_along_axis(weights, errors.argmin(axis=-1)[..., None], 1.0, axis=-1)
    return weights
