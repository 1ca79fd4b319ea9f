"""Collectives: agents that answer together."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from degroot.agents import Agent
from degroot.exceptions import InvalidInput
from degroot.jackknife import influence, standard_error
from degroot.judges import Judge, check_choice, check_settings
from degroot.points import Array, in_blocks, threads
from degroot.progress import progress
from degroot.rules import RULES, Rule
from degroot.tables import as_table, column_names, same_columns, take, to_numbers
from degroot.trust import shares

BELIEFS_BYTES = 1 << 25  # of points and predictions, held at once
ERRORS_BYTES = 1 << 24  # of errors (M, K, K), held by a thread at once


@dataclass(frozen=True, slots=True)
class Consensus:
    """What a collective answers for M points. A field that was not asked for is None.

    The standard error says how much the answer depends on single agents; it is not a prediction interval. With one
    agent there is nobody to leave out: standard error and influence are NaN.
    """

    names: tuple[str, ...]
    value: Array | None = None  # (M,) the collective prediction
    standard_error: Array | None = None  # (M,) jackknife over agents
    weights: Array | None = None  # (M, K) consensus weights, rows sum to 1
    beliefs: Array | None = None  # (M, K) every agent's own prediction
    trust: Array | None = None  # (M, K, K) row i: agent i's trust in every model
    influence: Array | None = None  # (M, K) value with everyone, minus value without agent i


FIELDS = tuple(field.name for field in fields(Consensus) if field.name != "names")


def asked(fields: Sequence[str] | str, known: Sequence[str]) -> list[str]:
    """The names of fields that were asked for, one or several, if all are known."""
    if not isinstance(fields, Iterable):
        raise InvalidInput(f"`fields` must be names of fields; got {fields!r}.")
    names = [fields] if isinstance(fields, str) else list(fields)
    for name in names:
        if name not in known:
            raise InvalidInput(f"`fields` must be among {', '.join(map(repr, known))}; got {name!r}.")
    return names


class Collective:
    """Agents that pool their predictions, each trusting the models that do well on its own rows near the point.

    Parameters
    ----------
    agents : agents with distinct names
    neighbours : int or float
        How many of an agent's rows are the neighbourhood of a point: a number, or a fraction of each agent's rows
        (rounded down, at least 2).
    rule : str
        ``"degroot"`` (the paper's), ``"average"``, ``"trust-average"`` or ``"error-average"``.
    metric : str
        ``"euclidean"``, ``"cosine"`` or ``"manhattan"``.
    kernel : str
        How neighbours count: ``"uniform"`` (the paper's), ``"tricube"`` or ``"gaussian"``, by their distance over the
        distance of the farthest of them.
    space : transformer or callable, optional
        Applied before distances are taken, for agents that have no `space` of their own. (Rows that are not finite
        numbers need the agent's own.)
    n_jobs : int, optional
        How many threads to use; all cores by default.

    Notes
    -----
    Every model is asked once about every agent's rows, when the collective is made (an average needs no such thing).
    After that a prediction costs one call of each model, a neighbour search and small dense algebra.

    Examples
    --------
    >>> rows = np.arange(10.0)[:, None]
    >>> low = Agent(lambda X: 0 * X[:, 0], rows, np.where(rows[:, 0] < 5, 0, 1), "low")
    >>> high = Agent(lambda X: 0 * X[:, 0] + 1, rows, np.where(rows[:, 0] < 5, 0, 1), "high")
    >>> Collective([low, high], neighbours=3).predict([[1.0], [8.0]]).round(6)
    array([0., 1.])
    """

    def __init__(
        self,
        agents: Iterable[Agent],
        neighbours: float = 0.01,
        rule: str = "degroot",
        *,
        metric: str = "euclidean",
        kernel: str = "uniform",
        space: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        check_settings(neighbours, metric, kernel, n_jobs)
        check_choice("rule", rule, RULES)
        self.neighbours, self.rule, self.metric, self.kernel, self.space = neighbours, rule, metric, kernel, space
        self.n_jobs = n_jobs
        self.agents = _agreeing(agents)
        self._judges: tuple[Judge, ...] | None = None
        if self._rule.uses_errors:
            self._judges = self._calibrated()

    def __repr__(self) -> str:
        return f"Collective({', '.join(self.names)}; neighbours={self.neighbours}, rule={self.rule!r})"

    @property
    def names(self) -> tuple[str, ...]:
        """The agents' names, in order."""
        return tuple(agent.name for agent in self.agents)

    @property
    def feature_names(self) -> list[str] | None:
        """The names of the features, if the rows of any agent have them."""
        return _feature_names(self.agents)

    @property
    def judges(self) -> tuple[Judge, ...]:
        """Each agent's squared errors of all models, and its neighbourhoods."""
        if self._judges is None:
            self._judges = self._calibrated()
        return self._judges

    def predict(self, X: Any) -> Array:
        """The collective prediction for each row of `X`, (M,)."""
        return self._fields(self._checked(X), ["value"])["value"]

    def consult(self, X: Any, fields: Sequence[str] | str = FIELDS) -> Consensus:
        """The collective prediction with what lies behind it.

        Parameters
        ----------
        X : (M, d)
        fields : names of fields of `Consensus`
            Only these are computed and kept; all by default. `trust` takes 8 K² bytes a point.
        """
        return Consensus(self.names, **self._fields(self._checked(X), asked(fields, FIELDS)))

    def replace(self, agent: Agent) -> "Collective":
        """Put `agent` in the place of the one with its name, and score anew only what it changes."""
        place = self._place(_agent(agent).name)
        agents = _agreeing([*self.agents[:place], agent, *self.agents[place + 1 :]])
        if self._judges is not None:
            judge = self._judge(agent, agents)
            others = [other.with_model(place, agent) for k, other in enumerate(self._judges) if k != place]
            self._judges = (*others[:place], judge, *others[place:])
        self.agents = agents
        return self

    def join(self, agent: Agent) -> "Collective":
        """Add `agent`, and score only its model on others' rows and all models on its rows."""
        agents = _agreeing([*self.agents, agent])
        if self._judges is not None:
            judges = [judge.with_model(len(self.agents), agent) for judge in self._judges]
            self._judges = (*judges, self._judge(agent, agents))
        self.agents = agents
        return self

    def leave(self, name: str) -> "Collective":
        """Remove the agent called `name`; nothing has to be scored."""
        place = self._place(name)
        agents = _agreeing([*self.agents[:place], *self.agents[place + 1 :]])
        if self._judges is not None:
            others = [*self._judges[:place], *self._judges[place + 1 :]]
            self._judges = tuple(judge.without_model(place) for judge in others)
        self.agents = agents
        return self

    @property
    def _rule(self) -> Rule:
        return RULES[self.rule]

    def _place(self, name: str) -> int:
        if name not in self.names:
            raise InvalidInput(f"An agent's name must be one of {', '.join(map(repr, self.names))}; got {name!r}.")
        return self.names.index(name)

    def _judge(self, agent: Agent, predictors: Sequence[Agent]) -> Judge:
        return Judge.appoint(agent, predictors, self.neighbours, self.metric, self.kernel, self.space)

    def _calibrated(self) -> tuple[Judge, ...]:
        judges = []
        with progress("Scoring models", len(self.agents)) as advance:
            for agent in self.agents:
                judges.append(self._judge(agent, self.agents))
                advance()
        return tuple(judges)

    def _checked(self, X: Any) -> Any:
        X, expected = as_table(X), self.agents[0].n_features
        if X.shape[1] != expected:
            raise InvalidInput(f"`X` must have {expected} features, as the agents' rows do; got {X.shape[1]}.")
        same_columns(column_names(X), self.feature_names)
        return X

    def _fields(self, X: Any, names: Iterable[str]) -> dict[str, Array]:
        M, K = X.shape[0], len(self.agents)
        shapes = {"value": (M,), "standard_error": (M,), "trust": (M, K, K)}
        answer = {name: np.empty(shapes.get(name, (M, K))) for name in names}
        needs_errors = (self._rule.uses_errors and set(answer) != {"beliefs"}) or "trust" in answer
        judges = self.judges if needs_errors else ()
        width = K + X.shape[1] * (1 + sum(judge.space is not None for judge in judges))
        step = max(1, BELIEFS_BYTES // (8 * width))
        for start in range(0, M, step):
            stop = min(start + step, M)
            self._answer(
                take(X, slice(start, stop)), judges, {name: array[start:stop] for name, array in answer.items()}
            )
        return answer

    def _answer(self, X: Any, judges: Sequence[Judge], out: dict[str, Array]) -> None:
        """Answer for the points `X` into the arrays of `out`. Models and spaces are called from this thread only."""
        M, K = X.shape[0], len(self.agents)
        bare = self.space is None and any(agent.space is None for agent in self.agents)
        plain: Any = to_numbers(X) if bare else None
        beliefs = np.column_stack([agent.predict(X) for agent in self.agents])
        located = [plain if judge.space is None else judge.locate(X) for judge in judges]

        def block(start: int, stop: int) -> None:
            errors = np.empty((stop - start, K, K)) if judges else np.broadcast_to(1.0, (stop - start, K, K))
            for i, (judge, points) in enumerate(zip(judges, located, strict=True)):
                judge.judge_into(errors, i, points[start:stop])
            part = {name: array[start:stop] for name, array in out.items()}
            _conclude(self._rule, errors, beliefs[start:stop], part)

        size = min(4096, max(128, ERRORS_BYTES // (8 * K * K)), -(-M // (4 * (self.n_jobs or threads()))))
        in_blocks(block, M, -(-size // 64) * 64, self.n_jobs)


def concluded(
    names: Iterable[str], weights: Array, beliefs: Array, values_without: Callable[[Array], Array]
) -> dict[str, Array]:
    """What follows from weights and beliefs, (M, K) each: the fields in `names`, and those on the way to them."""
    known = {"weights": weights, "beliefs": beliefs, "value": (weights * beliefs).sum(axis=-1)}
    if {"standard_error", "influence"} & set(names):
        apart = beliefs - beliefs[:, :1]  # what all have in common would cost the differences their digits
        without = values_without(apart)
        known["standard_error"] = standard_error(without)
        known["influence"] = influence((weights * apart).sum(axis=-1), without)
    return known


def _conclude(rule: Rule, errors: Array, beliefs: Array, out: dict[str, Array]) -> None:
    """From errors (M, K, K) and beliefs (M, K) to the asked fields, the arrays of `out`."""
    known = {"beliefs": beliefs}
    if set(out) - {"beliefs"}:
        trust = shares(errors) if rule.uses_errors or "trust" in out else errors
        known["trust"] = trust
        if set(out) - {"beliefs", "trust"}:
            weights = rule.weights(errors, trust)
            known |= concluded(out, weights, beliefs, lambda apart: rule.values_without(errors, trust, apart))
    for name, array in out.items():
        array[:] = known[name]


def _agreeing(agents: Iterable[Agent]) -> tuple[Agent, ...]:
    """The agents, if there are any, no two share a name, and all have the same features."""
    if not isinstance(agents, Iterable):
        raise InvalidInput(f"A collective must be made of agents; got a {type(agents).__name__}.")
    agents = tuple(_agent(agent) for agent in agents)
    if not agents:
        raise InvalidInput("A collective must have at least one agent; it has none.")
    first, names, seen = agents[0], _feature_names(agents), set[str]()
    for agent in agents:
        if agent.name in seen:
            raise InvalidInput(f"Agents must have distinct names; two are called {agent.name!r}.")
        seen.add(agent.name)
        if agent.n_features != first.n_features:
            raise agent.error(
                f"it must have {first.n_features} features as {first.name!r} has; got {agent.n_features}."
            )
        same_columns(agent.feature_names, names, "its rows", agent.error)
    return agents


def _agent(candidate: Any) -> Agent:
    if not isinstance(candidate, Agent):
        raise InvalidInput(f"A collective must be made of agents; got a {type(candidate).__name__}.")
    return candidate


def _feature_names(agents: Iterable[Agent]) -> list[str] | None:
    return next((agent.feature_names for agent in agents if agent.feature_names is not None), None)
