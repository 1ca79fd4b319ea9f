"""A node's agent with the models that it has scored.

When a model changes there is a new one; questions keep the one they began with.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from degroot.agents.abstention import ColumnMask, has_gaps
from degroot.agents.agent import Agent, Scorer, predict_where_able
from degroot.compute.compiled import Array
from degroot.consultation.consult import FEW_POINTS, Opinion, Question, give_opinion, give_whole_opinion
from degroot.node.protocol.codec import Model
from degroot.node.protocol.opinions import PeerOpinion
from degroot.node.scoring.views import OwnViews
from degroot.rules.evidence import MOMENTS, NOTHING, Evidence
from degroot.rules.rules import RuleSettings

if TYPE_CHECKING:
    from degroot.node.copies.copy import ModelCopy

AT_ONCE_SECONDS, TRIES = 0.005, 3  # for a few rows, at best of so many tries


def answers_at_once(agent: Agent, able: NDArray[np.intp]) -> bool:
    """Whether its model answers a few rows sooner than a thread is found for them; it has been asked before.

    `able`: the numbers of rows for which it does not abstain.
    """
    if not len(able):
        return False
    rows = agent.X[able[np.arange(FEW_POINTS) % len(able)]]
    return min(_measure_seconds(agent, rows) for _ in range(TRIES)) <= AT_ONCE_SECONDS


def _measure_seconds(agent: Agent, rows: Array) -> float:
    begun = time.perf_counter()
    agent.predict(rows)
    return time.perf_counter() - begun


@dataclass(frozen=True)
class ScoredAgent:
    """What a node answers from."""

    agent: Agent
    version: str  # of its own model
    option: RuleSettings
    pooled_option: RuleSettings  # of opinions: neighbourhoods have as many rows as have to be behind what leaves
    scored: tuple[Model, ...]
    scorer: Scorer
    guarded: bool
    feature_names: tuple[str, ...] = ()
    near_by: bool = True  # whether its model answers in this process, and a few points at once
    copies: "Mapping[str, ModelCopy]" = field(default_factory=dict)  # of peers' models that were scored, by name

    @classmethod
    def taken(
        cls, first: "ScoredAgent", residuals: Mapping[Model, Array], copies: "Mapping[str, ModelCopy] | None" = None
    ) -> "ScoredAgent":
        """The same agent with other models scored: their residuals, (n, Q) each; NaN where they abstain on a row."""
        scored, own = tuple(sorted(residuals)), residuals[Model(first.agent.name, first.version)]
        gaps = [np.isnan(residuals[model]) for model in scored]  # where models abstain, the own one stands in
        completed = [np.where(gap, own, residuals[model]) for gap, model in zip(gaps, scored, strict=True)]
        unscored = np.array([bool(gap.all()) for gap in gaps])
        scorer = first.scorer.with_residuals(np.stack(completed, axis=-1), unscored)
        scorer.ready(first.pooled_option.reach)
        seat = replace(first, scored=scored, scorer=scorer, copies=copies or {})
        if seat.guarded:
            _ = scorer.standards  # made here, not when the first question comes
        return seat

    @property
    def schema_digest(self) -> str:
        """Of the schema by which rows are numbers; empty: there is none."""
        return "" if self.agent.schema is None else self.agent.schema.digest

    @property
    def outputs(self) -> int:
        """How many outputs there are."""
        return self.agent.outputs or 1

    @cached_property
    def versions(self) -> Mapping[str, str]:
        """Which version of each model was scored."""
        return {model.name: model.version for model in self.scored}

    @cached_property
    def views(self) -> OwnViews:
        """Its views on the models that it has scored."""
        return OwnViews(self.agent, self.scorer, [model.name for model in self.scored], self.option)

    def quick(self, points: int) -> bool:
        """Whether so many points are answered sooner than a thread is found for them."""
        return self.near_by and points <= FEW_POINTS

    def give_opinion(self, points: Array, *, distances: bool = False, guard: bool = False) -> PeerOpinion:
        """What this node measures of all models near `points`, (M, d): pooled evidence."""
        M, K, uses = len(points), len(self.scored), self.pooled_option.definition.uses
        if uses == NOTHING and not guard:
            opinion = Opinion(self.predict_able(points), Evidence(np.ones((M, 1, K))))
        else:
            question = Question(self.pooled_option.reach, uses == MOMENTS, distances, guard, gaps=has_gaps(points))
            if M:
                opinion = give_whole_opinion(self.agent, self.scorer, points, question)
            else:
                opinion = give_opinion(self.scorer, self.scorer.transform(points), self.predict(points), question)
        told = PeerOpinion(self.version, self.scored, opinion)
        unscored = self.scorer.unscored
        return told if unscored is None else told.without_models(unscored)

    def predict(self, points: Array) -> Array:
        """What its own model says of `points`, (M, Q)."""
        M = len(points)
        return self.agent.predict(points).reshape(M, -1) if M else np.empty((0, self.outputs))

    def predict_able(self, points: Array, absent: ColumnMask = None) -> Array:
        """The same with NaN where it lacks an input; `absent`: columns (d,) that the points do not have."""
        return predict_where_able(self.agent, points, absent) if len(points) else np.empty((0, self.outputs))
