"""Engines: whoever answers shards, on one machine or on many."""

from collections.abc import Iterable, Iterator
from typing import Protocol

import pyarrow as pa

from degroot.batch.shards import Shard
from degroot.batch.task import Task


class Engine(Protocol):
    """Whoever answers shards."""

    def answers(self, shards: Iterable[Shard], task: Task) -> Iterator[tuple[Shard, pa.RecordBatch]]:
        """Every shard with its answers, in any order; only a few shards are taken ahead of what has been fetched."""
