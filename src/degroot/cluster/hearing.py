"""Hearings: what is asked of agents, and what is concluded from their opinions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from degroot.cluster.opinion import Opinion
from degroot.compute.compiled import Array, block_size, in_blocks
from degroot.consultation.guarding import GuardInputs, Verdict
from degroot.consultation.local import AnswerBuffer, pools, question
from degroot.guard.validity import malformed
from degroot.rules.evidence import Evidence, PeerIndices, Question, pooled, scored_by_peers, together, unknown
from degroot.rules.rules import RuleSettings


class Standards(NamedTuple):
    """What the guard holds opinions against."""

    reach: tuple[float, ...]  # what is usual for the spread at each agent's rows
    low: Array  # (K, Q) the least label of each agent, and
    high: Array  # (K, Q) the largest

    @classmethod
    def of(cls, said: Iterable[tuple[float, Array, Array]]) -> "Standards":
        """What the agents said of themselves, together."""
        reach, low, high = zip(*said, strict=True)
        return cls(reach, np.array(low), np.array(high))


@dataclass(frozen=True, slots=True)
class Hearing:
    """By which rule opinions become answers, and what they are held against."""

    option: RuleSettings
    aside: tuple[int, ...]  # who does not score its own model
    peers: PeerIndices | None  # whose models each agent has scored; None: everybody's
    standards: Standards | None  # None: no guard
    n_jobs: int | None

    def scored(self, K: int) -> int:
        """How many models each of K agents has scored."""
        return K if self.peers is None else self.peers.shape[1]

    def blank(self, names: Iterable[str], M: int, K: int, Q: int) -> AnswerBuffer:
        """Answers of K agents to be filled in for M points."""
        return AnswerBuffer.blank(names, M, K, Q, self.scored(K), self.standards is not None)

    def question(self, fields: Iterable[str]) -> Question:
        """What to ask: no more than the fields take."""
        return question(self.option, set(fields), spread=bool(self.aside), guarded=self.standards is not None)

    def conclude(self, opinions: Sequence[Opinion], draft: AnswerBuffer) -> None:
        """Fill in the draft."""
        fields, beliefs = set(draft.fields), np.stack([opinion.beliefs for opinion in opinions], axis=1)
        M, K, Q = beliefs.shape
        asked = self.question(fields)

        def block(start: int, stop: int) -> None:
            part = slice(start, stop)
            some = [opinion.part(part) for opinion in opinions]
            found = [opinion.found for opinion in some if opinion.found is not None]
            evidence = self._evidence(found, pools(asked, fields)) if found else unknown(stop - start, K)
            verdict = self._verdict(some, evidence, beliefs[part])
            draft.part(part).conclude(self.option.definition, evidence, beliefs[part], verdict)

        in_blocks(block, M, block_size(M, K * asked.floats(K, Q, self.scored(K)), self.n_jobs), self.n_jobs)

    def _evidence(self, found: list[Evidence], pools: bool) -> Evidence:
        """What all agents found, together; if it `pools`, only that."""
        alone = pooled(found, len(found)) if pools else None
        return alone or scored_by_peers(together(found, self.peers), self.aside)

    def _verdict(self, opinions: list[Opinion], evidence: Evidence, beliefs: Array) -> Verdict | None:
        if self.standards is None:
            return None
        said = [opinion.expected for opinion in opinions if opinion.expected is not None]
        return GuardInputs(said, *self.standards).verdict(beliefs, malformed(evidence))
