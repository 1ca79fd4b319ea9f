"""The ledger's journal: the newest exchanges of a running node, a line each, until they are moved into its database.

A line is appended with one system call and survives the end of the process, as a commit of SQLite does, for a fifth of
its cost: a node writes one before every message that it sends.
"""

import errno
import os
from contextlib import suppress
from pathlib import Path

Entry = tuple[int, float, str, str, str, int, int, int]
"""One exchange: its number, which rises by 1, seconds since 1970, peer, kind, direction, how many rows, bytes sent and
bytes received."""


class Journal:
    """A file to which lines are appended; its one writer is the ledger of the node that runs."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(self._file).st_size

    def append(self, lines: str) -> None:
        """Write lines, all of them or, if that raises OSError, none."""
        content = lines.encode()
        written = os.write(self._file, content)
        if written < len(content):
            os.ftruncate(self._file, self._size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._size += written

    def read(self) -> list[Entry]:
        """All entries."""
        return parse_entries(os.pread(self._file, os.fstat(self._file).st_size, 0))

    def clear(self) -> None:
        """Forget all entries."""
        os.ftruncate(self._file, 0)
        self._size = 0

    def close(self) -> None:
        """Close the file; nothing can be written any more."""
        os.close(self._file)
        self._file = -1


def read_journal(path: Path) -> list[Entry]:
    """The entries in a journal; a file that is not there has none."""
    with suppress(FileNotFoundError):
        return parse_entries(path.read_bytes())
    return []


def parse_entries(content: bytes) -> list[Entry]:
    """The entries in the lines of a journal. Lines that are damaged, as by a loss of power, are left out."""
    entries: list[Entry] = []
    for line in content.split(b"\n")[:-1]:
        with suppress(ValueError):
            number, at, peer, kind, direction, *counts = line.decode().split("\t")
            rows, sent, received = map(int, counts)
            entries.append((int(number), float(at), peer, kind, direction, rows, sent, received))
    return entries
