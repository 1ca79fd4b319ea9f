"""Judges: an agent's view of all models, how well they do on its own rows near a point."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np

from degroot.agents import Agent
from degroot.exceptions import InvalidInput
from degroot.neighbourhoods import KERNELS, METRICS, Neighbourhoods
from degroot.points import Array, for_kernels
from degroot.tables import Complaint, to_numbers, told


@dataclass(frozen=True, slots=True)
class Judge:
    """An agent's view of all models: how they do on its rows, and where those rows lie."""

    agent: Agent
    space: Any  # what takes rows to where distances are taken; None: they stay where they are
    neighbourhoods: Neighbourhoods
    errors: Array  # (n, K) squared errors of every model on the agent's rows

    @classmethod
    def appoint(
        cls, agent: Agent, predictors: Sequence[Agent], neighbours: float, metric: str, kernel: str, space: Any = None
    ) -> "Judge":
        """Make `agent` the judge of all `predictors`. Its own space goes before `space`."""
        space = _ready(agent.space if agent.space is not None else space, agent)
        rows = _located(agent.X, space, agent.error)
        size = neighbourhood_size(neighbours, agent)
        return cls(agent, space, Neighbourhoods(rows, size, metric, kernel), squared_errors(agent, predictors))

    def locate(self, X: Any) -> Any:
        """`X` where distances are taken."""
        located = _located(X, self.space, self.agent.error if self.space is not None else InvalidInput)
        if located.shape[1] != self.neighbourhoods.n_features:
            raise self.agent.error(
                f"its `space` must give points {self.neighbourhoods.n_features} features, as it gave its rows; "
                f"got {located.shape[1]}."
            )
        return located

    def judge(self, located: Any) -> Array:
        """Mean squared error of every model near each of the `located` points, (M, K)."""
        return self.neighbourhoods.means(located, self.errors)

    def judge_into(self, errors: Array, place: int, located: Any) -> None:
        """The same into ``errors[:, place]``, of (M, judges, K)."""
        self.neighbourhoods.means_into(errors, place, located, self.errors)

    def with_model(self, place: int, predictor: Agent) -> "Judge":
        """The same judge, with `predictor` in the place of the model at `place`, or after the last."""
        return self._with_column(place, squared_errors(self.agent, [predictor]))

    def without_model(self, place: int) -> "Judge":
        """The same judge, without the model at `place`."""
        return self._with_column(place, np.empty((self.agent.n_rows, 0)))

    def _with_column(self, place: int, column: Array) -> "Judge":
        errors = np.column_stack([self.errors[:, :place], column, self.errors[:, place + 1 :]])
        return replace(self, errors=for_kernels(errors))


def squared_errors(agent: Agent, predictors: Sequence[Agent]) -> Array:
    """Squared error of each of `predictors` on the rows of `agent`, (n, len(predictors))."""
    residuals = np.column_stack([predictor.predict(agent.X) - agent.y for predictor in predictors])
    return for_kernels(residuals**2)


def neighbourhood_size(neighbours: float, agent: Agent) -> int:
    """How many of the agent's rows are a neighbourhood: an integer as it is, a fraction rounded down, at least 2."""
    if isinstance(neighbours, Integral):
        if neighbours > agent.n_rows:
            raise agent.error(f"`neighbours` must be at most the number of rows, {agent.n_rows}; got {neighbours}.")
        return int(neighbours)
    return min(agent.n_rows, max(2, int(neighbours * agent.n_rows * (1 + 1e-12))))


def check_settings(neighbours: Any, metric: str, kernel: str, n_jobs: Any = None) -> None:
    """Refuse settings that no agent could use."""
    if n_jobs is not None and (not isinstance(n_jobs, Integral) or n_jobs == 0):
        raise InvalidInput(f"`n_jobs` must be a whole number other than 0, or None; got {n_jobs!r}.")
    if isinstance(neighbours, bool) or not isinstance(neighbours, (Integral, Real)):
        raise InvalidInput(f"`neighbours` must be a whole number or a fraction of the rows; got {neighbours!r}.")
    if isinstance(neighbours, Integral):
        if neighbours < 1:
            raise InvalidInput(f"`neighbours` must be at least 1 when it is a whole number; got {neighbours}.")
    elif not 0.0 < float(neighbours) <= 1.0:
        raise InvalidInput(f"`neighbours` must lie in (0, 1] when it is a fraction; got {neighbours}.")
    for name, value, known in (("metric", metric, METRICS), ("kernel", kernel, KERNELS)):
        check_choice(name, value, known)


def check_choice(name: str, value: object, known: Iterable[str]) -> None:
    """Refuse a value of the setting `name` that is not one of the known ones."""
    if not isinstance(value, str) or value not in known:
        raise InvalidInput(f"`{name}` must be one of {', '.join(map(repr, known))}; got {value!r}.")


def _ready(space: Any, agent: Agent) -> Any:
    """`space`, fitted on the agent's rows where it needs that and has not been."""
    if space is None or not hasattr(space, "transform"):
        if space is None or callable(space):
            return space
        raise agent.error(f"`space` must have transform(X) or be callable; it is a {type(space).__name__}.")
    from sklearn.base import BaseEstimator, clone
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    if not isinstance(space, BaseEstimator):
        return space
    try:
        check_is_fitted(space)
    except NotFittedError:
        space = clone(space)
        try:
            space.fit(agent.X, agent.y)
        except Exception as error:
            raise agent.error(f"its `space` must fit its rows; it raised {told(error)}.") from error
    return space


def _located(X: Any, space: Any, complaint: Complaint) -> Any:
    if space is None:
        return to_numbers(X, complaint)
    try:
        located = space.transform(X) if hasattr(space, "transform") else space(X)
    except Exception as error:
        raise complaint(f"its `space` must transform rows; it raised {told(error)}.") from error
    located = to_numbers(located, complaint, name="space.transform(X)")
    if located.shape[0] != X.shape[0] or located.shape[1] == 0:
        raise complaint(
            f"its `space` must give each of {X.shape[0]} rows at least one feature; its shape is {located.shape}."
        )
    return located
