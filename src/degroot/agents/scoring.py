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
    """How agents become the scorers of each other's models."""

    metric: str
    space: Any  # of agents that have none of their own
    peers: PeerIndices | None = None  # (K, q) whose models each agent scores; None: everybody's

    def everybody(self, agents: Sequence[Agent]) -> tuple[Scorer, ...]:
        """All agents as scorers."""
        if self.peers is not None:
            _check_columns(agents)
        scorers = []
        with progress("Scoring models", len(agents)) as advance:
            for place, agent in enumerate(agents):
                advance.name_step(f"by {agent.name}")
                scorers.append(self.one(place, agents))
                advance()
        return tuple(scorers)

    def one(self, place: int, agents: Sequence[Agent]) -> Scorer:
        """The agent at `place` as the scorer of the models that it scores."""
        scored = agents if self.peers is None else [agents[k] for k in self.peers[place]]
        return agents[place].score_models(scored, self.metric, self.space)

    def replaced(self, scorers: Sequence[Scorer], place: int, agents: Sequence[Agent]) -> tuple[Scorer, ...]:
        """The scorers once another agent stands at `place`: that one anew, and the others that score its model."""
        others = [self._rescored(scorer, k, place, agents[place]) for k, scorer in enumerate(scorers) if k != place]
        return (*others[:place], self.one(place, agents), *others[place:])

    def joined(self, scorers: Sequence[Scorer], agents: Sequence[Agent]) -> tuple[Scorer, ...]:
        """The scorers once one more agent, the last, has joined."""
        return (*(scorer.with_model(len(scorers), agents[-1]) for scorer in scorers), self.one(len(scorers), agents))

    def left(self, scorers: Sequence[Scorer], place: int) -> tuple[Scorer, ...]:
        """The scorers once the agent at `place` has left."""
        return tuple(scorer.without_model(place) for k, scorer in enumerate(scorers) if k != place)

    def _rescored(self, scorer: Scorer, k: int, place: int, agent: Agent) -> Scorer:
        columns = np.array([place]) if self.peers is None else np.flatnonzero(self.peers[k] == place)
        return scorer.with_model(int(columns[0]), agent) if columns.size else scorer


def _check_columns(agents: Sequence[Agent]) -> None:
    """Refuse agents that lack columns, where a sample of them scores each model: there may be nobody who can."""
    for agent in agents:
        if agent.lacks is not None and agent.lacks.any():
            raise agent.error("with a `degree` it must have all columns; its rows lack some.")


def check_neighbourhoods(scorers: tuple[Scorer, ...], *reaches: NeighbourhoodSpec) -> None:
    """Refuse reaches that some scorer has too few rows for."""
    for scorer in scorers:
        for reach in reaches:
            scorer.size(reach)


def prepare_neighbourhoods(scorers: tuple[Scorer, ...], *reaches: NeighbourhoodSpec) -> tuple[Scorer, ...]:
    """The scorers, with neighbourhoods of these reaches."""
    with progress("Preparing neighbourhoods", len(scorers)) as advance:
        for scorer in scorers:
            for reach in reaches:
                scorer.ready(reach)
            advance()
    return scorers
