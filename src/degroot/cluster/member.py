"""Members: agents that give opinions, and the actors in whose processes they do."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from degroot.agents import Agent
from degroot.cluster.opinion import Opinion
from degroot.cluster.witness import Witness
from degroot.evidence import Question
from degroot.judges import Judge
from degroot.points import Array

VERSION = version("degroot")

Source = Callable[[], tuple[Agent, Judge | None]]


class Actor:
    """A process with one agent in it.

    If it had to start again it knows nothing any more: every question brings along what gives the agent.
    """

    def __init__(self, n_jobs: int) -> None:
        self.n_jobs = n_jobs
        self.member: Member | None = None

    def opinion(self, source: Source, X: Any, question: Question) -> Opinion:
        """What its agent says of the points `X`."""
        return self._awake(source).opinion(X, question)

    def standards(self, source: Source) -> tuple[float, Array, Array] | None:
        """What the guard holds others' opinions against; see `Witness`."""
        witness = self._awake(source).witness
        return None if witness is None else witness.standards()

    def version(self) -> str:
        """The version of this package in its process."""
        return VERSION

    def _awake(self, source: Source) -> "Member":
        if self.member is None:
            agent, judge = source()
            self.member = Member(agent, None if judge is None else Witness.of(judge, self.n_jobs))
        return self.member


@dataclass(frozen=True)
class Member:
    """An agent, and what it has to find evidence with."""

    agent: Agent
    witness: Witness | None  # None where all that is asked is what it believes

    def opinion(self, X: Any, question: Question) -> Opinion:
        """What it says of the points `X`."""
        told: tuple[Any, ...] = ()
        if self.witness is not None and question.reach is not None:  # first: it knows which points are good
            told = self.witness.testimony(X, question, question.reach)
        return Opinion(self.agent.predict(X).reshape(X.shape[0], -1), *told)
