"""The ledger's journal: the newest exchanges, a line each, until they are moved into the ledger's database.

A line is appended with one system call and survives the end of the process, as a commit of SQLite does, for a fifth of
its cost: a node writes one before every message that it sends.
"""

import errno
import os
from pathlib import Path

Entry = tuple[int, float, str, str, str, int, int, int]
"""One exchange, as a row of the table `exchanges`: number, seconds since 1970, peer, kind, direction, how many rows,
bytes sent and bytes received."""

FIELD_TYPES = (int, float, str, str, str, int, int, int)


class Journal:
    """A file to which entries are appended; its one writer is the ledger."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(self._file).st_size

    def append(self, lines: str) -> None:
        """Write lines, all of them or, if that raises OSError, none."""
        content = lines.encode()
        written = os.write(self._file, content)
        if written < len(content):
            os.ftruncate(self._file, self._size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._size += written

    def clear(self) -> None:
        """Forget all entries."""
        os.ftruncate(self._file, 0)
        self._size = 0

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def read_journal(path: Path) -> list[Entry]:
    """The entries in a journal; a file that is not there has none.

    What follows a line that is damaged, as the last ones can be after a loss of power, is not read.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    entries: list[Entry] = []
    for line in content.split(b"\n")[:-1]:
        try:
            fields = [kind(text) for kind, text in zip(FIELD_TYPES, line.decode().split("\t"), strict=True)]
        except ValueError:
            break
        entries.append(tuple(fields))
    return entries
