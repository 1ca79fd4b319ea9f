"""Shares: how much of an asker's answer each candidate is, and each corrected prediction where one was learned."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from degroot.asker.candidates import MIXTURE_CORRECTED, OWN_CORRECTED, Candidate
from degroot.compute.compiled import Array
from degroot.consultation.correction import Correction


@dataclass(frozen=True, slots=True)
class Combination:
    """How predictions are combined at m points, whatever they are: weights (m, K), and what is subtracted, (m, Q)."""

    weights: Array
    shifts: Array
    corrected: "Combination | None" = None  # of the mixture that has a correction, where it takes part

    def apply(self, said: Array) -> Array:
        """Values (m, Q) where models say `said`, (m, K, Q)."""
        values: Array = np.matmul(self.weights[:, None], said)[:, 0] - self.shifts
        return values


@dataclass(frozen=True)
class Shares:
    """The shares of C candidates and, where they were learned, of the corrected own model and the corrected mixture."""

    candidates: tuple[Candidate, ...]
    mixed: Array  # (C,) of the candidates, sum to 1: the mixture without any correction
    final: Array  # (C,) of the candidates in the answer
    own: float = 0.0  # of the own model with its correction
    whole: float = 0.0  # of the mixture with its correction
    own_correction: Correction | None = None
    whole_correction: Correction | None = None

    @cached_property
    def used(self) -> tuple[Candidate, ...]:
        """The candidates that have to be weighed."""
        return tuple(self.candidates[c] for c in self._places)

    @cached_property
    def _places(self) -> list[int]:
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

    def combine(self, weights: Array, shifts: Array) -> Combination:
        """The mixture of the `used` candidates, with weights (c, m, K) and shifts (c, m, Q)."""
        corrected = None
        if self.whole_correction is not None and self.whole > 0.0:
            corrected = Combination(*_mix(self.mixed[self._places], weights, shifts))
        return Combination(*_mix(self.final[self._places], weights, shifts), corrected)

    def answer(self, combined: Combination, points: Any, said: Array, own: int) -> tuple[Array, Array]:
        """Values (m, Q) and weights (m, K) at transformed `points` where models say `said`, (m, K, Q).

        `own` is the asker's place.
        """
        value, total = combined.apply(said), combined.weights
        if self.own_correction is not None and self.own > 0.0:
            total = total.copy()
            total[:, own] += self.own
            value += self.own * (said[:, own] + self.own_correction.at(points, said[:, own]))
        if combined.corrected is not None and self.whole_correction is not None:
            whole = combined.corrected.apply(said)
            total = total + self.whole * combined.corrected.weights
            value += self.whole * (whole + self.whole_correction.at(points, whole))
        return value, total


def _mix(shares: Array, weights: Array, shifts: Array) -> tuple[Array, Array]:
    """Weights (m, K) and shifts (m, Q) of candidates with these shares (c,)."""
    (c, m, K), Q = weights.shape, shifts.shape[2]
    return (shares @ weights.reshape(c, m * K)).reshape(m, K), (shares @ shifts.reshape(c, m * Q)).reshape(m, Q)
