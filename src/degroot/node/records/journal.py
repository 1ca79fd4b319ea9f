"""The ledger's journal: the newest records of a running node, a line each, until they are moved into its database.

A line is appended with one system call before a message is sent, so that it outlives the process. Many lines are
flushed to the disk at once, soon after: what a loss of power can take is the last moments.
"""

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from degroot.node.records.chain import Record, parse_line

MOVING = ".moving"  # after the name of a journal whose records are being moved into the database


class Journal:
    """A file to which lines are appended; its one writer is the ledger of the node that runs."""

    def __init__(self, path: Path) -> None:
        self.path, self._file = path, _open(path)
        self._folder, self._folder_stat = os.fspath(path.parent), path.parent.stat()
        self._size = os.fstat(self._file).st_size

    def append(self, lines: str) -> None:
        """Write lines, all of them or, if that raises OSError, none."""
        if not os.path.samestat(os.stat(self._folder), self._folder_stat):
            raise OSError(errno.ENOENT, "the folder is another one than when the ledger was opened")
        content = lines.encode()
        written = os.write(self._file, content)
        if written < len(content):
            os.ftruncate(self._file, self._size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._size += written

    def flush(self) -> None:
        """Wait until all that was written is on the disk."""
        os.fdatasync(self._file)

    def rotate(self) -> None:
        """Set the lines aside, and go on with an empty file. What was set aside before has to be gone."""
        if self._is_in_place():
            self.path.rename(rotated_path(self.path))
        new = _open(self.path)
        os.close(self._file)
        self._file, self._size = new, 0
        os.ftruncate(new, 0)  # what somebody has put there meanwhile is not this ledger's

    def forget_rotated(self) -> None:
        """Remove what was set aside: it is in the database."""
        rotated_path(self.path).unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file; nothing can be written any more."""
        os.close(self._file)
        self._file = -1

    def _is_in_place(self) -> bool:
        """Whether the file is still there, and nobody has deleted or replaced it."""
        try:
            return os.path.samestat(os.fstat(self._file), self.path.stat())
        except FileNotFoundError:
            return False


def rotated_path(path: Path) -> Path:
    """Where the lines of a journal are while they are moved into the database."""
    return path.with_name(path.name + MOVING)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


class JournalContent(NamedTuple):
    """What a journal holds. Lines can be damaged by a loss of power, or by hand."""

    records: list[Record]
    damaged: list[bytes]  # lines that are no records


def read_journal(path: Path) -> JournalContent:
    """What a journal holds, with what is being moved; a file that is not there holds nothing."""
    found = []
    for each in (path, rotated_path(path)):  # in this order: what is set aside meanwhile is then read twice, not never
        with suppress(FileNotFoundError):
            found.append(parse_lines(each.read_bytes()))
    records = {record.number: record for content in found for record in content.records}
    damaged = [line for content in found for line in content.damaged]
    return JournalContent([records[number] for number in sorted(records)], damaged)


def parse_lines(content: bytes) -> JournalContent:
    """The records in the lines of a journal, and the lines that are none."""
    found = JournalContent([], [])
    for line in content.split(b"\n"):
        record = parse_line(line)
        if record is not None:
            found.records.append(record)
        elif line:
            found.damaged.append(line)
    return found
