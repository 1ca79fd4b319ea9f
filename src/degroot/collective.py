"""Collectives: agents that answer together."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.agents import Agent
from degroot.answers import FIELDS, Consensus, asked
from degroot.audit import Audit, audit
from degroot.calibration import Calibration, calibrate
from degroot.checks import Checks, Codes, flags, malformed
from degroot.choice import OPTIONS, Choice, choose
from degroot.conclusions import blank, conclude, single
from degroot.evidence import Evidence, Reach, scored_by_peers
from degroot.exceptions import InvalidInput
from degroot.judges import Judge, check_choice, check_settings, gather, gather_pooled
from degroot.members import agreeing, an_agent, check_peers, feature_names
from degroot.neighbourhoods import Neighbourhoods
from degroot.points import Array, in_blocks
from degroot.progress import progress
from degroot.rehearsal import block_size
from degroot.rules import MOMENTS, NOTHING, RULES, Option, Rule
from degroot.tables import as_table, column_names, same_columns, take, to_numbers

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
        return tuple(judge.near[reach] for judge in _ready(self.judges, reach))

    def predict(self, X: Any) -> Array:
        """The collective prediction for each row of `X`, (M,)."""
        return np.asarray(self._fields(self._checked(X), ["value"])["value"])

    def calibrate(self) -> "Collective":
        """Get ready for intervals: put the agents' own rows to the collective, each left out of its own neighbourhood.

        Each agent sends a summary of how far off the answers are. Agents that join, leave or are replaced change the
        answers: calibrate again.
        """
        judges = _ready(self.judges, self.option.reach)
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
            return Consensus(self.names, **self._fields(X, names), choice=self.choice)
        if self._calibration is None:
            raise InvalidInput("Intervals must be calibrated: call calibrate() before asking for a coverage.")
        calibration = self._calibration
        known = self._fields(X, dict.fromkeys([*names, "value"]))
        if self.agents[0].classes is None:
            half = calibration.half_width([judge.locate(X) for judge in self.judges], coverage)
            half = half.reshape(known["value"].shape)
            known |= {"lower": known["value"] - half, "upper": known["value"] + half}
        else:
            known["sets"] = calibration.sets(known["value"], coverage)
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
            _ready(judges, *(option.reach for option in options))
            choice = choose(agents, judges, options, self.n_jobs) if self.rule == AUTO else None
        self.agents, self._judges, self.choice = agents, judges, choice
        self._calibration = self._checks = None
        return self

    @property
    def _options(self) -> list[Option]:
        """What can be chosen, after the settings that were given."""
        named = OPTIONS if self.rule == AUTO else [Option(self.rule, RULES[self.rule].reach)]
        return list(dict.fromkeys(self._as_set(option) for option in named))

    def _as_set(self, option: Option) -> Option:
        reach = option.reach
        if self.neighbours is not None:
            reach = Reach(self.neighbours, reach.kernel)
        if self.kernel is not None:
            reach = replace(reach, kernel=self.kernel)
        if self.ridge is not None and option.rule == "stacking":
            option = replace(option, ridge=self.ridge)
        return replace(option, reach=reach)

    @property
    def _rule(self) -> Rule:
        return self.option.made

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

    def _fields(self, X: Any, names: Iterable[str]) -> dict[str, Any]:
        M, K, outputs = X.shape[0], len(self.agents), self.agents[0].outputs
        answer = blank(names, M, K, outputs or 1)
        needs_errors = (self._rule.uses != NOTHING and set(answer) != {"beliefs"}) or "trust" in answer
        guarded = self._guarded and bool(answer)
        judges = _ready(self.judges, self.option.reach) if needs_errors or guarded else ()
        if guarded and self._checks is None:
            self._checks = Checks.prepare(judges)
        codes = np.zeros((M, K), np.uint8) if guarded else None
        width = K + X.shape[1] * (1 + sum(judge.space is not None for judge in judges))
        step = max(1, BELIEFS_BYTES // (8 * width))
        for start in range(0, M, step):
            stop = min(start + step, M)
            part = {name: array[start:stop] for name, array in answer.items()}
            self._answer(take(X, slice(start, stop)), judges, part, None if codes is None else codes[start:stop])
        found: dict[str, Any] = {"flags": () if codes is None else tuple(flags(codes, self.names))}
        return found | (single(answer) if outputs is None else answer)

    @property
    def _guarded(self) -> bool:
        return any(agent.remote for agent in self.agents) if self.guard is None else bool(self.guard)

    def _answer(self, X: Any, judges: Sequence[Judge], out: dict[str, Array], codes: Codes | None) -> None:
        """Answer for the points `X` into the arrays of `out`, and what is to be said of the agents into `codes`.

        Models and spaces are called from this thread only.
        """
        M, K, rule, reach = X.shape[0], len(self.agents), self._rule, self.option.reach
        bare = self.space is None and any(agent.space is None for agent in self.agents)
        plain: Any = to_numbers(X) if bare else None
        beliefs = np.stack([agent.predict(X).reshape(M, -1) for agent in self.agents], axis=1)
        located = [plain if judge.space is None else judge.locate(X) for judge in judges]
        checks = self._checks
        moments, aside = rule.uses == MOMENTS, [k for k, agent in enumerate(self.agents) if agent.scored_by_peers]

        pooled = (
            moments and bool(judges) and not aside and codes is None and set(out) <= {"value", "weights", "beliefs"}
        )

        def block(start: int, stop: int) -> None:
            if judges:
                points = [each[start:stop] for each in located]
                if pooled:
                    evidence = gather_pooled(judges, points, reach)
                else:
                    evidence = gather(judges, points, reach, moments=moments, spread=bool(aside))
                evidence = scored_by_peers(evidence, aside)
            else:
                evidence = Evidence(np.broadcast_to(1.0, (stop - start, K, K)))
            part = {name: array[start:stop] for name, array in out.items()}
            kept = None
            if codes is not None and checks is not None:
                evidence, kept, codes[start:stop] = checks.examine(points, evidence, beliefs[start:stop])
            elif judges and evidence.pooled is None:
                self._refuse(malformed(evidence, moments=False))
            conclude(rule, evidence, beliefs[start:stop], part, kept)

        in_blocks(block, M, block_size(M, K, moments and bool(judges), self.n_jobs), self.n_jobs)

    def _refuse(self, wrong: NDArray[np.bool_]) -> None:
        """Refuse opinions of which some are wrong, (M, K)."""
        if wrong.any():
            point, place = (int(k) for k in np.argwhere(wrong)[0])
            raise self.agents[place].error(
                f"its errors and distances must be numbers that are not negative; those near point {point} are not."
            )


def _ready(judges: tuple[Judge, ...], *reaches: Reach) -> tuple[Judge, ...]:
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
