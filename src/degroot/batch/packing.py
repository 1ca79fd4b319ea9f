"""Packing: record batches as bytes, to be sent or kept."""

import pyarrow as pa
import pyarrow.ipc


def packed(batch: pa.RecordBatch) -> pa.Buffer:
    """A batch as the bytes of an Arrow file."""
    sink = pa.BufferOutputStream()
    with pyarrow.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def unpacked(content: pa.Buffer | pa.NativeFile) -> pa.RecordBatch:
    """The batch that was packed."""
    return pyarrow.ipc.open_file(content).get_batch(0)
