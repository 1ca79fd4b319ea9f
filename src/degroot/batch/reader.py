"""Readers: the rows of shards, from files that stay open while shards follow on each other."""

from pathlib import Path

import pyarrow as pa

from degroot.batch.formats import Source, opened, readable
from degroot.batch.shards import Shard
from degroot.batch.task import Task


class Reader:
    """Reads what a task needs of shards. One after the other is quickest; any order will do."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._file: str | None = None
        self._source: Source | None = None

    def read(self, shard: Shard) -> pa.Table:
        """The columns of the task, for the rows of a shard."""
        path = Path(shard.file)
        if self._source is None or self._file != shard.file:
            self._file, self._source = shard.file, opened(path)
        with readable(path, str(shard)):
            return self._source.read(shard, self._task.names, self._task.keep)
