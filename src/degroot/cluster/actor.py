"""Actors: processes of Ray, each with one agent that gives opinions."""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any

import numpy as np

from degroot.agents.agent import Agent, Scorer
from degroot.compute.compiled import writable_view
from degroot.compute.tables import take
from degroot.consultation.consult import Opinion, Question, give_whole_opinion
from degroot.exceptions import describe_error

VERSION = version("degroot")
OF_SAVED_AGENTS = ("scores", "met")  # attributes of saved agents that say what they know of others

Source = Callable[[], tuple[Agent, Scorer | None]]


class Actor:
    """A process with one agent in it.

    If it had to start again it knows nothing any more: every question brings along what gives the agent.
    """

    def __init__(self, n_jobs: int) -> None:
        self.n_jobs = n_jobs
        self.agent: Agent | None = None
        self.scorer: Scorer | None = None  # None where predictions are all that is asked for

    def give_opinion(self, source: Source, X: Any, question: Question) -> Opinion:
        """What its agent says of the points `X`."""
        if self.agent is None:
            self.agent, scorer = source()
            self.scorer = None if scorer is None else _with_writable_arrays(scorer)
        return give_whole_opinion(self.agent, self.scorer, X, question, self.n_jobs)

    def version(self) -> str:
        """The version of this package in its process."""
        return VERSION


def _with_writable_arrays(scorer: Scorer) -> Scorer:
    """With arrays that the kernels take, where they are: those in Ray's object store are read-only."""
    rows, residuals, errors = (
        writable_view(each) if isinstance(each, np.ndarray) else each
        for each in (scorer.rows, scorer.residuals, scorer.errors)
    )
    return replace(scorer, rows=rows, residuals=residuals, errors=errors)


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
    for name in OF_SAVED_AGENTS:
        vars(light).pop(name, None)
    return light
