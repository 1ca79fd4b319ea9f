"""Hearings: what is asked of agents, and what is concluded from their opinions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from degroot.checks import Codes, Grounds
from degroot.cluster.opinion import Opinion, Question, evidence_of, pooled
from degroot.conclusions import conclude
from degroot.evidence import Evidence, Peers, scored_by_peers
from degroot.opinions import malformed
from degroot.panel import WITHOUT_MOMENTS
from degroot.points import Array, block_size, in_blocks
from degroot.rules import MOMENTS, NOTHING, Option


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

    option: Option
    aside: tuple[int, ...]  # who does not score its own model
    peers: Peers | None  # whose models each agent has scored; None: everybody's
    standards: Standards | None  # None: no guard
    n_jobs: int | None

    def scored(self, K: int) -> int:
        """How many models each of K agents has scored."""
        return K if self.peers is None else self.peers.shape[1]

    def question(self, fields: set[str]) -> Question:
        """What to ask: no more than the fields take."""
        rule, guarded = self.option.made, self.standards is not None
        if not guarded and "trust" not in fields and (rule.uses == NOTHING or fields == {"beliefs"}):
            return Question(None)
        return Question(self.option.reach, rule.uses == MOMENTS, bool(self.aside), guarded)

    def floats(self, K: int, Q: int, question: Question) -> int:
        """How many numbers an agent says of a point, beside its belief."""
        if question.reach is None:
            return 0
        found = K * (K + 1) // 2 if question.moments else self.scored(K)
        return found + (K * (Q + 2) if question.expected else 0)

    def conclude(self, opinions: Sequence[Opinion], out: dict[str, Array], codes: Codes | None) -> None:
        """Answer into the arrays of `out` and `codes`."""
        beliefs = np.stack([opinion.beliefs for opinion in opinions], axis=1)
        M, K, Q = beliefs.shape

        def block(start: int, stop: int) -> None:
            part, kept = slice(start, stop), None
            some = [opinion.part(part) for opinion in opinions]
            evidence = self._evidence(some, set(out))
            if codes is not None:
                verdict = self._grounds(some).verdict(beliefs[part], malformed(evidence))
                evidence, kept, codes[part] = verdict.applied(evidence), verdict.kept, verdict.codes
            fields = {name: array[part] for name, array in out.items()}
            conclude(self.option.made, evidence, beliefs[part], fields, kept)

        floats = K * max(1, self.floats(K, Q, self.question(set(out))))
        in_blocks(block, M, block_size(M, floats, self.n_jobs), self.n_jobs)

    def _evidence(self, opinions: list[Opinion], fields: set[str]) -> Evidence:
        M, K, first = len(opinions[0].beliefs), len(opinions), opinions[0]
        if first.errors is None and first.moments is None:
            return Evidence(np.broadcast_to(1.0, (M, K, K)))
        if first.moments is not None and self.standards is None and not self.aside and fields <= WITHOUT_MOMENTS:
            return pooled(opinions)
        return scored_by_peers(evidence_of(opinions, self.peers), self.aside)

    def _grounds(self, opinions: list[Opinion]) -> Grounds:
        said = [opinion.expected for opinion in opinions if opinion.expected is not None]
        reach, low, high = self.standards or Standards((), np.empty((0, 0)), np.empty((0, 0)))
        return Grounds(said, reach, low, high)
