"""Collectives: agents that answer together."""

from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Any

import numpy as np

from degroot.agents import Agent
from degroot.answers import FIELDS, Consensus, asked
from degroot.audit import Audit, audit
from degroot.calibration import Calibration, calibrate
from degroot.checks import Checks
from degroot.choice import OPTIONS, Choice, choose
from degroot.evidence import Reach
from degroot.exceptions import InvalidInput
from degroot.judges import Judge, check_choice, check_settings
from degroot.members import agreeing, an_agent, check_peers, feature_names
from degroot.neighbourhoods import Neighbourhoods
from degroot.panel import Panel
from degroot.points import Array
from degroot.progress import progress
from degroot.rules import NOTHING, RULES, Option
from degroot.tables import as_table, column_names, same_columns

BELIEFS_BYTES = 1 << 25  # of points and predictions, held at once
AUTO = "auto"


class Collective:
    """Agents that pool their predictions, each trusting the models that do well on its own rows near the point.

    Parameters
    ----------
    agents : agents with distinct names
    neighbours : int or float, optional
        How many of an agent's rows are the neighbourhood of a point: a number, or a fraction of each agent's rows
        (rounded down, at least 2). By default what suits the rule: 0.01, as in the paper, but at least
        6 rows; for stacking 0.05, but 20 to 500 rows.
    rule : str
        ``"degroot"`` (the paper's), ``"stacking"``, ``"average"``, ``"trust-average"``, ``"error-average"``; or
        ``"auto"``, which tries average, degroot and stacking on the agents' own rows and takes the best.
    metric : str
        ``"euclidean"``, ``"cosine"`` or ``"manhattan"``.
    kernel : str, optional
        How neighbours count: ``"uniform"`` (the paper's), ``"tricube"`` or ``"gaussian"``, by their distance over the
        distance of the farthest of them. By default tricube for stacking, uniform for the others.
    space : transformer or callable, optional
        Applied before distances are taken, for agents that have no `space` of their own. (Rows that are not finite
        numbers need the agent's own.)
    ridge : float, optional
        How far stacking holds on to equal weights; 1 by default. The penalty is this much of the best model's error,
        times the number of models over the effective number of neighbours.
    guard : bool, optional
        Whether what agents say is checked against what the others know; see `degroot.guard`. By default if any agent is
        remote. Who is left out, and who could not be checked, is in `flags`.
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
        neighbours: float | None = None,
        rule: str = "degroot",
        *,
        metric: str = "euclidean",
        kernel: str | None = None,
        space: Any = None,
        ridge: float | None = None,
        guard: bool | None = None,
        n_jobs: int | None = None,
    ) -> None:
        check_settings(neighbours, metric, kernel, n_jobs)
        check_choice("rule", rule, [*RULES, AUTO])
        _check_ridge(ridge)
        if guard is not None and not isinstance(guard, bool | np.bool_):
            raise InvalidInput(f"`guard` must be True, False or None; got {guard!r}.")
        self.neighbours, self.rule, self.metric, self.kernel, self.space = neighbours, rule, metric, kernel, space
        self.ridge, self.guard, self.n_jobs = ridge, guard, n_jobs
        self.agents: tuple[Agent, ...] = ()
        self._judges: tuple[Judge, ...] | None = None
        self.choice: Choice | None = None  # what the rule "auto" came to
        self._calibration: Calibration | None = None
        self._checks: Checks | None = None
        self._settle(agreeing(agents), None)

    def __repr__(self) -> str:
        return f"Collective({', '.join(self.names)}; neighbours={self.option.reach.neighbours}, rule={self.rule!r})"

    @property
    def names(self) -> tuple[str, ...]:
        """The agents' names, in order."""
        return tuple(agent.name for agent in self.agents)

    @property
    def feature_names(self) -> list[str] | None:
        """The names of the features, if the rows of any agent have them."""
        return feature_names(self.agents)

    @property
    def judges(self) -> tuple[Judge, ...]:
        """Each agent's view of all models: their errors on its rows, and its neighbourhoods."""
        if self._judges is None:
            self._judges = self._scored(self.agents)
        return self._judges

    @property
    def option(self) -> Option:
        """The rule with its settings, chosen or given."""
        return self.choice.option if self.choice is not None else self._options[0]

    @property
    def neighbourhoods(self) -> tuple[Neighbourhoods, ...]:
        """Each agent's neighbourhoods, as far as the rule looks."""
        reach = self.option.reach
        return tuple(judge.near[reach] for judge in _prepared(self.judges, reach))

    def predict(self, X: Any) -> Array:
        """The collective prediction for each row of `X`, (M,)."""
        return np.asarray(self._panel(["value"]).answer(self._checked(X), ["value"])["value"])

    def calibrate(self) -> "Collective":
        """Get ready for intervals: put the agents' own rows to the collective, each left out of its own neighbourhood.

        Each agent sends a summary of how far off the answers are. Agents that join, leave or are replaced change the
        answers: calibrate again.
        """
        judges = _prepared(self.judges, self.option.reach)
        self._calibration = calibrate(self.agents, judges, self.option, self.n_jobs)
        return self

    def consult(self, X: Any, fields: Sequence[str] | str = FIELDS, *, coverage: float | None = None) -> Consensus:
        """The collective prediction with what lies behind it.

        Parameters
        ----------
        X : (M, d)
        fields : names of fields of `Consensus`
            Only these are computed and kept; all by default. `trust` takes 8 K² bytes a point.
        coverage : float, optional
            How often the outcome shall lie between `lower` and `upper`, or in `sets` of classes; after `calibrate`.
        """
        names, X = asked(fields, FIELDS), self._checked(X)
        if coverage is None:
            return Consensus(self.names, **self._panel(names).answer(X, names), choice=self.choice)
        if self._calibration is None:
            raise InvalidInput("Intervals must be calibrated: call calibrate() before asking for a coverage.")
        known = self._panel(names).answer(X, dict.fromkeys([*names, "value"]))
        value = known["value"]
        if self.agents[0].classes is not None:
            known["sets"] = self._calibration.sets(value, coverage)
        else:
            half = self._panel(["trust"]).half_width(X, self._calibration, coverage)
            known |= {"lower": value - half, "upper": value + half}
        if "value" not in names:
            del known["value"]
        return Consensus(self.names, **known, choice=self.choice)

    def audit(self, X: Any) -> Audit:
        """Who carries the answers for the points `X`, who could be dropped, and where they depend on one agent."""
        return audit(self, X)

    def replace(self, agent: Agent) -> "Collective":
        """Put `agent` in the place of the one with its name, and score anew only what it changes."""
        place = self._place(an_agent(agent).name)
        agents = agreeing([*self.agents[:place], agent, *self.agents[place + 1 :]])
        judges = None
        if self._judges is not None:
            others = [other.with_model(place, agent) for k, other in enumerate(self._judges) if k != place]
            judges = (*others[:place], self._judge(agent, agents), *others[place:])
        return self._settle(agents, judges)

    def join(self, agent: Agent) -> "Collective":
        """Add `agent`, and score only its model on others' rows and all models on its rows."""
        agents = agreeing([*self.agents, agent])
        judges = None
        if self._judges is not None:
            others = [judge.with_model(len(self.agents), agent) for judge in self._judges]
            judges = (*others, self._judge(agent, agents))
        return self._settle(agents, judges)

    def leave(self, name: str) -> "Collective":
        """Remove the agent called `name`; nothing has to be scored."""
        place = self._place(name)
        agents = agreeing([*self.agents[:place], *self.agents[place + 1 :]])
        judges = None
        if self._judges is not None:
            others = [*self._judges[:place], *self._judges[place + 1 :]]
            judges = tuple(judge.without_model(place) for judge in others)
        return self._settle(agents, judges)

    def _settle(self, agents: tuple[Agent, ...], judges: tuple[Judge, ...] | None) -> "Collective":
        """Take these agents, once all is ready for questions: models scored if need be, a rule chosen if it is open."""
        check_peers(agents)
        options, choice = self._options, None
        if self.rule == AUTO or options[0].made.uses != NOTHING:
            judges = judges or self._scored(agents)
            _prepared(judges, *(option.reach for option in options))
            choice = choose(agents, judges, options, self.n_jobs) if self.rule == AUTO else None
        self.agents, self._judges, self.choice = agents, judges, choice
        self._calibration = self._checks = None
        return self

    @property
    def _options(self) -> list[Option]:
        """What can be chosen, after the settings that were given."""
        named = OPTIONS if self.rule == AUTO else [Option(self.rule, RULES[self.rule].reach)]
        return list(dict.fromkeys(option.as_set(self.neighbours, self.kernel, self.ridge) for option in named))

    def _place(self, name: str) -> int:
        if name not in self.names:
            raise InvalidInput(f"An agent's name must be one of {', '.join(map(repr, self.names))}; got {name!r}.")
        return self.names.index(name)

    def _judge(self, agent: Agent, predictors: Sequence[Agent]) -> Judge:
        return agent.judge(predictors, self.metric, self.space)

    def _scored(self, agents: tuple[Agent, ...]) -> tuple[Judge, ...]:
        judges = []
        with progress("Scoring models", len(agents)) as advance:
            for agent in agents:
                judges.append(self._judge(agent, agents))
                advance()
        return tuple(judges)

    def _checked(self, X: Any) -> Any:
        X, expected = as_table(X), self.agents[0].n_features
        if X.shape[1] != expected:
            raise InvalidInput(f"`X` must have {expected} features, as the agents' rows do; got {X.shape[1]}.")
        same_columns(column_names(X), self.feature_names)
        return X

    def _panel(self, fields: Iterable[str]) -> Panel:
        """Agents, and judges where these fields take any."""
        option, asked_for = self.option, set(fields)
        guarded = any(agent.remote for agent in self.agents) if self.guard is None else bool(self.guard)
        needed = guarded or "trust" in asked_for or (option.made.uses != NOTHING and asked_for != {"beliefs"})
        judges = _prepared(self.judges, option.reach) if needed else ()
        if guarded and self._checks is None:
            self._checks = Checks.prepare(judges)
        bare = self.space is None and any(agent.space is None for agent in self.agents)
        return Panel(self.agents, judges, option, self._checks if guarded else None, bare, self.n_jobs)


def _prepared(judges: tuple[Judge, ...], *reaches: Reach) -> tuple[Judge, ...]:
    """The judges, with neighbourhoods of these reaches."""
    for judge in judges:
        for reach in reaches:
            judge.ready(reach)
    return judges


def _check_ridge(ridge: Any) -> None:
    if ridge is not None and (
        isinstance(ridge, bool) or not isinstance(ridge, Real) or not 0.0 <= float(ridge) < np.inf
    ):
        raise InvalidInput(f"`ridge` must be a finite number that is not negative; got {ridge!r}.")
