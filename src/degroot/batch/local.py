"""The engine for one machine: threads, each with a shard at a time."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any, Protocol, TypeAlias

import pyarrow as pa
from threadpoolctl import threadpool_limits

from degroot.answers.answer import Consensus
from degroot.batch.formats import Source, opened, readable
from degroot.batch.shards import Shard
from degroot.batch.task import Consult, Task
from degroot.compute.compiled import Array

EndStartUp: TypeAlias = Callable[[], None]


class ShardEngine(Protocol):
    """Whoever answers shards."""

    def answers(
        self, shards: Iterable[Shard], task: Task, end_start_up: EndStartUp
    ) -> Iterator[tuple[Shard, pa.RecordBatch]]:
        """Every shard with its answers, in any order; only a few shards are taken ahead of what has been fetched.

        `end_start_up` is called, from any thread, once all is made that is made once: from then on the work counts. An
        engine that cannot tell does not call it.
        """


class Reader:
    """Reads what a task needs of shards. One after the other is quickest; any order will do.

    Parameters
    ----------
    task : Task
    folder : where paths begin; by default where this process runs
    """

    def __init__(self, task: Task, folder: str = "") -> None:
        self._task, self._folder = task, folder
        self._file: str | None = None
        self._source: Source | None = None

    def read(self, shard: Shard) -> pa.Table:
        """The columns of the task, for the rows of a shard."""
        path = Path(self._folder, shard.file)
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

    def answers(
        self, shards: Iterable[Shard], task: Task, end_start_up: EndStartUp
    ) -> Iterator[tuple[Shard, pa.RecordBatch]]:
        """Every shard with its answers, about in order; two for each thread are under way."""
        reader, coming, turn, consult = Reader(task), iter(shards), Lock(), _first_alone(self.consult, end_start_up)

        def answered() -> tuple[Shard, pa.RecordBatch] | None:
            with turn:  # in order: rows that follow on each other are read at once
                shard = next(coming, None)
                if shard is None:
                    return None
                table = reader.read(shard)
            return shard, task.answer(shard, table, consult)

        with threadpool_limits(1), ThreadPoolExecutor(self.jobs, initializer=use_one_thread) as pool:
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


def _first_alone(consult: Callable[..., Consensus], end_start_up: EndStartUp) -> Consult:
    """The same, but all wait until one row has been answered: what the first question makes is made once."""
    turn, ready = Lock(), False

    def consult_in_turn(X: Array, fields: list[str], /, **about: Any) -> Consensus:
        nonlocal ready
        with turn:
            if not ready:
                consult(X[:1], fields, **{name: each[:1] for name, each in about.items()})
                ready = True
                end_start_up()
        return consult(X, fields, **about)

    return consult_in_turn


def use_one_thread() -> None:
    """Keep models from starting threads of their own, where all cores are at work already."""
    threadpool_limits(1)
