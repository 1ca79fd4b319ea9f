"""Arrow files: the IPC file format, which is Feather's too, and the stream format."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc

from degroot.batch.formats.cursor import Cursor
from degroot.batch.shards import Shard, runs

MAGIC = b"ARROW1"  # how a file begins that is no stream


class ArrowFile:
    """An open Arrow file, mapped into memory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with path.open("rb") as file:
            self._stream = file.read(len(MAGIC)) != MAGIC
        self.schema: pa.Schema = self._reader(None).schema
        self._cursor: Cursor | None = None

    def spans(self, size: int, names: Sequence[str]) -> Iterator[tuple[int, int, int]]:
        """Runs of at most `size` rows, fewer where these columns are large; compressed ones are read for that."""
        rows = held = 0
        for batch in self._batches(names):
            rows, held = rows + batch.num_rows, held + batch.nbytes
        return runs(rows, held, size)

    def read(self, shard: Shard, names: Sequence[str], _text: Sequence[str] = ()) -> pa.Table:
        """These columns of a shard."""
        if self._cursor is None or self._cursor.at > shard.first:
            schema = pa.schema([self.schema.field(name) for name in names])
            self._cursor = Cursor(self._batches(names), 0, schema)
        return self._cursor.take(shard.first, shard.rows)

    def _batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        reader = self._reader(names)
        batches = reader if self._stream else (reader.get_batch(k) for k in range(reader.num_record_batches))
        return (batch.select(list(names)) for batch in batches)

    def _reader(self, names: Sequence[str] | None) -> pa.ipc.RecordBatchReader:
        places = None if names is None else sorted(self.schema.get_field_index(name) for name in names)
        options = pyarrow.ipc.IpcReadOptions(
            use_threads=False, **({} if places is None else {"included_fields": places})
        )
        opener = pyarrow.ipc.open_stream if self._stream else pyarrow.ipc.open_file
        return opener(pa.memory_map(str(self._path)), options=options)
