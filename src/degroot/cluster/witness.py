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
    """A scorer with its own rows, residuals and neighbourhoods, and so many threads."""

    scorer: Scorer
    n_jobs: int

    @classmethod
    def of(cls, scorer: Scorer, n_jobs: int) -> "Witness":
        """With arrays that the kernels take, where they are: those in Ray's object store are read-only."""
        rows, residuals, errors = (
            writable_view(each) if isinstance(each, np.ndarray) else each
            for each in (scorer.rows, scorer.residuals, scorer.errors)
        )
        return cls(replace(scorer, rows=rows, residuals=residuals, errors=errors), n_jobs)

    @cached_property
    def expectations(self) -> AnswerForecaster:
        """What it expects every model to say."""
        return self.scorer.expectations()

    def standards(self) -> tuple[float, Array, Array]:
        """What the guard holds others' opinions against: the agent's usual spread, and where its labels lie."""
        return self.expectations.reach, *self.scorer.label_range()

    def testimony(self, X: Any, question: Question, reach: NeighbourhoodSpec) -> tuple[Evidence, AnswerForecast | None]:
        """What it finds near the points `X`, in one slot, and what it expects there if that is asked."""
        self.scorer.ready(reach)
        transformed = self.scorer.transform(X)
        found = self._found(transformed, question, reach)
        if question.expected:
            return found, self._expected(transformed)
        check_possible(self.scorer, found, 0)
        return found, None

    def _found(self, transformed: Any, question: Question, reach: NeighbourhoodSpec) -> Evidence:
        scorer, M, models = self.scorer, transformed.shape[0], self.scorer.errors.shape[1]
        found = Evidence.blank(M, 1, models, moments=question.moments, spread=question.spread)

        def block(start: int, stop: int) -> None:
            scorer.measure(found.part(slice(start, stop)), 0, transformed[start:stop], reach)

        together = max(scorer.near[reach].at_once, block_size(M, question.floats(models, 1, models), self.n_jobs))
        in_blocks(block, M, together, self.n_jobs)
        return found

    def _expected(self, transformed: Any) -> AnswerForecast:
        M, expectations = transformed.shape[0], self.expectations
        said: dict[int, AnswerForecast] = {}

        def block(start: int, stop: int) -> None:
            said[start] = expectations.at(transformed[start:stop])

        in_blocks(block, M, BLOCK, self.n_jobs)
        parts = [said[start] for start in sorted(said)]
        return AnswerForecast(
            *(np.concatenate([getattr(part, name) for part in parts]) for name in AnswerForecast.__dataclass_fields__)
        )
