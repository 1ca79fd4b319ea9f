"""The engine for one machine: threads, each with a shard at a time."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

import pyarrow as pa
from threadpoolctl import threadpool_limits

from degroot.answers.answer import Consensus
from degroot.batch.formats import Source, opened, readable
from degroot.batch.shards import Shard
from degroot.batch.task import Consult, Task
from degroot.compute.compiled import Array


class ShardEngine(Protocol):
    """Whoever answers shards."""

    def answers(self, shards: Iterable[Shard], task: Task) -> Iterator[tuple[Shard, pa.RecordBatch]]:
        """Every shard with its answers, in any order; only a few shards are taken ahead of what has been fetched."""


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
            return self._source.read(shard, self._task.names, self._task.text)


class Local:
    """Threads that read and answer shards.

    Parameters
    ----------
    consult : as `Collective.consult`
        It is called from several threads, and should use one thread itself.
    jobs : how many threads
    """

    def __init__(self, consult: Consult, jobs: int) -> None:
        self.consult, self.jobs = consult, jobs

    def answers(self, shards: Iterable[Shard], task: Task) -> Iterator[tuple[Shard, pa.RecordBatch]]:
        """Every shard with its answers, about in order; two for each thread are under way."""
        reader, coming, turn, consult = Reader(task), iter(shards), Lock(), _first_alone(self.consult)

        def answered() -> tuple[Shard, pa.RecordBatch] | None:
            with turn:  # in order: rows that follow on each other are read at once
                shard = next(coming, None)
                if shard is None:
                    return None
                table = reader.read(shard)
            return shard, task.answer(shard, table, consult)

        with threadpool_limits(1), ThreadPoolExecutor(self.jobs, initializer=_alone) as pool:
            waiting = deque(pool.submit(answered) for _ in range(2 * self.jobs))
            try:
                while waiting:
                    found = waiting.popleft().result()
                    if found is not None:
                        waiting.append(pool.submit(answered))
                        yield found
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise


def _first_alone(consult: Callable[..., Consensus]) -> Consult:
    """The same, but all wait until one row has been answered: what the first question makes is made once."""
    turn, ready = Lock(), False

    def consult_in_turn(X: Array, fields: list[str], /, **about: Any) -> Consensus:
        nonlocal ready
        with turn:
            if not ready:
                consult(X[:1], fields, **{name: each[:1] for name, each in about.items()})
                ready = True
        return consult(X, fields, **about)

    return consult_in_turn


def _alone() -> None:
    """The models shall not start threads of their own: all cores are at work already."""
    threadpool_limits(1)
