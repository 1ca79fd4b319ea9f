"""Baselines: other ways to weigh the same models, behind the same face as `Collective`.

Three need no further data and are rules of `Collective`. The others weigh models by their error on held-out rows that
no agent has, which is what the agents wanted to do without: they are what to compare with.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from degroot.agents import Agent, Judge
from degroot.collective import Collective, Consensus
from degroot.exceptions import InvalidInput
from degroot.jackknife import influence, standard_error, values_without
from degroot.points import Array
from degroot.tables import as_table
from degroot.trust import from_errors

FIELDS = ("value", "standard_error", "weights", "beliefs", "influence")


def average(agents: Iterable[Agent]) -> Collective:
    """M-avg: the plain mean of all models."""
    return Collective(agents, rule="average")


def trust_average(agents: Iterable[Agent], neighbours: float = 0.01, **settings: Any) -> Collective:
    """tau-avg: weights are the mean of the agents' trust; one round of pooling."""
    return Collective(agents, neighbours, rule="trust-average", **settings)


def error_average(agents: Iterable[Agent], neighbours: float = 0.01, **settings: Any) -> Collective:
    """MSE-avg: weights in inverse proportion to the mean of the agents' local errors."""
    return Collective(agents, neighbours, rule="error-average", **settings)


def cv_static(agents: Iterable[Agent], X: Any, y: ArrayLike) -> "HeldOut":
    """CV-static: weights in inverse proportion to the error on all held-out rows, the same everywhere."""
    return HeldOut(agents, X, y, from_errors, neighbours=1.0)


def cv_adaptive(agents: Iterable[Agent], X: Any, y: ArrayLike, neighbours: float = 0.01, **settings: Any) -> "HeldOut":
    """CV-adaptive: weights in inverse proportion to the error on the held-out rows near the point."""
    return HeldOut(agents, X, y, from_errors, neighbours, **settings)


def best_single(agents: Iterable[Agent], X: Any, y: ArrayLike) -> "HeldOut":
    """The one model with the least error on the held-out rows."""
    return HeldOut(agents, X, y, _winner, neighbours=1.0)


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
    neighbours, settings
        Which of the held-out rows are near, as in `Collective`.

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
        neighbours: float = 0.01,
        *,
        metric: str = "euclidean",
        kernel: str = "uniform",
        space: Any = None,
    ) -> None:
        self._models = Collective(agents, neighbours, rule="average", metric=metric, kernel=kernel)
        holder = Agent(self._models, X, y, "hold-out")
        if holder.n_features != self.agents[0].n_features:
            raise holder.error(f"it must have {self.agents[0].n_features} features; got {holder.n_features}.")
        self._judge = Judge.appoint(holder, self.agents, neighbours, metric, kernel, space)
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
        """The weighted prediction for each row of `X`, (M,)."""
        X = as_table(X)
        beliefs = self._beliefs(X)
        prediction: Array = (self._rule(self._judge.judge(self._judge.locate(X))) * beliefs).sum(axis=-1)
        return prediction

    def consult(self, X: Any, fields: Sequence[str] = FIELDS) -> Consensus:
        """The prediction with what lies behind it; there is no trust between agents here."""
        for name in fields:
            if name not in FIELDS:
                raise InvalidInput(f"`fields` must be among {', '.join(map(repr, FIELDS))}; got {name!r}.")
        X = as_table(X)
        beliefs, errors = self._beliefs(X), self._judge.judge(self._judge.locate(X))
        weights = self._rule(errors)
        value = (weights * beliefs).sum(axis=-1)
        without = values_without(self._without_each(errors), beliefs)
        known = {
            "value": value,
            "standard_error": standard_error(without),
            "weights": weights,
            "beliefs": beliefs,
            "influence": influence(value, without),
        }
        return Consensus(self.names, **{name: known[name] for name in fields})

    def _beliefs(self, X: Any) -> Array:
        beliefs = self._models.consult(X, fields=["beliefs"]).beliefs
        return np.asarray(beliefs)

    def _without_each(self, errors: Array) -> Array:
        M, K = errors.shape
        weights = np.zeros((M, K, K)) if K > 1 else np.full((M, K, K), np.nan)
        for i in range(K if K > 1 else 0):
            others = np.arange(K) != i
            weights[:, i, others] = self._rule(errors[:, others])
        return weights


def _winner(errors: Array) -> Array:
    weights = np.zeros_like(errors)
    np.put_along_axis(weights, errors.argmin(axis=-1)[..., None], 1.0, axis=-1)
    return weights
