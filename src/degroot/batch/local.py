"""The engine for one machine: threads, each with a shard at a time."""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

import pyarrow as pa
from threadpoolctl import threadpool_limits

from degroot.answers import Consensus
from degroot.batch.reader import Reader
from degroot.batch.shards import Shard
from degroot.batch.task import Consult, Task
from degroot.points import Array


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


def _first_alone(consult: Consult) -> Consult:
    """The same, but all wait until one row has been answered: what the first question makes is made once."""
    turn, ready = Lock(), False

    def asked(X: Array, fields: list[str], /) -> Consensus:
        nonlocal ready
        with turn:
            if not ready:
                consult(X[:1], fields)
                ready = True
        return consult(X, fields)

    return asked


def _alone() -> None:
    """The models shall not start threads of their own: all cores are at work already."""
    threadpool_limits(1)
