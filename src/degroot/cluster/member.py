"""Members: agents that give opinions, and the actors in whose processes they do."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from typing import Any

import numpy as np

from degroot.agents import Agent
from degroot.cluster.opinion import Opinion, Question
from degroot.evidence import Evidence, Reach
from degroot.expectations import Expectations, Expected
from degroot.judges import Judge
from degroot.points import Array, block_size, in_blocks

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
        reach = question.reach
        if reach is None:
            return Opinion(self._beliefs(X))
        self.judge.ready(reach)
        located = self.judge.locate(X)
        found = self._evidence(located, reach, question)
        expected = self._expected(located) if question.expected else None
        errors, moments, spread, effective = (
            None if each is None else each[:, 0]
            for each in (found.errors, found.moments, found.spread, found.effective)
        )
        said = Opinion(self._beliefs(X), errors if moments is None else None, moments, spread, effective, expected)
        if not question.expected and not said.possible(self.judge.errors.shape[1]):
            raise self.agent.error("its errors and distances must be numbers that are not negative; some are not.")
        return said

    def _beliefs(self, X: Any) -> Array:
        return self.agent.predict(X).reshape(X.shape[0], -1)

    def _evidence(self, located: Any, reach: Reach, question: Question) -> Evidence:
        """Evidence with one slot, its own."""
        judge, M = self.judge, located.shape[0]
        found = _blank(M, judge.errors.shape[1], question)
        floats = (found.errors if found.moments is None else found.moments).shape[-1]

        def block(start: int, stop: int) -> None:
            judge.testify(_part(found, slice(start, stop)), 0, located[start:stop], reach)

        together = max(judge.near[reach].at_once, block_size(M, floats, self.n_jobs))
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


def _blank(M: int, models: int, question: Question) -> Evidence:
    where, effective = (np.empty((M, 1)), np.empty((M, 1))) if question.moments or question.spread else (None, None)
    packed = np.empty((M, 1, models * (models + 1) // 2)) if question.moments else None
    return Evidence(np.empty((0 if question.moments else M, 1, models)), packed, where, effective)


def _part(found: Evidence, part: slice) -> Evidence:
    moments, spread, effective = (
        None if each is None else each[part] for each in (found.moments, found.spread, found.effective)
    )
    return Evidence(found.errors[part], moments, spread, effective)


def _writable(judge: Judge) -> Judge:
    """The judge with arrays that the kernels take: those in Ray's object store cannot be written to."""
    rows, residuals, errors = (
        np.require(each, None, ["W"]) if isinstance(each, np.ndarray) else each
        for each in (judge.rows, judge.residuals, judge.errors)
    )
    return replace(judge, rows=rows, residuals=residuals, errors=errors)
