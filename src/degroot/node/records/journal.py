"""The ledger's journal: the newest exchanges of a running node, a line each, until they are moved into its database.

A line is appended with one system call and survives the end of the process, as a commit of SQLite does, for a fifth of
its cost: a node writes one before every message that it sends.
"""

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

DIRECTIONS = ("in", "out")  # they called us; we called them
LARGEST_COUNT = 1 << 62  # that SQLite can add up
LATEST = 253_402_300_799.0  # seconds since 1970, at the end of the year 9999

Entry = tuple[int, float, str, str, str, int, int, int]
"""One exchange: its number, which rises by 1, seconds since 1970, peer, kind, direction, how many rows, bytes sent and
bytes received."""


class Journal:
    """A file to which lines are appended; its one writer is the ledger of the node that runs."""

    def __init__(self, path: Path) -> None:
        self._path, self._file = path, _open(path)
        self._size = os.fstat(self._file).st_size

    def append(self, lines: str) -> None:
        """Write lines, all of them or, if that raises OSError, none."""
        content = lines.encode()
        written = os.write(self._file, content)
        if written < len(content):
            os.ftruncate(self._file, self._size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._size += written

    def read(self) -> "JournalContent":
        """All that is in it."""
        return parse_lines(os.pread(self._file, os.fstat(self._file).st_size, 0))

    def clear(self) -> None:
        """Forget all entries. A file that somebody has deleted or replaced meanwhile is made anew."""
        os.ftruncate(self._file, 0)
        self._size = 0
        if not self._is_in_place():
            new = _open(self._path)
            os.close(self._file)
            self._file = new
            os.ftruncate(new, 0)  # what somebody has put there is not this ledger's

    def close(self) -> None:
        """Close the file; nothing can be written any more."""
        os.close(self._file)
        self._file = -1

    def _is_in_place(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._file), self._path.stat())
        except FileNotFoundError:
            return False


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


class JournalContent(NamedTuple):
    """What a journal holds. Lines can be damaged by a loss of power, or by hand."""

    entries: list[Entry]
    damaged: list[bytes]  # lines that are no entries


def read_journal(path: Path) -> JournalContent:
    """What a journal holds; a file that is not there holds nothing."""
    with suppress(FileNotFoundError):
        return parse_lines(path.read_bytes())
    return JournalContent([], [])


def parse_lines(content: bytes) -> JournalContent:
    r"""The entries in the lines of a journal, and the lines that are none.

    Examples
    --------
    >>> parse_lines(b"7\t1700000000.5\tsouth\tdescribe\tin\t0\t120\t80\n8\t17000")
    JournalContent(entries=[(7, 1700000000.5, 'south', 'describe', 'in', 0, 120, 80)], damaged=[b'8\t17000'])
    """
    found = JournalContent([], [])
    *lines, torn = content.split(b"\n")
    for line in lines:
        entry = _parse_entry(line)
        if entry is None:
            found.damaged.append(line)
        else:
            found.entries.append(entry)
    if torn:
        found.damaged.append(torn)
    return found


def _parse_entry(line: bytes) -> Entry | None:
    try:
        number, at, peer, kind, direction, *counts = line.decode().split("\t")
        rows, sent, received = map(int, counts)
        entry = int(number), float(at), peer, kind, direction, rows, sent, received
    except ValueError:
        return None
    in_range = all(0 <= count <= LARGEST_COUNT for count in (entry[0], rows, sent, received))
    return entry if in_range and 0.0 <= entry[1] <= LATEST and direction in DIRECTIONS else None
