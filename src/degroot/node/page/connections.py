"""Connections of the page: whoever holds some and sends nothing, or slowly, keeps nobody else out.

uvicorn waits for a request, its body, and a client that reads a reply, for as long as that takes; and of many
connections that send nothing it counts each as one that asks.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS = 256  # at a time; beyond that the one whose request is due for longest makes way
HEAD_SECONDS = 10.0  # for a request to come, once there is a connection or the reply before is sent
BODY_SECONDS = 120.0  # for its body to come: a large file, through a tunnel
READ_SECONDS = 30.0  # for a client to read what fills its buffers
HEAD_BYTES = 16_384  # of a request without its body
HEAD, BODY, NOTHING = "head", "body", ""  # what a client owes


class PageConnection(H11Protocol):
    """One connection, which ends where the client takes too long."""

    _owes: str | None = None
    _since = 0.0  # from when on, by the clock of the loop
    _due: asyncio.TimerHandle | None = None  # when it has to have come
    _unread: asyncio.TimerHandle | None = None  # when what is sent has to have been read

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, where another has to make way if there are too many."""
        super().connection_made(transport)
        self._follow()
        there = [each for each in self.connections if isinstance(each, PageConnection) and not each.is_over]
        if len(there) > MAX_CONNECTIONS:
            min((each for each in there if each._owes == HEAD), key=lambda each: each._since).end()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        for timer in (self._due, self._unread):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Take in what has come."""
        super().handle_events()
        self._follow()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._follow()

    def pause_writing(self) -> None:
        """The client does not read: not for long."""
        super().pause_writing()
        self._unread = self.loop.call_later(READ_SECONDS, self.end)

    def resume_writing(self) -> None:
        """The client reads."""
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()

    @property
    def is_over(self) -> bool:
        """Whether the connection is being closed."""
        return self.transport.is_closing()

    def end(self) -> None:
        """Close the connection at once, whatever has not been sent."""
        self.transport.abort()

    def _follow(self) -> None:
        """Have a time limit for what the client owes now."""
        cycle: Any = self.cycle
        owes = HEAD if cycle is None or cycle.response_complete else BODY if cycle.more_body else NOTHING
        if owes == self._owes:
            return
        self._owes, self._since = owes, self.loop.time()
        if self._due is not None:
            self._due.cancel()
        seconds = {HEAD: HEAD_SECONDS, BODY: BODY_SECONDS}.get(owes)
        self._due = None if seconds is None or self.is_over else self.loop.call_later(seconds, self.end)
