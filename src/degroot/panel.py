"""Panels: agents and their judges before a question, which they answer block by block."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from degroot.agents import Agent
from degroot.calibration import Calibration
from degroot.checks import Checks, Codes, flags
from degroot.conclusions import blank, conclude, single
from degroot.evidence import Evidence, Peers, scored_by_peers
from degroot.judges import Judge, gather, gather_pooled
from degroot.points import Array, allowed, block_size, in_blocks
from degroot.rules import MOMENTS, Option
from degroot.tables import take, to_numbers

BELIEFS_BYTES = 1 << 25  # of points and predictions, held at once
WITHOUT_MOMENTS = {"value", "weights", "beliefs"}  # fields for which no agent's own moments have to be kept


@dataclass(frozen=True, slots=True)
class Panel:
    """Who answers, by which rule, and what answers are held against."""

    agents: tuple[Agent, ...]
    judges: tuple[Judge, ...]  # none where the rule needs no evidence
    option: Option
    checks: Checks | None  # of what agents say
    bare: bool  # whether points have to be numbers, since some agent takes distances on them as they are
    n_jobs: int | None
    peers: Peers | None = None  # whose models each agent has scored; None: everybody's

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
        M, K = X.shape[0], len(self.agents)
        fields = blank(names, M, K, self.Q, self.scored)
        codes = np.zeros((M, K), np.uint8) if self.checks is not None else None
        for part in self.chunks(X):
            some = {name: array[part] for name, array in fields.items()}
            self._answer(take(X, part), some, None if codes is None else codes[part])
        told: dict[str, Any] = {} if codes is None else {"flags": tuple(flags(codes, [a.name for a in self.agents]))}
        return told | (single(fields) if self.agents[0].outputs is None else fields)

    def half_width(self, X: Any, calibration: Calibration, coverage: float) -> Array:
        """How far intervals of that coverage reach to either side of the points `X`, (M,) or (M, Q)."""
        width = np.empty((X.shape[0], self.Q))
        for part in self.chunks(X):
            width[part] = calibration.half_width(self._located(take(X, part)), coverage, self.n_jobs)
        return width[:, 0] if self.agents[0].outputs is None else width

    def chunks(self, X: Any) -> list[slice]:
        """Parts of X small enough to hold all that is located and believed."""
        spaces = 1 + sum(judge.space is not None for judge in self.judges)
        step = max(1, BELIEFS_BYTES // (8 * (len(self.agents) * self.Q + X.shape[1] * spaces)))
        return [slice(start, min(start + step, X.shape[0])) for start in range(0, X.shape[0], step)]

    def _located(self, X: Any) -> list[Any]:
        """The points as each judge sees them."""
        plain = to_numbers(X) if self.bare else None
        return [plain if judge.space is None else judge.locate(X) for judge in self.judges]

    def _answer(self, X: Any, out: dict[str, Array], codes: Codes | None) -> None:
        """Answer into the arrays of `out` and `codes`. Models and spaces are called from this thread only."""
        M, K, checks = X.shape[0], len(self.agents), self.checks
        located, evidence_near = self._located(X), self._route(set(out))
        beliefs = np.stack([agent.predict(X).reshape(M, -1) for agent in self.agents], axis=1)

        def block(start: int, stop: int) -> None:
            part, kept = slice(start, stop), None
            points = [each[part] for each in located]
            evidence = evidence_near(points) if points else Evidence(np.broadcast_to(1.0, (stop - start, K, K)))
            if checks is not None and codes is not None:
                verdict = checks.examine(points, evidence, beliefs[part])
                evidence, kept, codes[part] = verdict.applied(evidence), verdict.kept, verdict.codes
            conclude(
                self.option.made, evidence, beliefs[part], {name: array[part] for name, array in out.items()}, kept
            )

        in_blocks(block, M, self._at_once(M, set(out)), self.n_jobs)

    def _at_once(self, M: int, fields: set[str]) -> int:
        """How many of M points a thread takes at once: more where a pass over many rows should serve all of them."""
        together = max((judge.near[self.option.reach].at_once for judge in self.judges), default=1)
        return max(block_size(M, self._held(fields), self.n_jobs), min(together, -(-M // allowed(self.n_jobs))))

    def _route(self, fields: set[str]) -> Callable[[Sequence[Any]], Evidence]:
        """How evidence near points is gathered: no more of it than the fields take."""
        reach, moments = self.option.reach, self.option.made.uses == MOMENTS
        if self._pools(fields):
            return lambda points: gather_pooled(self.judges, points, reach)
        aside = [k for k, agent in enumerate(self.agents) if agent.scored_by_peers]
        guarded = self.checks is not None

        def whole(points: Sequence[Any]) -> Evidence:
            found = gather(
                self.judges, points, reach, moments=moments, spread=bool(aside), refuse=not guarded, peers=self.peers
            )
            return scored_by_peers(found, aside)

        return whole

    def _pools(self, fields: set[str]) -> bool:
        """Whether moments can be pooled as they come."""
        alone = self.checks is None and not any(agent.scored_by_peers for agent in self.agents)
        return self.option.made.uses == MOMENTS and alone and fields <= WITHOUT_MOMENTS

    def _held(self, fields: set[str]) -> int:
        """How many numbers a block holds for each point."""
        K = len(self.agents)
        packed = K * (K + 1) // 2 if self.option.made.uses == MOMENTS and self.judges else self.scored
        if self._pools(fields):
            return 2 * packed + K * K
        return K * (packed + (K * (self.Q + 4) if self.checks is not None else 0))
