"""Limits: how much one peer or client may ask for, whatever it sends."""

import time
from collections import OrderedDict
from collections.abc import Callable

from degroot.exceptions import DeGrootError
from degroot.node.config import Limits

Clock = Callable[[], float]
NAMES = 1024  # how many peers and clients have an allowance at the same time


class Exceeded(DeGrootError):
    """More came than a limit allows."""

    def __init__(self, limit: str, message: str) -> None:
        super().__init__(limit, message)
        self.limit = limit  # its name in the configuration
        self.message = message

    def __str__(self) -> str:
        return self.message


class Bucket:
    """Tokens that come at a steady rate, and gather for a second when nobody takes them.

    In any t seconds at most ``rate * t + burst`` are taken, where ``burst = max(rate, 1)``.
    """

    __slots__ = ("_at", "_clock", "_tokens", "burst", "rate")

    def __init__(self, rate: float, clock: Clock) -> None:
        self.rate, self.burst = rate, max(rate, 1.0)
        self._clock, self._at, self._tokens = clock, clock(), self.burst

    def holds(self, tokens: float) -> bool:
        """Whether so many can be taken now."""
        now = self._clock()
        self._tokens = min(self.burst, self._tokens + self.rate * (now - self._at))
        self._at = now
        return tokens <= self._tokens

    def take(self, tokens: float) -> None:
        """Take so many, which it holds."""
        self._tokens -= tokens


class Allowance:
    """What is left of one peer's limits."""

    __slots__ = ("_limits", "_requests", "_rows", "calls")

    def __init__(self, limits: Limits, clock: Clock = time.monotonic) -> None:
        self._limits, self.calls = limits, 0
        self._requests = Bucket(limits.requests_per_second, clock)
        self._rows = Bucket(limits.rows_per_second, clock)

    def enter(self) -> None:
        """Begin a call, which `leave` ends."""
        if self.calls >= self._limits.concurrent_calls:
            raise _exceeded("concurrent_calls", f"{self._limits.concurrent_calls} calls at a time", "one more came")
        self.calls += 1

    def leave(self) -> None:
        """End a call."""
        self.calls -= 1

    def take(self, rows: int) -> None:
        """Let a message with so many rows through; one that is refused takes nothing."""
        limits, rows = self._limits, max(rows, 0)
        if rows > limits.rows_per_request:
            raise _exceeded("rows_per_request", f"{limits.rows_per_request} rows in a request", f"{rows} came")
        if not self._requests.holds(1):
            raise _exceeded("requests_per_second", f"{limits.requests_per_second:g} requests a second", "more came")
        if not self._rows.holds(rows):
            raise _exceeded("rows_per_second", f"{limits.rows_per_second:g} rows a second", f"{rows} more came")
        self._requests.take(1)
        self._rows.take(rows)


class Allowances:
    """An allowance for each name; those that were not needed for longest make way for others."""

    def __init__(self, limits: Limits, clock: Clock = time.monotonic, names: int = NAMES) -> None:
        self.limits, self._clock, self._names = limits, clock, names
        self._by_name: OrderedDict[str, Allowance] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_name)

    def of(self, name: str) -> Allowance:
        """What is left for `name`."""
        allowance = self._by_name.get(name)
        if allowance is None:
            self._make_room()
            allowance = self._by_name[name] = Allowance(self.limits, self._clock)
        self._by_name.move_to_end(name)
        return allowance

    def _make_room(self) -> None:
        if len(self._by_name) < self._names:
            return
        idle = next((name for name, allowance in self._by_name.items() if allowance.calls == 0), None)
        if idle is None:
            raise _exceeded("names", f"{self._names} callers at a time", "one more came")
        del self._by_name[idle]


def _exceeded(limit: str, allowed: str, came: str) -> Exceeded:
    return Exceeded(limit, f"At most {allowed} are allowed ({limit}); {came}.")
