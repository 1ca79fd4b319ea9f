"""Cursors: batches that come one after the other, cut into the runs of rows that are asked for."""

from collections.abc import Iterator

import pyarrow as pa


class Cursor:
    """A place in a stream of batches, which moves forward only."""

    def __init__(self, batches: Iterator[pa.RecordBatch], at: int, schema: pa.Schema) -> None:
        self.at = at  # the row that comes next
        self._batches, self._schema = batches, schema
        self._rest: pa.RecordBatch | None = None  # of a batch that was cut

    def take(self, first: int, rows: int) -> pa.Table:
        """The rows from `first` on; those before it are passed over."""
        while self.at < first:
            self._next(first - self.at)
        batches = []
        while self.at < first + rows:
            batches.append(self._next(first + rows - self.at))
        return pa.Table.from_batches(batches, self._schema)

    def _next(self, most: int) -> pa.RecordBatch:
        """The rows up to the end of a batch, `most` at most."""
        batch = self._rest if self._rest is not None else self._fetched()
        self._rest = batch.slice(most) if batch.num_rows > most else None
        self.at += min(most, batch.num_rows)
        return batch.slice(0, most)

    def _fetched(self) -> pa.RecordBatch:
        batch = next(self._batches, None)
        if batch is None:
            raise ValueError(f"it ends after row {self.at}")
        return batch
