"""Recent questions: who asked this node what, how it went, and a sample of the answers. In memory, for the page."""

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from degroot.node.limits import Bucket
from degroot.node.sample import Sample

KEPT, TIMED = 50, 1000  # questions that are listed, and those of which the time is kept
SAMPLED = 20.0  # questions a second whose answers are looked at; more of them would tell no more


@dataclass(frozen=True, slots=True)
class Question:
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
        self.questions: deque[Question] = deque(maxlen=KEPT)
        self.sample = Sample()
        self._seconds: deque[float] = deque(maxlen=TIMED)
        self._sampled = Bucket(SAMPLED, clock)

    @property
    def seconds(self) -> Iterable[float]:
        """How long the last answers took."""
        return tuple(self._seconds)

    def wants(self) -> bool:
        """Whether the answer to a question that comes now is wanted for the sample."""
        wanted = self._sampled.holds(1)
        if wanted:
            self._sampled.take(1)
        return wanted

    def add(self, question: Question) -> None:
        """Take in a question that was answered, or could not be."""
        self.questions.append(question)
        if question.error is None:
            self.answered += 1
            self._seconds.append(question.seconds)
        else:
            self.failed += 1
