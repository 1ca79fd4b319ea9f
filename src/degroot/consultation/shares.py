"""Shares: how much of an asker's answer each candidate is, and each corrected prediction where one was learned."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from degroot.asker.candidates import Candidate
from degroot.asker.names import MIXTURE_CORRECTED, OWN_CORRECTED
from degroot.compute.compiled import Array, as_kernel_array
from degroot.compute.kernel import compiled_for
from degroot.consultation.correction import Correction


class Combination(NamedTuple):
    """How predictions are combined at m points, whatever they are: weights (..., m, K), and shifts (..., m, Q).

    The shifts are subtracted. Leading axes are different combinations at the same points.
    """

    weights: Array
    shifts: Array
    corrected: "Combination | None" = None  # of the mixture that has a correction, where it takes part

    def apply(self, said: Array) -> Array:
        """Values (..., m, Q) where models say `said`, (m, K, Q)."""
        (m, K, Q), values = said.shape, np.empty(self.shifts.shape)
        D = math.prod(values.shape[:-2])
        weights, shifts = self.weights.reshape(D, m, K), self.shifts.reshape(D, m, Q)
        _apply_into(weights, shifts, as_kernel_array(said), values.reshape(D, m, Q))
        return values

    def take(self, place: int | slice) -> "Combination":
        """One of several combinations, or some of them."""
        corrected = None if self.corrected is None else self.corrected.take(place)
        return Combination(self.weights[place], self.shifts[place], corrected)


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

    @property
    def used_names(self) -> list[str]:
        """The names of the candidates that have to be weighed."""
        needed = (self.final > 0.0) | ((self.mixed > 0.0) & self.has_whole_correction)
        return [self.candidates[c].name for c in np.flatnonzero(needed)]

    @property
    def is_corrected(self) -> bool:
        """Whether a corrected prediction has a share."""
        return (self.own_correction is not None and self.own > 0.0) or self.has_whole_correction

    @property
    def has_whole_correction(self) -> bool:
        """Whether the corrected mixture has a share."""
        return self.whole_correction is not None and self.whole > 0.0

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

    def answer(self, combined: Combination, points: Any, said: Array, own: int) -> tuple[Array, Array]:
        """Values (m, Q) and weights (m, K) at transformed `points` where models say `said`, (m, K, Q).

        `own` is the asker's place.
        """
        value, total = combined.apply(said), combined.weights
        if self.own_correction is not None and self.own > 0.0:
            total = total.copy()
            total[:, own] += self.own
            value += self.own * (said[:, own] + self.own_correction.at(points, said[:, own]))
        if combined.corrected is not None and self.whole_correction is not None and self.whole > 0.0:
            whole = combined.corrected.apply(said)
            total = total + self.whole * combined.corrected.weights
            value += self.whole * (whole + self.whole_correction.at(points, whole))
        return value, total


@dataclass(frozen=True)
class Mixtures:
    """D mixtures of the same C candidates: of everybody's models, and without each in turn where that is asked for."""

    shares: tuple[Shares, ...]
    without: tuple[int, ...]  # the model that each leaves out

    @cached_property
    def candidates(self) -> tuple[Candidate, ...]:
        """The candidates that any of them uses."""
        named = {each.name: each for one in self.shares for each in one.candidates}
        used = {name for one in self.shares for name in one.used_names}
        return tuple(each for name, each in named.items() if name in used)

    @cached_property
    def final(self) -> Array:
        """The shares of the candidates in the answers, (D, C)."""
        return np.array([_align(one.candidates, one.final, self.candidates) for one in self.shares])

    @cached_property
    def mixed(self) -> Array | None:
        """Those in the mixtures that are corrected, (D, C); None: none is."""
        if not any(one.has_whole_correction for one in self.shares):
            return None
        return np.array([_align(one.candidates, one.mixed, self.candidates) for one in self.shares])

    @cached_property
    def is_corrected(self) -> bool:
        """Whether any of them has a correction."""
        return any(one.is_corrected for one in self.shares)

    def combine(self, weights: Array, shifts: Array) -> Combination:
        """The mixtures of candidates with weights (C, D, m, K) and shifts (C, D, m, Q)."""
        corrected = None if self.mixed is None else Combination(*_mix(self.mixed, weights, shifts))
        return Combination(*_mix(self.final, weights, shifts), corrected)


@compiled_for("f8[3] f8[3] f8[3] f8[3]")
def _apply_into(weights: Array, shifts: Array, said: Array, values: Array) -> None:
    """Weighted sums (D, m, Q) of what models say, (m, K, Q), less the shifts."""
    D, M, K = weights.shape
    for d in range(D):
        for m in range(M):
            for q in range(said.shape[2]):
                total = -shifts[d, m, q]
                for k in range(K):
                    total += weights[d, m, k] * said[m, k, q]
                values[d, m, q] = total


def _align(candidates: Sequence[Candidate], shares: Array, wanted: Sequence[Candidate]) -> list[float]:
    """The shares of the `wanted` candidates, 0 of those that are none of `candidates`."""
    known = {each.name: float(share) for each, share in zip(candidates, shares, strict=True)}
    return [known.get(each.name, 0.0) for each in wanted]


def _mix(shares: Array, weights: Array, shifts: Array) -> tuple[Array, Array]:
    """Weights (D, m, K) and shifts (D, m, Q) of candidates with shares (D, C), weights and shifts (C, D, m, ...)."""
    mixed_weights, mixed_shifts = np.empty(weights.shape[1:]), np.empty(shifts.shape[1:])
    _mix_into(shares, weights, mixed_weights)
    _mix_into(shares, shifts, mixed_shifts)
    return mixed_weights, mixed_shifts


@compiled_for("f8[2] f8[4] f8[3]")
def _mix_into(shares: Array, tables: Array, mixed: Array) -> None:
    """Sums over candidates of their shares (D, C) times their tables (C, D, m, columns)."""
    C, D, M, columns = tables.shape
    for d in range(D):
        for m in range(M):
            for k in range(columns):
                total = 0.0
                for c in range(C):
                    if shares[d, c] != 0.0:  # what has no share may be anything
                        total += shares[d, c] * tables[c, d, m, k]
                mixed[d, m, k] = total
