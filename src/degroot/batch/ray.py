"""The engine for clusters: shards are streamed through Ray Data to callers, who put them to the agents' actors.

Ray Data bounds the bytes of answers that nobody has fetched yet, and not how many there are: shards go to it in waves.
"""

import logging
import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, redirect_stdout
from copy import copy
from dataclasses import asdict, replace
from functools import partial
from itertools import islice
from typing import Any

import pyarrow as pa

from degroot.agents.abstention import ColumnMask
from degroot.answers.answer import FIELDS
from degroot.batch.local import Reader
from degroot.batch.resume import pack_batch, unpack_batch
from degroot.batch.shards import Shard
from degroot.batch.task import Consult, Task, consult_in_form_of
from degroot.cluster import Ray
from degroot.collective import Collective
from degroot.compute.tables import take
from degroot.exceptions import DeGrootError, InvalidInput, describe_error

CLIENT = "ray://"  # by which Ray Data cannot be reached
WAVE = 16  # shards for each caller: a wave ends before the next one begins


@contextmanager
def on_ray(
    collective: Collective,
    address: str | None = None,
    jobs: int | None = None,
    fields: Iterable[str] = FIELDS,
    absent: ColumnMask = None,
) -> Iterator["Callers"]:
    """Join a Ray cluster, or start a Ray on this machine, and make the agents its actors; leave or end it at the end.

    Parameters
    ----------
    collective : Collective
        Those of its agents that are in files are opened there again, each in its own process.
    address : str, optional
        Of the cluster; without one, as `Ray` says.
    jobs : int, optional
        How many callers at most; by default as many as the cluster has cores.
    fields : names of fields of `Consensus`
        What will be asked; agents score each other's models only if that takes it.
    absent : (d,), optional
        Columns of the schema that the rows do not have.
    """
    given = address or os.environ.get("RAY_ADDRESS", "")
    if given.startswith(CLIENT):
        raise InvalidInput(f'Files must be read on the cluster: its address must be "host:port"; got {given!r}.')
    panel = collective.panel
    scorers = () if panel.make_question(fields).neighbourhood is None else collective.scorers
    with (
        redirect_stdout(sys.stderr),  # Ray tells there of processes that ended
        Ray(address) as ray,
        closing(ray.start(collective.agents, scorers, panel)) as assembly,
    ):
        ask = partial(assembly.with_jobs(1).consult, absent=absent)
        consult = consult_in_form_of(collective.agents, ask)
        yield Callers(consult, min(jobs or ray.cores, ray.cores))


@contextmanager
def agents_on_ray(
    collective: Collective, address: str | None = None, *, consensus: bool = True
) -> Iterator[Collective]:
    """The same collective with its agents as actors of a Ray cluster; views, and what is far, stay in this process.

    `consensus`: whether it will be asked too, so that the agents are started with their scores at once.
    """
    with redirect_stdout(sys.stderr), Ray(address) as ray:
        there = copy(collective)
        there.engine, there._started = ray, None
        if consensus:
            there.predict(take(there.agents[0].X, slice(0, 1)))
        try:
            yield there
        finally:
            there._close_engine()


class Callers:
    """Tasks on a Ray cluster that read a shard each and put it to the agents' actors.

    Parameters
    ----------
    consult : as `Assembly.consult`
    jobs : how many callers at a time
    """

    def __init__(self, consult: Consult, jobs: int) -> None:
        self.consult, self.jobs = consult, jobs

    def answers(self, shards: Iterable[Shard], task: Task) -> Iterator[tuple[Shard, pa.RecordBatch]]:
        """Every shard with its answers, as they come; no more than a wave of shards is taken ahead."""
        coming = iter(shards)
        while wave := {shard.number: shard for shard in islice(coming, WAVE * self.jobs)}:
            for block in self._blocks(list(wave.values()), task):
                for number, answer, refusal in zip(*(block.column(name) for name in ANSWER.names), strict=True):
                    if refusal.is_valid:
                        raise InvalidInput(refusal.as_py())
                    yield wave[number.as_py()], unpack_batch(answer.as_buffer())

    def _blocks(self, shards: list[Shard], task: Task) -> Iterator[pa.Table]:
        from ray.exceptions import RayError

        stream = self._stream(shards, task).iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0)
        try:
            yield from stream
        except RayError as error:
            raise DeGrootError(f"The cluster must answer; {describe_error(error).splitlines()[0]}.") from error

    def _stream(self, shards: list[Shard], task: Task) -> Any:
        data = _ray_data()
        return data.from_items([asdict(shard) for shard in shards], override_num_blocks=len(shards)).map_batches(
            answer_shard,
            fn_args=(task, self.consult, os.getcwd()),
            batch_size=1,
            batch_format="pyarrow",
            compute=data.TaskPoolStrategy(size=self.jobs),
        )


def answer_shard(items: pa.Table, task: Task, consult: Consult, folder: str) -> pa.Table:
    """The answers to one shard, whose path begins at `folder`, or why there are none; as a row of `ANSWER`."""
    (item,) = items.to_pylist()
    shard = Shard(**item)
    row: tuple[int, bytes | None, str | None]
    try:
        table = Reader(task).read(replace(shard, file=os.path.join(folder, shard.file)))
        row = shard.number, pack_batch(task.answer(shard, table, consult)).to_pybytes(), None
    except DeGrootError as error:
        row = shard.number, None, str(error)
    return pa.table([pa.array([entry], kind) for entry, kind in zip(row, ANSWER.types, strict=True)], schema=ANSWER)


ANSWER = pa.schema([("number", pa.int64()), ("answer", pa.large_binary()), ("refusal", pa.string())])


def _ray_data() -> Any:
    """Ray Data, quiet."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # its own settings are among those that it warns of
        from ray import data

        data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    return data
