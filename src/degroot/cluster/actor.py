"""Actors: processes of Ray with agents that give opinions."""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any

from degroot.agents.agent import Agent, Scorer
from degroot.compute.tables import take
from degroot.consultation.consult import Opinion, Question, give_whole_opinion
from degroot.exceptions import describe_error

VERSION = version("degroot")

Source = Callable[[], tuple[Agent, Scorer | None]]


class Actor:
    """A process with agents in it: all of them, or one.

    If it had to start again it knows nothing any more: every question brings along what gives the agents.
    """

    def __init__(self, n_jobs: int) -> None:
        self.n_jobs = n_jobs
        self.members: list[tuple[Agent, Scorer | None]] = []  # no scorer where predictions are all that is asked for

    def give_opinions(self, sources: Sequence[Source], X: Any, question: Question) -> list[Opinion]:
        """What its agents say of the points `X`."""
        if not self.members:
            self.members = [source() for source in sources]
        return [give_whole_opinion(agent, scorer, X, question, self.n_jobs) for agent, scorer in self.members]

    def version(self) -> str:
        """The version of this package in its process."""
        return VERSION


@dataclass(frozen=True, slots=True)
class Stored:
    """An agent and its scorer in the object store, as long as somebody has this reference."""

    reference: Any

    def __call__(self) -> tuple[Agent, Scorer | None]:
        """What is stored."""
        import ray

        held: tuple[Agent, Scorer | None] = ray.get(self.reference)
        return held


def find_saved(agent: Agent, scorer: Scorer | None) -> Source | None:
    """What gives an agent and its scorer again from the files in which they were saved; None: they are in none."""
    return agent.source if scorer is None else scorer.source


def source_of(agent: Agent, scorer: Scorer | None) -> Source:
    """What gives an agent and its scorer again, in another process: files, or the object store.

    Neighbourhoods are not stored: its process makes them anew.
    """
    import ray

    saved = find_saved(agent, scorer)
    if saved is not None:
        return saved
    light = _without_frame(agent)
    held = (_with_one_row(light), None) if scorer is None else (light, replace(scorer, agent=light, near={}))
    try:
        return Stored(ray.put(held))
    except Exception as error:  # whatever its model raises
        reason = describe_error(error).splitlines()[0]
        raise agent.error(
            f"its model and space must be such that they can be sent to another process; {reason}."
        ) from error


def _without_frame(agent: Agent) -> Agent:
    """The agent without the frame that its rows came from: an actor needs their numbers only."""
    if agent.frame is None:
        return agent
    light = copy(agent)
    light.frame = None
    return light


def _with_one_row(agent: Agent) -> Agent:
    """The agent with one of its rows: who is not asked what it finds on them needs no more."""
    if agent.schema is not None:
        _ = agent.optional  # which takes all rows, and is kept by the copy
    light = copy(agent)
    light.X, light.y, light.own_predictions = take(agent.X, slice(0, 1)), agent.y[:1], None
    return light
