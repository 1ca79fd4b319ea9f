"""Merging: finished parts, one after the other, into one file."""

import os
from pathlib import Path

import pyarrow as pa

from degroot.batch.outputs import writer
from degroot.batch.unfinished import Unfinished
from degroot.exceptions import DeGrootError
from degroot.folders import publish


class Merging:
    """A file in the folder of an unfinished run that takes the parts in order, as far as they are there."""

    def __init__(self, run: Unfinished, output: Path, schema: pa.Schema) -> None:
        self._run, self._output, self._next = run, output, 0
        self._file = run.folder / f"merged{output.suffix}"
        self._sink = self._file.open("wb")
        self._writer = writer(output.suffix, schema, self._sink)

    def __enter__(self) -> "Merging":
        return self

    def __exit__(self, *_: object) -> None:
        if not self._sink.closed:
            with open(os.devnull, "wb") as nowhere:
                os.dup2(nowhere.fileno(), self._sink.fileno())  # what writers write last, which might not fit on disk
            self._writer.close()
            self._sink.close()

    def advance(self, most: int) -> None:
        """Take the next parts, as far as they are there."""
        for _ in range(most):
            if self._next not in self._run.bad:
                return
            self._writer.write_batch(self._run.part(self._next))
            self._next += 1

    def finish(self, count: int) -> None:
        """Take what is left of `count` parts, and give the file its name."""
        self.advance(count)
        if self._next != count:
            raise DeGrootError(f"The engine must answer all shards; number {self._next} of {count} was not answered.")
        self._writer.close()
        self._sink.close()
        publish(self._file, self._output)
