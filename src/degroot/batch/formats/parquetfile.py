"""Parquet files."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from degroot.batch.formats.cursor import Cursor
from degroot.batch.shards import Shard

BUFFER = 1 << 20  # bytes of a column that are fetched at once: row groups may be larger than memory
BATCH = 1 << 14  # rows that are decoded at once


class ParquetFile:
    """An open Parquet file. Rows that follow on those read before are read at once; others from their row group on."""

    def __init__(self, path: Path) -> None:
        self._file = pyarrow.parquet.ParquetFile(path, buffer_size=BUFFER, pre_buffer=False)
        self.schema: pa.Schema = self._file.schema_arrow
        self._cursor: Cursor | None = None

    def spans(self, size: int) -> Iterator[tuple[int, int, int]]:
        """Runs of at most `size` rows."""
        rows = self._file.metadata.num_rows
        return ((min(size, rows - first), 0, 0) for first in range(0, rows, size))

    def read(self, shard: Shard, names: Sequence[str], _text: Sequence[str] = ()) -> pa.Table:
        """These columns of a shard."""
        if self._cursor is None or self._cursor.at > shard.first:
            self._cursor = self._opened(shard.first, names)
        return self._cursor.take(shard.first, shard.rows)

    def _opened(self, first: int, names: Sequence[str]) -> Cursor:
        metadata, at, group = self._file.metadata, 0, 0
        while at + metadata.row_group(group).num_rows <= first:
            at, group = at + metadata.row_group(group).num_rows, group + 1
        groups = range(group, metadata.num_row_groups)
        batches = self._file.iter_batches(BATCH, row_groups=groups, columns=list(names), use_threads=False)
        return Cursor(batches, at, pa.schema([self.schema.field(name) for name in names]))
