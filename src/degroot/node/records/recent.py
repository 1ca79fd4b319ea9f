"""Recent questions: who asked this node what, how it went, and a sample of the answers. In memory, for the page."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from degroot.compute.compiled import Array
from degroot.node.protocol.codec import NodeAnswer
from degroot.node.server.access import Bucket

OF_ONE = 64  # points of one question
POINTS, NUMBERS = 5000, 4_000_000  # in all
LOOKED_AT = ("value", "weights", "trust", "influence")


@dataclass(frozen=True, slots=True)
class SampledAnswers:
    """Some points of one question and what was answered, as far as it is known."""

    names: tuple[str, ...]
    points: Array  # (m, d)
    fields: Mapping[str, Array]
    missing: frozenset[str] = frozenset()  # who took no part

    @property
    def numbers(self) -> int:
        """How much room it takes."""
        return self.points.size + sum(values.size for values in self.fields.values())


class AnswerSample:
    """The last answers; the oldest make way for new ones."""

    def __init__(self, points: int = POINTS, numbers: int = NUMBERS) -> None:
        self._most = (points, numbers)
        self._held = [0, 0]  # points, numbers
        self._answers: deque[SampledAnswers] = deque()

    def add(self, points: Array, answered: NodeAnswer) -> None:
        """Take in points of a question, spread evenly over it."""
        chosen = np.linspace(0, len(points) - 1, min(OF_ONE, len(points))).astype(np.intp)
        fields = {name: answered.fields[name][chosen] for name in LOOKED_AT if name in answered.fields}
        if len(chosen):
            some = SampledAnswers(answered.names, points[chosen], fields, frozenset(answered.missing))
            self._count(some, 1)
            self._answers.append(some)
        while len(self._answers) > 1 and any(held > most for held, most in zip(self._held, self._most, strict=True)):
            self._count(self._answers.popleft(), -1)

    def of_the_roster(self) -> list[SampledAnswers]:
        """Those that the same nodes answered as the last one."""
        answers = list(self._answers)
        return [each for each in answers if each.names == answers[-1].names]

    def _count(self, some: SampledAnswers, sign: int) -> None:
        self._held[0] += sign * len(some.points)
        self._held[1] += sign * some.numbers


KEPT, TIMED = 50, 1000  # questions that are listed, and those of which the time is kept
SAMPLED = 20.0  # questions a second whose answers are looked at; more of them would tell no more


@dataclass(frozen=True, slots=True)
class QuestionRecord:
    """One question and how it went."""

    at: float  # seconds since 1970
    who: str
    rows: int
    way: str
    seconds: float
    missing: tuple[str, ...] = ()
    error: str | None = None


class Recent:
    """The last questions, whoever asked them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.answered = self.failed = 0
        self.questions: deque[QuestionRecord] = deque(maxlen=KEPT)
        self.sample = AnswerSample()
        self._seconds: deque[float] = deque(maxlen=TIMED)
        self._sampled = Bucket(SAMPLED, clock)

    @property
    def seconds(self) -> Iterable[float]:
        """How long the last answers took."""
        return tuple(self._seconds)

    def wants(self) -> bool:
        """Whether the answer to a question that comes now is wanted for the sample."""
        return self._sampled.take(1)

    def add(self, question: QuestionRecord) -> None:
        """Take in a question that was answered, or could not be."""
        self.questions.append(question)
        if question.error is None:
            self.answered += 1
            self._seconds.append(question.seconds)
        else:
            self.failed += 1
