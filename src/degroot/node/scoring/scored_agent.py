"""Seats: a node's agent with the models that it has scored.

When a model changes there is a new seat; questions keep the one they began with.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from degroot.agents.agent import Agent, Scorer
from degroot.compute.compiled import Array, block_size, in_blocks
from degroot.guard.forecast import AnswerForecast, AnswerForecaster
from degroot.node.protocol.models import Model
from degroot.node.protocol.opinion import Expectation, Opinion
from degroot.rules.evidence import Evidence
from degroot.rules.rules import MOMENTS, NOTHING, RuleSettings

FEW = 32  # points


@dataclass(frozen=True)
class ScoredAgent:
    """What a node answers from."""

    agent: Agent
    version: str  # of its own model
    option: RuleSettings
    scored: tuple[Model, ...]
    scorer: Scorer
    guarded: bool
    feature_names: tuple[str, ...] = ()
    near_by: bool = True  # whether its model answers in this process, and a few points at once

    @classmethod
    def taken(cls, first: "ScoredAgent", residuals: Mapping[Model, Array]) -> "ScoredAgent":
        """A seat with other models scored: their residuals, (n, Q) each, in the order of their names."""
        scored = tuple(sorted(residuals))
        stacked = np.stack([residuals[model] for model in scored], axis=-1)
        scorer = first.scorer.with_residuals(stacked)
        scorer.ready(first.option.reach)
        seat = replace(first, scored=scored, scorer=scorer)
        if seat.guarded:
            _ = seat.expectations, seat.labels  # made here, not when the first question comes
        return seat

    @cached_property
    def expectations(self) -> AnswerForecaster:
        """What it expects of every model near its rows."""
        return self.scorer.expectations()

    @cached_property
    def labels(self) -> tuple[Array, Array]:
        """Where its labels lie."""
        return self.scorer.label_range()

    @property
    def outputs(self) -> int:
        """How many outputs there are."""
        return self.agent.outputs or 1

    def quick(self, points: int) -> bool:
        """Whether so many points are answered sooner than a thread is found for them."""
        return self.near_by and points <= FEW

    def opinion(self, points: Array, *, spread: bool = False, guard: bool = False) -> Opinion:
        """What this node says of `points`, (M, d)."""
        M, K = len(points), len(self.scored)
        beliefs = self.agent.predict(points).reshape(M, self.outputs) if M else np.empty((0, self.outputs))
        if self.option.definition.uses == NOTHING and not guard:
            return Opinion(self.version, beliefs, self.scored, np.ones((M, K)))
        moments = self.option.definition.uses == MOMENTS
        transformed = self.scorer.transform(points)
        found = Evidence.blank(M, 1, K, moments=moments, spread=spread)
        said = _expected(M, K, self.outputs) if guard else None

        def block(start: int, stop: int) -> None:
            part = slice(start, stop)
            self.scorer.measure(found.part(part), 0, transformed[part], self.option.reach)
            if said is not None:
                _copy(self.expectations.at(transformed[part]), said, part)

        if M <= FEW:
            block(0, M)
        else:
            in_blocks(block, M, block_size(M, K * (self.outputs + 8), None))
        told: dict[str, Any] = {"moments": _first(found.moments)} if moments else {"errors": found.errors[:, 0]}
        expectation = None if said is None else Expectation(said, self.expectations.reach, *self.labels)
        return Opinion(
            self.version, beliefs, self.scored, **told, spread=_first(found.spread), effective=_first(found.effective),
            expectation=expectation,
        )  # fmt: skip


def _expected(M: int, K: int, Q: int) -> AnswerForecast:
    return AnswerForecast(np.empty((M, K, Q)), np.empty((M, K)), np.empty((M, K)), np.empty(M))


def _copy(some: AnswerForecast, said: AnswerForecast, part: slice) -> None:
    for name in ("answers", "tolerance", "errors", "spread"):
        getattr(said, name)[part] = getattr(some, name)


def _first(values: Array | None) -> Array | None:
    return None if values is None else values[:, 0]
