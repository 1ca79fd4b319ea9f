"""File formats of tables, CSV, Parquet and Arrow: their columns and their shards.
Imports batch, files, compute and exceptions only."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from degroot.batch.formats.arrow import ArrowFile
from degroot.batch.formats.csv import CsvFile
from degroot.batch.formats.parquet import ParquetFile
from degroot.batch.shards import Shard
from degroot.exceptions import InvalidInput, describe_error
from degroot.files.columns import ARROW, PARQUET


class Source(Protocol):
    """An open file of rows."""

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns; in a file of text all are text."""

    def spans(self, size: int, names: Sequence[str], /) -> Iterator[tuple[int, int, int]]:
        """Runs of at most `size` rows, of which these columns are read: how many, and their bytes in a file of text."""

    def read(self, shard: Shard, names: Sequence[str], text: Sequence[str], /) -> pa.Table:
        """These columns of a shard; those in `text` as they are written in a file of text."""


OPENERS: dict[str, Callable[[Path], Source]] = {
    ".csv": CsvFile, **dict.fromkeys(PARQUET, ParquetFile), **dict.fromkeys(ARROW, ArrowFile),
}  # fmt: skip
SUFFIXES = tuple(OPENERS)


def opened(path: Path) -> Source:
    """The file, by its suffix."""
    with readable(path):
        return OPENERS[path.suffix.lower()](path)


@contextmanager
def readable(path: Path, what: str | None = None) -> Iterator[None]:
    """Whatever goes wrong with a file is one clear line; `what`: the part of it that is read."""
    try:
        yield
    except InvalidInput:
        raise
    except OSError as error:
        reason = error.strerror or describe_error(error)
        raise InvalidInput(f"The input must be files that can be read; {what or path}: {reason}.") from error
    except (pa.ArrowException, ValueError) as error:
        kind = path.suffix.lower()
        raise InvalidInput(f"The input must be whole {kind} files; {what or path}: {describe_error(error)}.") from error
