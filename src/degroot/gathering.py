"""Gatherings: agents that have scored each other's models, and come and go."""

from collections.abc import Iterable, Sequence
from typing import Any, Self

from degroot.agents import Agent
from degroot.choice import OPTIONS, Choice, choose
from degroot.engines import LOCAL, engine_of
from degroot.evidence import Peers
from degroot.exceptions import InvalidInput
from degroot.judges import Judge
from degroot.members import agreeing, an_agent, check_peers, feature_names, listed
from degroot.neighbourhoods import Neighbourhoods
from degroot.rules import NOTHING, RULES, Option
from degroot.sampled import acquaintances
from degroot.scoring import Scoring, checked, prepared
from degroot.settings import AUTO, check_choice, check_degree, check_guard, check_ridge, check_settings


class Gathering:
    """Agents with distinct names, the settings by which they answer, and their scores of each other's models."""

    def __init__(
        self,
        agents: Iterable[Agent],
        neighbours: float | None = None,
        rule: str | Choice = "degroot",
        *,
        metric: str = "euclidean",
        kernel: str | None = None,
        space: Any = None,
        ridge: float | None = None,
        guard: bool | None = None,
        n_jobs: int | None = None,
        degree: int | None = None,
        engine: Any = LOCAL,
    ) -> None:
        check_settings(neighbours, metric, kernel, n_jobs)
        made, rule = (rule, AUTO) if isinstance(rule, Choice) else (None, rule)
        check_choice("rule", rule, [*RULES, AUTO])
        check_ridge(ridge)
        check_degree(degree, rule, guard)
        check_guard(guard)
        self.neighbours, self.rule, self.metric, self.kernel, self.space = neighbours, rule, metric, kernel, space
        self.ridge, self.guard, self.n_jobs, self.degree = ridge, guard, n_jobs, degree
        self.engine = engine_of(engine)
        self.agents: tuple[Agent, ...] = ()
        self.peers: Peers | None = None  # (K, q) with a degree: whose models each agent scores
        self._judges: tuple[Judge, ...] | None = None
        self.choice: Choice | None = None  # what the rule "auto" came to
        self._settle(agreeing(agents), None, made)

    @property
    def names(self) -> tuple[str, ...]:
        """The agents' names, in order."""
        return tuple(agent.name for agent in self.agents)

    @property
    def feature_names(self) -> list[str] | None:
        """The names of the features, if the rows of any agent have them."""
        return feature_names(self.agents)

    @property
    def outputs(self) -> int | None:
        """How many numbers a prediction is; None: one, as (M,)."""
        return self.agents[0].outputs

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes whose probabilities are the outputs, as Python writes them; none where there are no classes."""
        classes = self.agents[0].classes
        return () if classes is None else tuple(repr(each) for each in classes.tolist())

    @property
    def judges(self) -> tuple[Judge, ...]:
        """Each agent's view of all models: their errors on its rows, and its neighbourhoods."""
        if self._judges is None:
            self._judges = self._scoring(self.peers).everybody(self.agents)
        return self._judges

    @property
    def option(self) -> Option:
        """The rule with its settings, chosen or given."""
        return self.choice.option if self.choice is not None else self._options[0]

    @property
    def neighbourhoods(self) -> tuple[Neighbourhoods, ...]:
        """Each agent's neighbourhoods, as far as the rule looks."""
        reach = self.option.reach
        return tuple(judge.near[reach] for judge in prepared(self.judges, reach))

    @property
    def guarded(self) -> bool:
        """Whether what agents say is checked."""
        return any(agent.remote for agent in self.agents) if self.guard is None else bool(self.guard)

    def replace(self, agent: Agent) -> Self:
        """Put `agent` in the place of the one with its name, and score anew only what it changes.

        Examples
        --------
        >>> import numpy as np
        >>> from degroot import Agent, Collective
        >>> rows = np.arange(10.0)[:, None]
        >>> agents = [Agent(lambda X, k=k: k * X[:, 0], rows, 1.4 * rows[:, 0], f"times {k}") for k in (1, 2, 3)]
        >>> better = Agent(lambda X: 1.5 * X[:, 0], rows, 1.4 * rows[:, 0], "times 3")
        >>> Collective(agents).replace(better).predict([[5.0]]).round(3)
        array([7.42])
        """
        place = self._place(an_agent(agent).name)
        agents = agreeing([*self.agents[:place], agent, *self.agents[place + 1 :]])
        scored = self._judges
        return self._settle(agents, scored and self._scoring(self.peers).replaced(scored, place, agents))

    def join(self, agent: Agent) -> Self:
        """Add `agent`, and score only its model on others' rows and all models on its rows.

        With a degree, who scores whom is drawn anew, and so are all scores.

        Examples
        --------
        >>> import numpy as np
        >>> from degroot import Agent, Collective
        >>> rows = np.arange(10.0)[:, None]
        >>> agents = [Agent(lambda X, k=k: k * X[:, 0], rows, 1.4 * rows[:, 0], f"times {k}") for k in (1, 2, 3)]
        >>> Collective(agents[:2]).join(agents[2])
        Collective(times 1, times 2, times 3; neighbours=0.01, rule='degroot')
        """
        agents = agreeing([*self.agents, agent])
        judges = None
        if self._judges is not None and self.degree is None:
            judges = self._scoring(None).joined(self._judges, agents)
        return self._settle(agents, judges)

    def leave(self, name: str) -> Self:
        """Remove the agent called `name`; nothing has to be scored, but with a degree, as for `join`.

        Examples
        --------
        >>> import numpy as np
        >>> from degroot import Agent, Collective
        >>> rows = np.arange(10.0)[:, None]
        >>> agents = [Agent(lambda X, k=k: k * X[:, 0], rows, 1.4 * rows[:, 0], f"times {k}") for k in (1, 2, 3)]
        >>> Collective(agents).leave("times 2")
        Collective(times 1, times 3; neighbours=0.01, rule='degroot')
        """
        place = self._place(name)
        agents = agreeing([*self.agents[:place], *self.agents[place + 1 :]])
        judges = None
        if self._judges is not None and self.degree is None:
            judges = self._scoring(None).left(self._judges, place)
        return self._settle(agents, judges)

    def _settle(
        self, agents: tuple[Agent, ...], judges: tuple[Judge, ...] | None, choice: Choice | None = None
    ) -> Self:
        """Take these agents, once all is ready for questions: models scored if need be, a rule chosen if it is open."""
        check_peers(agents)
        options = self._options if choice is None else [choice.option]
        peers = None if self.degree is None else acquaintances(len(agents), self._degree_among(agents))
        if self.rule == AUTO or options[0].made.uses != NOTHING:
            judges = judges or self._scoring(peers).everybody(agents)
            reaches = [option.reach for option in options]
            checked(judges, *reaches)
            open_ = self.rule == AUTO and choice is None
            if open_ or (self.engine is None and all(judge.source is None for judge in judges)):
                prepared(judges, *reaches)  # others get ready where and when they are asked
            if open_:
                choice = choose(agents, judges, options, self.n_jobs)
        self.agents, self._judges, self.choice, self.peers = agents, judges, choice, peers
        self._forget()
        return self

    def _forget(self) -> None:
        """Let go of what was made for the agents as they were."""

    @property
    def _options(self) -> list[Option]:
        """What can be chosen, after the settings that were given."""
        named = OPTIONS if self.rule == AUTO else [Option(self.rule, RULES[self.rule].reach)]
        return list(dict.fromkeys(option.as_set(self.neighbours, self.kernel, self.ridge) for option in named))

    def _degree_among(self, agents: Sequence[Agent]) -> int:
        """The degree; once so many have left that there are fewer agents, everybody scores everybody."""
        degree = int(self.degree or 0)
        return min(degree, len(agents)) if self.agents else degree

    def _place(self, name: str) -> int:
        if name not in self.names:
            raise InvalidInput(f"An agent's name must be one of {listed(map(repr, self.names))}; got {name!r}.")
        return self.names.index(name)

    def _scoring(self, peers: Peers | None) -> Scoring:
        return Scoring(self.metric, self.space, peers)

    @property
    def _bare(self) -> bool:
        """Whether some agent takes distances on the features as they are."""
        return self.space is None and any(agent.space is None for agent in self.agents)
