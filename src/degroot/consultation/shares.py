"""Shares: how much of an asker's answer each candidate is, and each corrected prediction where one was learned."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from degroot.asker.candidates import MIXTURE_CORRECTED, OWN_CORRECTED, Candidate
from degroot.compute.compiled import Array
from degroot.consultation.correction import Correction


@dataclass(frozen=True, slots=True)
class Shares:
    """The shares of C candidates and, where they were learned, of the corrected own model and the corrected mixture."""

    candidates: tuple[Candidate, ...]
    mixed: Array  # (C,) of the candidates, sum to 1: the mixture without any correction
    final: Array  # (C,) of the candidates in the answer
    own: float = 0.0  # of the own model with its correction
    whole: float = 0.0  # of the mixture with its correction
    own_correction: Correction | None = None
    whole_correction: Correction | None = None

    @property
    def used(self) -> list[int]:
        """The candidates that have to be weighed."""
        needed = (self.final > 0.0) | ((self.mixed > 0.0) & (self.whole > 0.0))
        return [int(c) for c in np.flatnonzero(needed)]

    @property
    def names(self) -> tuple[str, ...]:
        """What the answer is mixed of."""
        corrections = {OWN_CORRECTED: self.own_correction, MIXTURE_CORRECTED: self.whole_correction}
        learned = [name for name, correction in corrections.items() if correction is not None]
        return (*(each.name for each in self.candidates), *learned)

    @property
    def every(self) -> Array:
        """The shares in the order of the names, sum to 1."""
        own, whole = [self.own] * (self.own_correction is not None), [self.whole] * (self.whole_correction is not None)
        return np.concatenate([self.final, own, whole])

    def mix_errors(self, errors: Array) -> Array:
        """Errors (m, Q) of the mixture without any correction, from those of the candidates, (m, C, Q)."""
        mixed: Array = np.einsum("c,mcq->mq", self.mixed, errors)
        return mixed

    def with_corrections(self, errors: Array, own: Array) -> Array:
        """Errors in the order of the names, from those of the candidates (m, C, Q) and of the own model (m, Q)."""
        every = [errors]
        if self.own_correction is not None:
            every.append((own + self.own_correction.left_out)[:, None])
        if self.whole_correction is not None:
            every.append((self.mix_errors(errors) + self.whole_correction.left_out)[:, None])
        return np.concatenate(every, axis=1)

    def with_final(self, every: Array) -> "Shares":
        """The same with these shares in the answer, in the order of the names."""
        count = len(self.candidates)
        own = float(every[count]) if self.own_correction is not None else 0.0
        whole = float(every[-1]) if self.whole_correction is not None else 0.0
        return replace(self, final=every[:count], own=own, whole=whole)

    def combine(self, weights: Array, shifts: Array, points: Any, said: Array, own: int) -> tuple[Array, Array]:
        """Values (m, Q) and weights (m, K) at transformed `points` where models say `said`, (m, K, Q).

        `weights` (c, m, K) and `shifts` (c, m, Q) are those of the `used` candidates; `own` is the asker's place.
        """
        value, total = _mix(self.final[self.used], weights, shifts, said)
        if self.own_correction is not None and self.own > 0.0:
            total[:, own] += self.own
            value += self.own * (said[:, own] + self.own_correction.at(points, said[:, own]))
        if self.whole_correction is not None and self.whole > 0.0:
            whole, mixed = _mix(self.mixed[self.used], weights, shifts, said)
            total += self.whole * mixed
            value += self.whole * (whole + self.whole_correction.at(points, whole))
        return value, total


def _mix(shares: Array, weights: Array, shifts: Array, said: Array) -> tuple[Array, Array]:
    """Values (m, Q) and weights (m, K) of candidates with these shares (c,)."""
    total: Array = np.einsum("c,cmk->mk", shares, weights)
    value: Array = np.einsum("mk,mkq->mq", total, said) - np.einsum("c,cmq->mq", shares, shifts)
    return value, total
