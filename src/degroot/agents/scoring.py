"""Scoring: who scores whose model, once, before any question."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from degroot.agents.agent import Agent, Scorer
from degroot.compute.progress import progress
from degroot.rules.evidence import NeighbourhoodSpec, PeerIndices


@dataclass(frozen=True, slots=True)
class Scoring:
    """How agents become the judges of each other's models."""

    metric: str
    space: Any  # of agents that have none of their own
    peers: PeerIndices | None  # (K, q) whose models each agent scores; None: everybody's

    def everybody(self, agents: Sequence[Agent]) -> tuple[Scorer, ...]:
        """All agents as judges."""
        judges = []
        with progress("Scoring models", len(agents)) as advance:
            for place in range(len(agents)):
                judges.append(self.one(place, agents))
                advance()
        return tuple(judges)

    def one(self, place: int, agents: Sequence[Agent]) -> Scorer:
        """The agent at `place` as the judge of the models that it scores."""
        scored = agents if self.peers is None else [agents[k] for k in self.peers[place]]
        return agents[place].judge(scored, self.metric, self.space)

    def replaced(self, judges: Sequence[Scorer], place: int, agents: Sequence[Agent]) -> tuple[Scorer, ...]:
        """The judges once another agent stands at `place`: that one anew, and the others that score its model."""
        others = [self._rescored(judge, k, place, agents[place]) for k, judge in enumerate(judges) if k != place]
        return (*others[:place], self.one(place, agents), *others[place:])

    def joined(self, judges: Sequence[Scorer], agents: Sequence[Agent]) -> tuple[Scorer, ...]:
        """The judges once one more agent, the last, has joined."""
        return (*(judge.with_model(len(judges), agents[-1]) for judge in judges), self.one(len(judges), agents))

    def left(self, judges: Sequence[Scorer], place: int) -> tuple[Scorer, ...]:
        """The judges once the agent at `place` has left."""
        return tuple(judge.without_model(place) for k, judge in enumerate(judges) if k != place)

    def _rescored(self, judge: Scorer, k: int, place: int, agent: Agent) -> Scorer:
        columns = np.array([place]) if self.peers is None else np.flatnonzero(self.peers[k] == place)
        return judge.with_model(int(columns[0]), agent) if columns.size else judge


def checked(judges: tuple[Scorer, ...], *reaches: NeighbourhoodSpec) -> None:
    """Refuse reaches that some judge has too few rows for."""
    for judge in judges:
        for reach in reaches:
            judge.size(reach)


def prepared(judges: tuple[Scorer, ...], *reaches: NeighbourhoodSpec) -> tuple[Scorer, ...]:
    """The judges, with neighbourhoods of these reaches."""
    for judge in judges:
        for reach in reaches:
            judge.ready(reach)
    return judges
