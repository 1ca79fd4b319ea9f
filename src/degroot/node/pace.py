"""Pace: how long a peer takes to answer, and when it was last heard of."""

import time
from collections import deque
from collections.abc import Sequence

KEPT = 60  # answers


class Pace:
    """The last answers of a peer."""

    __slots__ = ("_seconds", "seen")

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=KEPT)
        self.seen: float | None = None  # seconds since 1970

    def took(self, seconds: float) -> None:
        """It has just answered, after so long."""
        self._seconds.append(seconds)
        self.seen = time.time()

    @property
    def seconds(self) -> Sequence[float]:
        """How long the last answers took, the newest at the end."""
        return tuple(self._seconds)
