"""The engine for clusters: shards are streamed through Ray Data to callers, who put them to the agents' actors."""

import logging
import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, redirect_stdout
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from degroot.batch.reader import Reader
from degroot.batch.shards import Shard
from degroot.batch.task import Consult, Task
from degroot.cluster import Assembly, Ray
from degroot.collective import Collective
from degroot.exceptions import DeGrootError, InvalidInput


class Cluster:
    """Callers on a Ray cluster, each with a shard at a time.

    Use it in a ``with`` statement: Ray is joined or started at its beginning, and left or ended at its end.

    Parameters
    ----------
    collective : Collective
        Its agents become actors. Those that are in files are opened there again, each in its own process.
    address : str, optional
        Of the cluster; without one, as `Ray` says.
    jobs : int, optional
        How many callers at most; by default as many as the cluster has cores for.
    """

    def __init__(self, collective: Collective, address: str | None = None, jobs: int | None = None) -> None:
        self.collective, self.jobs, self.ray = collective, jobs, Ray(address)
        self.assembly: Assembly | None = None
        self.open = ExitStack()

    def __enter__(self) -> "Cluster":
        with ExitStack() as opening:
            opening.enter_context(redirect_stdout(sys.stderr))  # Ray tells there of processes that ended
            opening.enter_context(self.ray)
            self.open = opening.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        if self.assembly is not None:
            self.assembly.close()
        self.open.close()

    @property
    def consult(self) -> Consult:
        """What callers ask; they use one thread each."""
        if self.assembly is None:
            asked = self.collective
            self.assembly = self.ray.panel(
                asked.agents, asked.judges, asked.option, asked.peers, guarded=asked.guarded
            ).with_jobs(1)
        return self.assembly.consult

    def answers(self, shards: Iterable[Shard], task: Task) -> Iterator[tuple[Shard, pa.RecordBatch]]:
        """Every shard with its answers, as they come. Ray Data waits when answers are not fetched."""
        known = {shard.number: shard for shard in shards}
        if not known:
            return
        for block in self._stream(list(known.values()), task).iter_batches(
            batch_size=None, batch_format="pyarrow", prefetch_batches=0
        ):
            for number, answer, refusal in zip(*(block.column(name) for name in ANSWER.names), strict=True):
                if refusal.is_valid:
                    raise InvalidInput(refusal.as_py())
                yield known[number.as_py()], unpacked(answer)

    def _stream(self, shards: list[Shard], task: Task) -> Any:
        data = _ray_data()
        items = [asdict(shard) | {"file": os.path.abspath(shard.file)} for shard in shards]
        return data.from_items(items, override_num_blocks=len(items)).map_batches(
            answered,
            fn_args=(task, self.consult),
            batch_size=1,
            batch_format="pyarrow",
            compute=data.TaskPoolStrategy(size=self.jobs),
        )


def answered(items: pa.Table, task: Task, consult: Consult) -> pa.Table:
    """The answers to one shard, or why there are none; as a row of `ANSWER`."""
    (item,) = items.to_pylist()
    shard = Shard(**item)
    try:
        answer, refusal = packed(task.answer(shard, Reader(task).read(shard), consult)), None
    except DeGrootError as error:
        answer, refusal = pa.nulls(1, pa.large_binary()), str(error)
    return pa.table([pa.array([shard.number]), answer, pa.array([refusal], pa.string())], schema=ANSWER)


ANSWER = pa.schema([("number", pa.int64()), ("answer", pa.large_binary()), ("refusal", pa.string())])


def packed(batch: pa.RecordBatch) -> pa.Array:
    """A batch as a single entry, which Ray Data leaves whole."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    content = sink.getvalue()
    ends = pa.array([0, content.size], pa.int64()).buffers()[1]
    return pa.Array.from_buffers(pa.large_binary(), 1, [None, ends, content])


def unpacked(entry: pa.Scalar) -> pa.RecordBatch:
    """The batch that was packed."""
    with pa.ipc.open_stream(entry.as_buffer()) as stream:
        return stream.read_next_batch()


def _ray_data() -> Any:
    """Ray Data, quiet."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # its own settings are among those that it warns of
        from ray import data

        data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    return data
