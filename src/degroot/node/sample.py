"""A sample of points that were asked about, with what was answered: of the last questions, in memory, never on disk."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from degroot.node.solving import Answered
from degroot.points import Array

OF_ONE = 64  # points of one question
POINTS, NUMBERS = 5000, 4_000_000  # in all
LOOKED_AT = ("value", "weights", "trust", "influence")


@dataclass(frozen=True, slots=True)
class Answers:
    """Some points of one question and what was answered, as far as it is known."""

    names: tuple[str, ...]
    points: Array  # (m, d)
    fields: Mapping[str, Array]
    missing: frozenset[str] = frozenset()  # who took no part

    @property
    def numbers(self) -> int:
        """How much room it takes."""
        return self.points.size + sum(values.size for values in self.fields.values())


class Sample:
    """The last answers; the oldest make way for new ones."""

    def __init__(self, points: int = POINTS, numbers: int = NUMBERS) -> None:
        self._most = (points, numbers)
        self._held = [0, 0]  # points, numbers
        self._answers: deque[Answers] = deque()

    def add(self, points: Array, answered: Answered) -> None:
        """Take in points of a question, spread evenly over it."""
        chosen = np.linspace(0, len(points) - 1, min(OF_ONE, len(points))).astype(np.intp)
        fields = {name: answered.fields[name][chosen] for name in LOOKED_AT if name in answered.fields}
        if len(chosen):
            some = Answers(answered.names, points[chosen], fields, frozenset(answered.missing))
            self._count(some, 1)
            self._answers.append(some)
        while len(self._answers) > 1 and any(held > most for held, most in zip(self._held, self._most, strict=True)):
            self._count(self._answers.popleft(), -1)

    def of_the_roster(self) -> list[Answers]:
        """Those that the same nodes answered as the last one."""
        answers = list(self._answers)
        return [each for each in answers if each.names == answers[-1].names]

    def _count(self, some: Answers, sign: int) -> None:
        self._held[0] += sign * len(some.points)
        self._held[1] += sign * some.numbers
