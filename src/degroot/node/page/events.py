"""Server-sent events: the node's state for all open pages, computed once a second while somebody looks."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

from degroot.node.page.encoding import encoded
from degroot.node.page.ledger_totals import LedgerTotals, describe_entry
from degroot.node.page.overview import Overview
from degroot.node.server.threads import run_in_thread

PAUSE = 1.0  # seconds between looks
SUMS = 5.0  # seconds between looks at the ledger
QUIET = 15.0  # seconds after which something is said, if only that there is nothing to say
HEARTBEAT = b": still here\n\n"
ENDED = b"event: ended\ndata: {}\n\n"  # the token of whoever listens is no longer valid


class Live:
    """The state as JSON, and its news for whoever listens."""

    def __init__(self, overview: Overview, leak: LedgerTotals, log: Any) -> None:
        self._overview, self._leak, self._log = overview, leak, log
        self._lines: list[dict[str, Any]] = []
        self._sums, self._summed = b"", -SUMS
        self._summing = asyncio.Lock()
        self._listeners: set[asyncio.Event] = set()
        self._state = b""
        self._looking: asyncio.Task[None] | None = None
        self._closed = False

    async def state(self) -> bytes:
        """The state now."""
        await self.leak()
        return encoded(self._overview.state())[:-1] + b"," + self._sums[1:]

    async def leak(self) -> list[dict[str, Any]]:
        """What the ledger comes to, as of not many seconds ago."""
        async with self._summing:
            now = asyncio.get_running_loop().time()
            if now - self._summed >= SUMS:
                entries = await run_in_thread(self._leak.read)
                self._lines = [describe_entry(each) for each in entries]
                sums = {"leak": self._lines, "departures": self._overview.departures(entries)}
                self._sums, self._summed = encoded(sums), now
        return self._lines

    async def news(self, is_let_in: Callable[[], bool]) -> AsyncIterator[bytes]:
        """Server-sent events: the state at once, and whenever it is another; until the node stops, or the session."""
        changed, silent = asyncio.Event(), 0.0
        changed.set()  # what is known is told at once
        self._listeners.add(changed)
        try:
            if self._looking is None or self._looking.done():
                self._looking = asyncio.create_task(self._look())
            while not self._closed:
                if not is_let_in():
                    yield ENDED
                    return
                if changed.is_set():
                    changed.clear()
                    silent = 0.0
                    if self._state:
                        yield b"event: state\ndata: " + self._state + b"\n\n"
                with suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), PAUSE)
                    continue
                silent += PAUSE
                if silent >= QUIET:
                    silent = 0.0
                    yield HEARTBEAT
        finally:
            self._listeners.discard(changed)

    def close(self) -> None:
        """Let all listeners go."""
        self._closed = True
        self._tell()

    async def _look(self) -> None:
        """Look again and again, as long as somebody listens."""
        while self._listeners and not self._closed:
            try:
                state = await self.state()
                if state != self._state:
                    self._state = state
                    self._tell()
            except Exception:  # a mistake of ours, or the disk is full: the next look may succeed
                self._log.exception("the page could not be brought up to date")
            await asyncio.sleep(PAUSE)
        self._state = b""  # who looks next sees what is then

    def _tell(self) -> None:
        for changed in self._listeners:
            changed.set()
