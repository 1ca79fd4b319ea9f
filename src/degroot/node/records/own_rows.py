"""Own rows that others ask about: whoever asks about many exactly as they are may be testing who is in the data.

That is told to the node's own people, in its log, metrics and page, and changes no reply: one that differed would
confirm what was tested.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array
from degroot.node.records.metrics import Metrics

LEAST_ROWS = 10  # that an alert takes
LATER_SECONDS = 0.2  # after a question, when its points are looked at
MAX_NOTED_ROWS = 10_000  # that wait for that
SHARE = 0.05  # of the points that somebody asked about, or of the own rows
DAY = 86_400

Keys = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Alert:
    """Somebody has asked about many of the node's own rows today."""

    caller: str
    rows: int  # own rows that were asked about
    asked: int  # points in all
    at: float  # seconds since 1970, when it was last so


@dataclass(slots=True)
class _Caller:
    """What one caller has asked about today."""

    day: int
    asked: int = 0
    found: set[int] = field(default_factory=set)
    told: int = 0  # own rows at the last line in the log


class OwnRowsWatch:
    """Counts the own rows that each caller asks about. Rows that share all their features with others do not count.

    Features are compared as single precision numbers, in which some callers send them.
    """

    def __init__(self, X: Array, metrics: Metrics, log: Any, clock: Callable[[], float] = time.time) -> None:
        self._factors = np.random.default_rng().integers(1, 2**63, X.shape[1], np.uint64) * 2 + 1
        keys, counts = np.unique(self._make_keys(X), return_counts=True)
        self._keys: Keys = keys[counts == 1]
        self._metrics, self._log, self._clock = metrics, log, clock
        self._callers: dict[str, _Caller] = {}
        self._noted: dict[str, list[Array]] = {}  # what callers have asked about and was not looked at yet
        self._noted_rows = 0
        self._timer: asyncio.Handle | None = None
        self.alerts: dict[str, Alert] = {}

    def note(self, caller: str, points: Array) -> None:
        """Take in what a caller asks about, (M, d), a little later: nobody waits for it, or could time it."""
        loop, before = asyncio.get_running_loop(), self._noted_rows
        self._noted.setdefault(caller, []).append(points)
        self._noted_rows += len(points)
        if before <= MAX_NOTED_ROWS < self._noted_rows:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = loop.call_soon(self.look_at_noted)
        elif self._timer is None:
            self._timer = loop.call_later(LATER_SECONDS, self.look_at_noted)

    def look_at_noted(self) -> None:
        """Take in what was noted."""
        if self._timer is not None:
            self._timer.cancel()
        noted, self._noted, self._noted_rows, self._timer = self._noted, {}, 0, None
        for caller, points in noted.items():
            self.look(caller, np.concatenate(points))

    def look(self, caller: str, points: Array) -> None:
        """Take in what a caller asks about, (M, d)."""
        now = self._clock()
        known = self._callers.get(caller)
        if known is None or known.day != int(now // DAY):
            known = self._callers[caller] = _Caller(int(now // DAY))
            self._metrics.own_rows_asked(caller, 0)
        known.asked += len(points)
        found = self._find(points)
        if not found:
            return
        known.found |= found
        rows = len(known.found)
        self._metrics.own_rows_asked(caller, rows)
        if rows >= LEAST_ROWS and (rows >= SHARE * known.asked or rows >= SHARE * len(self._keys)):
            self.alerts[caller] = Alert(caller, rows, known.asked, now)
            if rows >= 2 * known.told:  # not at every question
                known.told = rows
                self._log.warning("own rows were asked about", caller=caller, rows=rows, asked=known.asked)

    def _find(self, points: Array) -> set[int]:
        if not len(self._keys) or not len(points):
            return set()
        keys = self._make_keys(points)
        places = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return set(places[self._keys[places] == keys].tolist())

    def _make_keys(self, rows: Array) -> Keys:
        """A number for each row that other rows do not have, but for a chance of 2 ** -64."""
        with np.errstate(over="ignore"):  # what is too large for single precision is infinite
            plain = np.ascontiguousarray(rows, np.float32) + np.float32(0.0)  # -0 becomes 0
        plain[np.isnan(plain)] = np.nan  # gaps are alike, whatever their bits
        bits = plain.view(np.uint32).astype(np.uint64)
        mixed = (bits + np.uint64(0x9E3779B97F4A7C15)) * self._factors
        mixed ^= mixed >> np.uint64(29)
        keys: Keys = (mixed * np.uint64(0xBF58476D1CE4E5B9)).sum(axis=1, dtype=np.uint64)
        return keys
