"""Members: agents that give opinions, and the actors in whose processes they do."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from typing import Any

import numpy as np

from degroot.agents import Agent
from degroot.cluster.opinion import Opinion
from degroot.evidence import Evidence, Question, Reach
from degroot.expectations import Expectations, Expected
from degroot.judges import Judge, check_possible
from degroot.points import Array, block_size, in_blocks, in_place

BLOCK = 1024  # points a thread takes at once

VERSION = version("degroot")

Source = Callable[[], tuple[Agent, Judge]]


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

    def standards(self, source: Source) -> tuple[float, Array, Array]:
        """What the guard holds others' opinions against: the agent's usual spread, and where its labels lie."""
        member = self._awake(source)
        return member.expectations.reach, *member.judge.label_range()

    def version(self) -> str:
        """The version of this package in its process."""
        return VERSION

    def _awake(self, source: Source) -> "Member":
        if self.member is None:
            agent, judge = source()
            self.member = Member(agent, _writable(judge), self.n_jobs)
        return self.member


@dataclass(frozen=True)
class Member:
    """An agent with its own rows, residuals and neighbourhoods."""

    agent: Agent
    judge: Judge
    n_jobs: int

    @cached_property
    def expectations(self) -> Expectations:
        """What it expects every model to say."""
        return self.judge.expectations()

    def opinion(self, X: Any, question: Question) -> Opinion:
        """What it says of the points `X`."""
        beliefs = self.agent.predict(X).reshape(X.shape[0], -1)
        if question.reach is None:
            return Opinion(beliefs)
        self.judge.ready(question.reach)
        located = self.judge.locate(X)
        found = self._found(located, question.reach, question)
        if question.expected:
            return Opinion(beliefs, found, self._expected(located))
        check_possible(self.judge, found, 0)
        return Opinion(beliefs, found)

    def _found(self, located: Any, reach: Reach, question: Question) -> Evidence:
        """Evidence with one slot, its own."""
        judge, M, models = self.judge, located.shape[0], self.judge.errors.shape[1]
        found = Evidence.blank(M, 1, models, moments=question.moments, spread=question.spread)

        def block(start: int, stop: int) -> None:
            judge.testify(found.part(slice(start, stop)), 0, located[start:stop], reach)

        together = max(judge.near[reach].at_once, block_size(M, question.floats(models, 1, models), self.n_jobs))
        in_blocks(block, M, together, self.n_jobs)
        return found

    def _expected(self, located: Any) -> Expected:
        M, expectations = located.shape[0], self.expectations
        said: dict[int, Expected] = {}

        def block(start: int, stop: int) -> None:
            said[start] = expectations.at(located[start:stop])

        in_blocks(block, M, BLOCK, self.n_jobs)
        parts = [said[start] for start in sorted(said)]
        return Expected(
            *(np.concatenate([getattr(part, name) for part in parts]) for name in Expected.__dataclass_fields__)
        )


def _writable(judge: Judge) -> Judge:
    """The judge with arrays that the kernels take, where they are: those in Ray's object store are read-only."""
    rows, residuals, errors = (
        in_place(each) if isinstance(each, np.ndarray) else each for each in (judge.rows, judge.residuals, judge.errors)
    )
    return replace(judge, rows=rows, residuals=residuals, errors=errors)
