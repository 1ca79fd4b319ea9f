"""Opinions: what one agent says of points, and the evidence that the opinions of all are."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from degroot.evidence import Evidence, Peers, Reach, diagonal, from_moments
from degroot.expectations import Expected
from degroot.points import Array
from degroot.stacking import Pool


@dataclass(frozen=True, slots=True)
class Question:
    """What agents are to say of points."""

    reach: Reach | None  # how far to look; None: they say what they believe, no more
    moments: bool = False  # whether second moments are needed
    spread: bool = False  # whether to tell how near the rows are
    expected: bool = False  # whether to tell what to expect of others, for the guard


@dataclass(frozen=True, slots=True)
class Opinion:
    """What one agent believes of M points, and what it found near them. What was not asked for is None."""

    beliefs: Array  # (M, Q)
    errors: Array | None = None  # (M, K), or (M, q) of the models that it has scored
    moments: Array | None = None  # (M, K (K + 1) / 2)
    spread: Array | None = None  # (M,)
    effective: Array | None = None  # (M,)
    expected: Expected | None = None

    def part(self, points: slice) -> "Opinion":
        """What it says of some of the points."""
        errors, moments, spread, effective = (
            None if each is None else each[points] for each in (self.errors, self.moments, self.spread, self.effective)
        )
        expected = None if self.expected is None else _some(self.expected, points)
        return Opinion(self.beliefs[points], errors, moments, spread, effective, expected)

    def possible(self, K: int) -> bool:
        """Whether rows could have given it: errors of K models and distances are numbers that are not negative."""
        errors = self.errors if self.moments is None else self.moments[:, diagonal(K)]
        distances = (self.spread, self.effective)
        finite = errors is None or bool(((errors >= 0.0) & (errors < np.inf)).all())
        return finite and all(each is None or bool((each >= 0.0).all()) for each in distances)


def evidence_of(opinions: Sequence[Opinion], peers: Peers | None = None) -> Evidence:
    """What all agents say, together."""
    spread, effective, moments, errors = (
        _together([getattr(each, name) for each in opinions]) for name in ("spread", "effective", "moments", "errors")
    )
    if moments is None or spread is None or effective is None:
        return Evidence(np.asarray(errors), None, spread, effective, peers=peers)
    return from_moments(moments, spread, effective)


def pooled(opinions: Sequence[Opinion]) -> Evidence:
    """The pooled moments alone, if somebody has rows at every point; otherwise all that was said."""
    M, K = len(opinions[0].beliefs), len(opinions)
    pool = Pool(M, K)
    for each in opinions:
        pool.add(np.array(each.moments), np.array(each.spread), np.array(each.effective))
    if not pool.complete:
        return evidence_of(opinions)
    return Evidence(np.empty((0, K, K)), None, pooled=pool.pooled())


def _together(parts: Sequence[Array | None]) -> Array | None:
    known = [part for part in parts if part is not None]
    return np.stack(known, axis=1) if known else None


def _some(expected: Expected, points: slice) -> Expected:
    answers, tolerance, errors, spread = (
        each[points] for each in (expected.answers, expected.tolerance, expected.errors, expected.spread)
    )
    return Expected(answers, tolerance, errors, spread)
