"""Status: metrics, and whether the node lives and can answer, over HTTP for Prometheus, systemd and Kubernetes.

The server has a thread and an event loop of its own, so that it can tell when the node's loop has hung. Callers are
strangers: who sends nothing, or slowly, holds a connection for a while and keeps nobody else waiting.
"""

import asyncio
import socket
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from threading import Thread
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from degroot.node.server.health import Health

METRICS, LIVE, READY = "/metrics", "/live", "/ready"
TEXT = "text/plain; charset=utf-8"
MAX_REQUEST_BYTES = 8192  # of a request with its headers
REQUEST_SECONDS = 5.0  # for a request to come, and for the reply to be taken
CLOSING_SECONDS = 5.0  # for connections to end when the server is closed, and then for its thread
MAX_CONNECTIONS = 256  # at a time; beyond that the one that is there for longest makes way

Reply = tuple[HTTPStatus, str, str]  # with the type of the content


class StatusServer:
    """Replies to requests on a socket, until it is closed."""

    def __init__(self, registry: CollectorRegistry, health: Health, listening: socket.socket) -> None:
        self._registry, self._health, self._listening = registry, health, listening
        self.port = int(listening.getsockname()[1])
        self._open: OrderedDict[asyncio.Task[Any], None] = OrderedDict()  # connections, the oldest first
        self._loop = asyncio.new_event_loop()
        self._closing = asyncio.Event()
        self._thread = Thread(target=self._run, name="degroot-status", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening, and end all connections."""
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join(2 * CLOSING_SECONDS)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._accept, sock=self._listening, limit=MAX_REQUEST_BYTES)
        await self._closing.wait()
        server.close()  # `async with` would wait for all connections, from Python 3.12.1 on
        for connection in self._open:
            connection.cancel()
        if self._open:
            await asyncio.wait(list(self._open), timeout=CLOSING_SECONDS)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Reply to one connection; the oldest one makes way where there are too many."""
        connection: Any = asyncio.current_task()
        if len(self._open) >= MAX_CONNECTIONS:
            self._open.popitem(last=False)[0].cancel()
        self._open[connection] = None
        try:
            with suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.CancelledError):
                async with asyncio.timeout(REQUEST_SECONDS):
                    writer.write(await self._read_and_reply(reader))
                    writer.close()  # once all is sent
                    await writer.wait_closed()
        finally:
            self._open.pop(connection, None)
            writer.transport.abort()  # what was not taken by now is dropped

    async def _read_and_reply(self, reader: asyncio.StreamReader) -> bytes:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            told = f"A request must have at most {MAX_REQUEST_BYTES} bytes; more came.\n"
            return encode_reply((HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, TEXT, told))
        method, _, rest = head.split(b"\r\n", 1)[0].partition(b" ")
        target, _, version = rest.rpartition(b" ")
        if not version.startswith(b"HTTP/1."):
            return encode_reply((HTTPStatus.BAD_REQUEST, TEXT, "A request must be one of HTTP/1.1.\n"))
        if method not in (b"GET", b"HEAD"):
            told = "A request must be GET or HEAD.\n"
            return encode_reply((HTTPStatus.METHOD_NOT_ALLOWED, TEXT, told), "Allow: GET, HEAD\r\n")
        return encode_reply(self._find_reply(target.partition(b"?")[0]), with_body=method == b"GET")

    def _find_reply(self, path: bytes) -> Reply:
        replies: dict[bytes, Callable[[], Reply]] = {
            METRICS.encode(): lambda: (HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(self._registry).decode()),
            LIVE.encode(): lambda: tell_health([hang] if (hang := self._health.find_hang()) else [], "alive"),
            READY.encode(): lambda: tell_health(list(self._health.find_troubles().values()), "ready"),
        }
        if path in replies:
            return replies[path]()
        return HTTPStatus.NOT_FOUND, TEXT, f"There are {METRICS}, {LIVE} and {READY} here, and nothing else.\n"


def tell_health(reasons: list[str], word: str) -> Reply:
    """The reply to a probe: a word or, where something is the matter, a line for each reason."""
    status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
    return status, TEXT, "".join(f"{line}\n" for line in reasons or [word])


def encode_reply(reply: Reply, more: str = "", *, with_body: bool = True) -> bytes:
    """A reply of HTTP, after which the connection ends. `more`: headers."""
    status, kind, body = reply[0], reply[1], reply[2].encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        f"Cache-Control: no-store\r\nConnection: close\r\n{more}\r\n"
    )
    return head.encode("ascii") + (body if with_body else b"")
