"""Merging: finished parts, one after the other, into one file."""

from pathlib import Path
from types import TracebackType

import pyarrow as pa

from degroot.batch.outputs import publish, writer
from degroot.batch.unfinished import Unfinished


class Merging:
    """A file in the folder of an unfinished run that takes the parts in order, as far as they are there."""

    def __init__(self, run: Unfinished, output: Path, schema: pa.Schema) -> None:
        self._run, self._output, self._next = run, output, 0
        self._file = run.folder / f"merged{output.suffix}"
        self._sink = self._file.open("wb")
        self._writer = writer(output.suffix, schema, self._sink)

    def __enter__(self) -> "Merging":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: TracebackType | BaseException | None) -> None:
        self._sink.close()

    def advance(self) -> None:
        """Take the next part, if it is there."""
        if self._next in self._run.bad:
            self._writer.write_batch(self._run.part(self._next))
            self._next += 1

    def finish(self, count: int) -> None:
        """Take all `count` parts that are left, and give the file its name."""
        while self._next < count:
            self.advance()
        self._writer.close()
        self._sink.close()
        publish(self._file, self._output)
