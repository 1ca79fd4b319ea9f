"""Opinions: what one agent says of points."""

from dataclasses import dataclass

from degroot.compute.compiled import Array
from degroot.guard.forecast import AnswerForecast
from degroot.rules.evidence import Evidence


@dataclass(frozen=True, slots=True)
class Opinion:
    """What one agent believes of M points, and what it found near them. What was not asked for is None."""

    beliefs: Array  # (M, Q)
    found: Evidence | None = None  # in one slot, its own
    expected: AnswerForecast | None = None

    def part(self, points: slice) -> "Opinion":
        """What it says of some of the points."""
        found = None if self.found is None else self.found.part(points)
        return Opinion(self.beliefs[points], found, None if self.expected is None else _some(self.expected, points))


def _some(said: AnswerForecast, points: slice) -> AnswerForecast:
    return AnswerForecast(said.answers[points], said.tolerance[points], said.errors[points], said.spread[points])
