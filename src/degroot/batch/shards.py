"""Shards: runs of rows of the input files, small enough to be held at once, that anybody can read again."""

from collections.abc import Iterator
from dataclasses import dataclass

ROWS = 1 << 16  # of a shard, at most
BYTES = 1 << 25  # of a shard, about


@dataclass(frozen=True, slots=True)
class Shard:
    """Consecutive rows of one file."""

    number: int  # among all shards of the input, from 0
    file: str
    first: int  # its first row in the file, from 0
    rows: int
    start: int = 0  # where its bytes lie, in a file of text
    stop: int = 0

    def row(self, k: int) -> str:
        """How people call its row `k`: data rows count from 1 in each file."""
        return f"row {self.first + k + 1} of {self.file}"

    def __str__(self) -> str:
        return f"rows {self.first + 1} to {self.first + self.rows} of {self.file}"


def runs(rows: int, held: int, size: int) -> Iterator[tuple[int, int, int]]:
    """Runs of at most `size` of so many rows, which hold so many bytes in all: fewer rows where they are large.

    Examples
    --------
    >>> [rows for rows, *_ in runs(10, 80, 4)], [rows for rows, *_ in runs(5, 3 * BYTES, 4)]
    ([4, 4, 2], [1, 1, 1, 1, 1])
    """
    size = max(1, min(size, rows * BYTES // max(1, held)))
    return ((min(size, rows - first), 0, 0) for first in range(0, rows, size))
