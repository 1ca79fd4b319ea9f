"""Members: agents that give opinions, and the actors in whose processes they do."""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any

from degroot.agents.agent import Agent, Scorer
from degroot.cluster.opinion import Opinion
from degroot.cluster.witness import Witness
from degroot.compute.compiled import Array
from degroot.compute.tables import take, told
from degroot.rules.evidence import Question

VERSION = version("degroot")

Source = Callable[[], tuple[Agent, Scorer | None]]


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
            agent, scorer = source()
            self.member = Member(agent, None if scorer is None else Witness.of(scorer, self.n_jobs))
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


OF_SAVED_AGENTS = ("scores", "met")  # what they know of others


@dataclass(frozen=True, slots=True)
class Stored:
    """An agent and its scorer in the object store, as long as somebody has this reference."""

    reference: Any

    def __call__(self) -> tuple[Agent, Scorer | None]:
        """What is stored."""
        import ray

        held: tuple[Agent, Scorer | None] = ray.get(self.reference)
        return held


def source_of(agent: Agent, scorer: Scorer | None) -> Source:
    """What gives an agent and its scorer again, in another process: files, or the object store.

    Neighbourhoods are not stored: its process makes them anew.
    """
    import ray

    if scorer is not None and scorer.source is not None:
        return scorer.source
    held = (_with_one_row(agent), None) if scorer is None else (agent, replace(scorer, near={}))
    try:
        return Stored(ray.put(held))
    except Exception as error:  # whatever its model raises
        raise agent.error(
            f"its model and space must be such that they can be sent to another process; {told(error).splitlines()[0]}."
        ) from error


def _with_one_row(agent: Agent) -> Agent:
    """The agent with one of its rows: who is not asked what it finds on them needs no more."""
    light = copy(agent)
    light.X, light.y, light.own_predictions = take(agent.X, slice(0, 1)), agent.y[:1], None
    for name in OF_SAVED_AGENTS:
        vars(light).pop(name, None)
    return light
