"""Members: an agent that answers from a process of its own."""

from collections.abc import Callable
from dataclasses import replace
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

Held = tuple[Agent, Judge | None]  # None: the rule needs no evidence
Source = Callable[[], Held]


class Member:
    """An agent that keeps its rows, residuals and neighbourhoods, and gives opinions.

    Parameters
    ----------
    source : what gives the agent and its judge, when the first question comes
    n_jobs : how many threads to use
    """

    def __init__(self, source: Source, n_jobs: int) -> None:
        self.source, self.n_jobs = source, n_jobs

    @cached_property
    def held(self) -> Held:
        """The agent and its judge."""
        agent, judge = self.source()
        return agent, None if judge is None else _own(judge)

    @cached_property
    def expectations(self) -> Expectations:
        """What it expects every model to say."""
        return self._judge.expectations()

    @property
    def _judge(self) -> Judge:
        agent, judge = self.held
        if judge is None:
            raise agent.error("it must have scored the models; it has not.")
        return judge

    def opinion(self, X: Any, question: Question) -> Opinion:
        """What it says of the points `X`."""
        agent, reach = self.held[0], question.reach
        if reach is None:
            return Opinion(_beliefs(agent, X))
        self._judge.ready(reach)
        located = self._judge.locate(X)
        found = self._evidence(located, reach, question)
        expected = self._expected(located) if question.expected else None
        errors, moments, spread, effective = (
            None if each is None else each[:, 0]
            for each in (found.errors, found.moments, found.spread, found.effective)
        )
        said = Opinion(_beliefs(agent, X), errors if moments is None else None, moments, spread, effective, expected)
        if not question.expected and not said.possible(self._judge.errors.shape[1]):
            raise agent.error("its errors and distances must be numbers that are not negative; some are not.")
        return said

    def standards(self) -> tuple[float, Array, Array]:
        """What the guard holds others' opinions against: its usual spread, and where its labels lie."""
        return self.expectations.reach, *self._judge.label_range()

    def version(self) -> str:
        """The version of this package in its process."""
        return VERSION

    def _evidence(self, located: Any, reach: Reach, question: Question) -> Evidence:
        """Evidence with one slot, its own."""
        judge, M = self._judge, located.shape[0]
        found = _blank(M, judge.errors.shape[1], question)
        floats = (found.errors if found.moments is None else found.moments).shape[-1]

        def block(start: int, stop: int) -> None:
            judge.testify(_part(found, slice(start, stop)), 0, located[start:stop], reach)

        in_blocks(block, M, block_size(M, floats, self.n_jobs), self.n_jobs)
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


def _beliefs(agent: Agent, X: Any) -> Array:
    return agent.predict(X).reshape(X.shape[0], -1)


def _blank(M: int, models: int, question: Question) -> Evidence:
    where, effective = (np.empty((M, 1)), np.empty((M, 1))) if question.moments or question.spread else (None, None)
    packed = np.empty((M, 1, models * (models + 1) // 2)) if question.moments else None
    return Evidence(np.empty((0 if question.moments else M, 1, models)), packed, where, effective)


def _part(found: Evidence, part: slice) -> Evidence:
    moments, spread, effective = (
        None if each is None else each[part] for each in (found.moments, found.spread, found.effective)
    )
    return Evidence(found.errors[part], moments, spread, effective)


def _own(judge: Judge) -> Judge:
    """The judge with arrays that the kernels take: those in Ray's object store cannot be written to."""
    rows, residuals, errors = (
        np.require(each, None, ["W"]) if isinstance(each, np.ndarray) else each
        for each in (judge.rows, judge.residuals, judge.errors)
    )
    return replace(judge, rows=rows, residuals=residuals, errors=errors)
