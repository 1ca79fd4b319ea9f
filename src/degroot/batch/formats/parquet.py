"""Parquet files."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from degroot.batch.formats.cursor import Cursor
from degroot.batch.shards import Shard, runs

BUFFER = 1 << 20  # bytes of a column that are fetched at once: row groups may be larger than memory
BATCH = 1 << 14  # rows that are decoded at once


class ParquetFile:
    """An open Parquet file. Rows that follow on those read before are read at once; others from their row group on."""

    def __init__(self, path: Path) -> None:
        self._file = pyarrow.parquet.ParquetFile(
            path, buffer_size=BUFFER, pre_buffer=False, page_checksum_verification=True
        )
        self.schema: pa.Schema = self._file.schema_arrow
        self._cursor: Cursor | None = None

    def spans(self, size: int, names: Sequence[str]) -> Iterator[tuple[int, int, int]]:
        """Runs of at most `size` rows, fewer where these columns are large."""
        return runs(self._file.metadata.num_rows, self._bytes(names), size)

    def read(self, shard: Shard, names: Sequence[str], _text: Sequence[str] = ()) -> pa.Table:
        """These columns of a shard."""
        group = bisect_right(self._starts, shard.first) - 1
        if self._cursor is None or not self._starts[group] <= self._cursor.at <= shard.first:
            self._cursor = self._opened(group, names)  # row groups between are not decoded
        return self._cursor.take(shard.first, shard.rows)

    def _bytes(self, names: Sequence[str]) -> int:
        """What these columns take in all."""
        metadata = self._file.metadata
        groups = [metadata.row_group(k) for k in range(metadata.num_row_groups)]
        columns = [group.column(k) for group in groups for k in range(group.num_columns)]
        wanted = [column for column in columns if column.path_in_schema.partition(".")[0] in names]
        return int(sum(column.total_uncompressed_size for column in wanted))

    @cached_property
    def _starts(self) -> list[int]:
        """The first row of each row group, and the end."""
        metadata = self._file.metadata
        return list(accumulate((metadata.row_group(k).num_rows for k in range(metadata.num_row_groups)), initial=0))

    def _opened(self, group: int, names: Sequence[str]) -> Cursor:
        groups = range(group, self._file.metadata.num_row_groups)
        batches = self._file.iter_batches(BATCH, row_groups=groups, columns=list(names), use_threads=False)
        return Cursor(batches, self._starts[group], pa.schema([self.schema.field(name) for name in names]))
