"""Files of the ledger: exports that are written while they are sent, however long the ledger is."""

import asyncio
import io
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from concurrent.futures import CancelledError
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from typing import Any, TextIO

from degroot.exceptions import InvalidInput
from degroot.node.page.requests import TooMuch
from degroot.node.records.export import LedgerContent, read_ledger, write_csv, write_json

Writer = Callable[[LedgerContent, TextIO, str | None], int]
KINDS: dict[str, tuple[str, str, Writer]] = {  # suffix, media type, and what writes it
    "json": ("jsonl", "application/jsonl", write_json),
    "csv": ("csv", "text/csv; charset=utf-8", write_csv),
}
PIECE = 1 << 16  # characters that are sent at once
AHEAD = 4  # pieces that are written before they are sent
AT_ONCE = 2  # exports


@dataclass(frozen=True, slots=True)
class LedgerFile:
    """A file on its way."""

    name: str
    kind: str
    content: AsyncIterator[bytes]


class LedgerFiles:
    """Exports of the ledger of a node."""

    def __init__(self, ledger: Path, name: str, log: Any) -> None:
        self._ledger, self._name, self._log = ledger, name, log
        self._open = 0

    async def export(self, kind: str, peer: str | None) -> LedgerFile:
        """All that the ledger holds, or what it holds of one peer."""
        if kind not in KINDS:
            raise InvalidInput(f"`format` must be one of {', '.join(KINDS)}; got {kind[:100]!r}.")
        if self._open >= AT_ONCE:
            raise TooMuch(f"The page gives away at most {AT_ONCE} exports at a time; this is one more.")
        suffix, media, write = KINDS[kind]
        pieces = self._pieces(write, peer)
        first = await anext(pieces)  # what is wrong with the ledger is told before anything is sent
        about = [self._name, *(["with", peer] if peer else []), f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"]
        name = re.sub(r"[^A-Za-z0-9._-]", "_", "-".join(about))
        return LedgerFile(f"ledger-{name}.{suffix}", media, _continue(first, pieces))

    async def _pieces(self, write: Writer, peer: str | None) -> AsyncGenerator[bytes, None]:
        """What a thread of its own writes, piece by piece: a connection to a ledger stays with its thread."""
        loop, waiting = asyncio.get_running_loop(), asyncio.Queue[bytes | Exception | None](AHEAD)
        over = False

        def put(piece: bytes | Exception | None) -> None:
            if over:
                raise CancelledError
            asyncio.run_coroutine_threadsafe(waiting.put(piece), loop).result()

        def work() -> None:
            try:
                with read_ledger(self._ledger, self._name) as content:
                    out = _Pieces(put)
                    write(content, out, peer)
                    out.flush()
                put(None)
            except CancelledError:  # who wanted it has gone
                return
            except Exception as error:
                with suppress(CancelledError):
                    put(error)

        self._open += 1
        try:
            Thread(target=work, name="export", daemon=True).start()
            while (piece := await waiting.get()) is not None:
                if isinstance(piece, Exception):
                    if not isinstance(piece, InvalidInput):
                        self._log.error("the ledger could not be exported", reason=str(piece))
                    raise piece
                yield piece
        finally:
            over = True
            self._open -= 1
            while not waiting.empty():  # the thread may wait for room
                waiting.get_nowait()


async def _continue(first: bytes, rest: AsyncGenerator[bytes, None]) -> AsyncIterator[bytes]:
    async with aclosing(rest):
        yield first
        async for piece in rest:
            yield piece


class _Pieces(io.StringIO):
    """A text file whose content is handed on in pieces."""

    def __init__(self, put: Callable[[bytes], None]) -> None:
        super().__init__()
        self._put, self._parts, self._size = put, list[str](), 0

    def write(self, text: str) -> int:
        self._parts.append(text)
        self._size += len(text)
        if self._size >= PIECE:
            self.flush()
        return len(text)

    def flush(self) -> None:
        if self._parts:
            self._put("".join(self._parts).encode())
            self._parts, self._size = [], 0
