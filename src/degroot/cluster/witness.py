"""Witnesses: what an agent finds on its own rows near points, and what it expects of others there."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from degroot.agents.agent import Scorer
from degroot.compute.compiled import Array, block_size, in_blocks, writable_view
from degroot.consultation.opinion import check_possible
from degroot.guard.forecast import AnswerForecast, AnswerForecaster
from degroot.rules.evidence import Evidence, NeighbourhoodSpec, Question

BLOCK = 1024  # points a thread takes at once


@dataclass(frozen=True)
class Witness:
    """A judge with its own rows, residuals and neighbourhoods, and so many threads."""

    judge: Scorer
    n_jobs: int

    @classmethod
    def of(cls, judge: Scorer, n_jobs: int) -> "Witness":
        """With arrays that the kernels take, where they are: those in Ray's object store are read-only."""
        rows, residuals, errors = (
            writable_view(each) if isinstance(each, np.ndarray) else each
            for each in (judge.rows, judge.residuals, judge.errors)
        )
        return cls(replace(judge, rows=rows, residuals=residuals, errors=errors), n_jobs)

    @cached_property
    def expectations(self) -> AnswerForecaster:
        """What it expects every model to say."""
        return self.judge.expectations()

    def standards(self) -> tuple[float, Array, Array]:
        """What the guard holds others' opinions against: the agent's usual spread, and where its labels lie."""
        return self.expectations.reach, *self.judge.label_range()

    def testimony(self, X: Any, question: Question, reach: NeighbourhoodSpec) -> tuple[Evidence, AnswerForecast | None]:
        """What it finds near the points `X`, in one slot, and what it expects there if that is asked."""
        self.judge.ready(reach)
        located = self.judge.locate(X)
        found = self._found(located, question, reach)
        if question.expected:
            return found, self._expected(located)
        check_possible(self.judge, found, 0)
        return found, None

    def _found(self, located: Any, question: Question, reach: NeighbourhoodSpec) -> Evidence:
        judge, M, models = self.judge, located.shape[0], self.judge.errors.shape[1]
        found = Evidence.blank(M, 1, models, moments=question.moments, spread=question.spread)

        def block(start: int, stop: int) -> None:
            judge.testify(found.part(slice(start, stop)), 0, located[start:stop], reach)

        together = max(judge.near[reach].at_once, block_size(M, question.floats(models, 1, models), self.n_jobs))
        in_blocks(block, M, together, self.n_jobs)
        return found

    def _expected(self, located: Any) -> AnswerForecast:
        M, expectations = located.shape[0], self.expectations
        said: dict[int, AnswerForecast] = {}

        def block(start: int, stop: int) -> None:
            said[start] = expectations.at(located[start:stop])

        in_blocks(block, M, BLOCK, self.n_jobs)
        parts = [said[start] for start in sorted(said)]
        return AnswerForecast(
            *(np.concatenate([getattr(part, name) for part in parts]) for name in AnswerForecast.__dataclass_fields__)
        )
