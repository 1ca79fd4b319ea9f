"""Panels: agents and their scorers before a question, which they answer block by block."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from degroot.agents.agent import Agent, Scorer
from degroot.compute.compiled import Array, block_size, count_threads, in_blocks
from degroot.compute.tables import take, to_numbers
from degroot.consultation.calibration import Calibration
from degroot.consultation.conclude import blank, conclude, single
from degroot.consultation.guarding import Checks, Codes, Verdict, flags
from degroot.consultation.opinion import gather, gather_pooled
from degroot.consultation.roster import scored_by_peers_indices
from degroot.rules.evidence import Evidence, PeerIndices, Question, scored_by_peers, unknown
from degroot.rules.rules import MOMENTS, NOTHING, Rule, RuleSettings

BELIEFS_BYTES = 1 << 25  # of points and predictions, held at once
WITHOUT_MOMENTS = {"value", "weights", "beliefs"}  # fields for which no agent's own moments have to be kept


@dataclass(frozen=True, slots=True)
class AnswerBuffer:
    """Answers to be filled in, part by part."""

    fields: dict[str, Array]  # with an axis of outputs
    codes: Codes | None  # what is to be said of whom; None where nothing is checked

    @classmethod
    def blank(cls, names: Iterable[str], M: int, K: int, Q: int, scored: int, guarded: bool) -> "AnswerBuffer":
        """For M points, K agents that have each scored so many models, and Q outputs."""
        return cls(blank(names, M, K, Q, scored), np.zeros((M, K), np.uint8) if guarded else None)

    def part(self, points: slice) -> "AnswerBuffer":
        """The same arrays, for some of the points."""
        fields = {name: array[points] for name, array in self.fields.items()}
        return AnswerBuffer(fields, None if self.codes is None else self.codes[points])

    def conclude(self, rule: Rule, evidence: Evidence, beliefs: Array, verdict: Verdict | None) -> None:
        """Fill in what follows from evidence and beliefs (M, K, Q), held against each other if there is a verdict."""
        kept = None
        if verdict is not None and self.codes is not None:
            evidence, kept, self.codes[:] = verdict.applied(evidence), verdict.kept, verdict.codes
        conclude(rule, evidence, beliefs, self.fields, kept)

    def told(self, names: Sequence[str], outputs: int | None) -> dict[str, Any]:
        """The fields, and flags for the agents of these names; None outputs: without an axis of outputs."""
        told: dict[str, Any] = {} if self.codes is None else {"flags": tuple(flags(self.codes, names))}
        return told | (single(self.fields) if outputs is None else self.fields)


def question(option: RuleSettings, fields: set[str], *, spread: bool, guarded: bool) -> Question:
    """What agents have to say, for these fields: no more than they take."""
    uses = option.definition.uses
    if not guarded and "trust" not in fields and (uses == NOTHING or fields == {"beliefs"}):
        return Question(None)
    return Question(option.reach, uses == MOMENTS, spread, guarded)


def pools(asked: Question, fields: set[str]) -> bool:
    """Whether nobody's own moments have to be kept: they can be pooled as they come."""
    return asked.moments and not asked.spread and not asked.expected and fields <= WITHOUT_MOMENTS


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Who answers, by which rule, and what answers are held against."""

    agents: tuple[Agent, ...]
    scorers: tuple[Scorer, ...]  # none where the rule needs no evidence
    option: RuleSettings
    checks: Checks | None  # of what agents say
    bare: bool  # whether points have to be numbers, since some agent takes distances on them as they are
    n_jobs: int | None
    peers: PeerIndices | None = None  # whose models each agent has scored; None: everybody's

    @property
    def scored(self) -> int:
        """How many models each agent has scored."""
        return len(self.agents) if self.peers is None else self.peers.shape[1]

    @property
    def Q(self) -> int:  # noqa: N802
        """How many outputs there are."""
        return self.agents[0].outputs or 1

    def answer(self, X: Any, names: Iterable[str]) -> dict[str, Any]:
        """The fields in `names` for the points `X`, and flags."""
        K, guarded = len(self.agents), self.checks is not None
        draft = AnswerBuffer.blank(names, X.shape[0], K, self.Q, self.scored, guarded)
        for part in self.chunks(X):
            self._answer(take(X, part), draft.part(part))
        return draft.told([agent.name for agent in self.agents], self.agents[0].outputs)

    def half_width(self, X: Any, calibration: Calibration, coverage: float) -> Array:
        """How far intervals of that coverage reach to either side of the points `X`, (M,) or (M, Q)."""
        width = np.empty((X.shape[0], self.Q))
        for part in self.chunks(X):
            width[part] = calibration.half_width(self._transform(take(X, part)), coverage, self.n_jobs)
        return width[:, 0] if self.agents[0].outputs is None else width

    def chunks(self, X: Any) -> list[slice]:
        """Parts of X small enough to hold all that is transformed and believed."""
        spaces = 1 + sum(scorer.space is not None for scorer in self.scorers)
        step = max(1, BELIEFS_BYTES // (8 * (len(self.agents) * self.Q + X.shape[1] * spaces)))
        return [slice(start, min(start + step, X.shape[0])) for start in range(0, X.shape[0], step)]

    def _transform(self, X: Any) -> list[Any]:
        """The points as each scorer sees them."""
        plain = to_numbers(X) if self.bare else None
        return [plain if scorer.space is None else scorer.transform(X) for scorer in self.scorers]

    def _answer(self, X: Any, draft: AnswerBuffer) -> None:
        """Fill in the draft. Models and spaces are called from this thread only."""
        M, transformed, fields, checks = X.shape[0], self._transform(X), set(draft.fields), self.checks
        asked = self._question(fields)
        beliefs = np.stack([agent.predict(X).reshape(M, -1) for agent in self.agents], axis=1)

        def block(start: int, stop: int) -> None:
            part = slice(start, stop)
            points = [each[part] for each in transformed]
            evidence = self._evidence(points, asked, fields) if points else unknown(stop - start, len(self.agents))
            verdict = None if checks is None else checks.examine(points, evidence, beliefs[part])
            draft.part(part).conclude(self.option.definition, evidence, beliefs[part], verdict)

        in_blocks(block, M, self._at_once(M, asked, fields), self.n_jobs)

    def _question(self, fields: set[str]) -> Question:
        return question(
            self.option, fields, spread=bool(scored_by_peers_indices(self.agents)), guarded=self.checks is not None
        )

    def _evidence(self, points: Sequence[Any], asked: Question, fields: set[str]) -> Evidence:
        """What the scorers find near points: no more of it than the fields take."""
        if pools(asked, fields):
            return gather_pooled(self.scorers, points, self.option.reach)
        found = gather(
            self.scorers, points, self.option.reach,
            moments=asked.moments, spread=asked.spread, refuse=not asked.expected, peers=self.peers,
        )  # fmt: skip
        return scored_by_peers(found, scored_by_peers_indices(self.agents))

    def _at_once(self, M: int, asked: Question, fields: set[str]) -> int:
        """How many of M points a thread takes at once: more where a pass over many rows should serve all of them."""
        K = len(self.agents)
        held = K * K + K * (K + 1) if pools(asked, fields) else K * asked.floats(K, self.Q, self.scored)
        together = max((scorer.near[self.option.reach].at_once for scorer in self.scorers), default=1)
        return max(block_size(M, held, self.n_jobs), min(together, -(-M // count_threads(self.n_jobs))))
