"""Shards: runs of rows of the input files, small enough to be held at once, that anybody can read again."""

from dataclasses import dataclass

ROWS = 1 << 16  # of a shard, at most


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
