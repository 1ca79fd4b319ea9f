"""The engine for clusters: workers, which are processes of Ray, read shards and answer them.

Each worker has a copy of the collective, or asks the agents, which are actors of their own.
"""

import os
import pickle
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, redirect_stdout
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from degroot import saved
from degroot.agents.abstention import ColumnMask
from degroot.answers.answer import FIELDS
from degroot.batch.local import EndStartUp, Reader, use_one_thread
from degroot.batch.shards import Shard
from degroot.batch.task import Consult, Task, consult_in_form_of
from degroot.cluster import Ray
from degroot.cluster.actor import VERSION
from degroot.cluster.errors import convert_error
from degroot.cluster.ray import check_version, end_actors, start_actors
from degroot.collective import Collective
from degroot.compute.tables import take
from degroot.consultation.settings import AGENTS
from degroot.exceptions import DeGrootError, InvalidInput, describe_error

CLIENT = "ray://"  # by which no files can be read
AHEAD = 2  # shards at a worker: when it has answered one, the next is there
DEATHS = 4  # of workers over one shard, which then is given up


class Consulted(Protocol):
    """Whom a worker asks."""

    def open(self) -> Consult:
        """Get it ready in the worker's process."""


@dataclass(frozen=True, slots=True)
class SavedCollective:
    """A saved collective that each worker opens by itself: its files are mapped into memory, not read."""

    path: Path
    digest: str
    unsafe_pickle: bool
    prepared: bytes | None = None  # for intervals and askers, in a pickle: arrays in Ray's object store are read-only

    def __call__(self) -> Collective:
        """The collective, if it is the one that the command has opened."""
        from ray.util import get_node_ip_address

        try:
            if saved.digest(self.path) != self.digest:
                raise InvalidInput(f"{self.path} is another one.")
            collective = Collective.load(self.path, n_jobs=1, unsafe_pickle=self.unsafe_pickle)
        except (InvalidInput, OSError) as error:
            raise InvalidInput(
                "All workers must open the same collective as the command does, on storage that all machines share; "
                f"on {get_node_ip_address()}: {error}"  # type: ignore[no-untyped-call]
            ) from error
        if self.prepared is not None:
            collective._take_prepared(*pickle.loads(self.prepared))
        return collective


@dataclass(frozen=True, slots=True)
class SentCollective:
    """A collective that is sent to each worker."""

    pickled: bytes

    @classmethod
    def of(cls, collective: Collective) -> "SentCollective":
        """The collective, if it can be sent."""
        from ray import cloudpickle

        try:
            pickled: bytes = cloudpickle.dumps(collective)  # type: ignore[no-untyped-call]
        except Exception as error:  # whatever its models raise
            reason = describe_error(error).splitlines()[0]
            raise InvalidInput(f"A collective must be such that it can be sent to workers; {reason}.") from error
        return cls(pickled)

    def __call__(self) -> Collective:
        """The collective."""
        from ray import cloudpickle

        collective: Collective = cloudpickle.loads(self.pickled)
        return collective


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of the collective in each worker."""

    load: Callable[[], Collective]
    about: Mapping[str, Any]  # arguments of `Collective.consult`

    def open(self) -> Consult:
        """Load the collective."""
        collective = self.load()
        return consult_in_form_of(collective.agents, partial(collective.consult, **self.about))


@dataclass(frozen=True, slots=True)
class DistantAgents:
    """The agents' actors, which every worker asks."""

    consult: Consult

    def open(self) -> Consult:
        """What asks them."""
        return self.consult


@contextmanager
def copies_on_ray(
    collective: Collective,
    place: SavedCollective | None,
    about: Mapping[str, Any],
    address: str | None = None,
    jobs: int | None = None,
) -> Iterator["Workers"]:
    """Workers on a Ray cluster, or on a Ray that is started on this machine, each with a copy of the collective.

    Parameters
    ----------
    collective : Collective
        Calibrated, and with views, where that is needed.
    place : SavedCollective, optional
        Where it was saved; without, it is sent to the workers.
    about : how `Collective.consult` is called
    address : str, optional
        Of the cluster; without one, as `Ray` says.
    jobs : int, optional
        How many workers at most; by default as many as the cluster has cores.
    """
    with _joined(Ray(_check_address(address))) as ray:
        if place is None:
            load: Callable[[], Collective] = SentCollective.of(collective)
        else:
            load = replace(place, prepared=pickle.dumps(collective._list_prepared()))
        with _started(ray, Copy(load, about), jobs) as workers:
            yield workers


@contextmanager
def callers_on_ray(
    collective: Collective,
    address: str | None = None,
    jobs: int | None = None,
    fields: Iterable[str] = FIELDS,
    absent: ColumnMask = None,
) -> Iterator["Workers"]:
    """The agents as actors of a Ray cluster, and workers that ask them, for the neutral consensus.

    Parameters
    ----------
    collective : Collective
        Those of its agents that were saved are opened there again, each in its own process.
    address, jobs
        As for `copies_on_ray`.
    fields : names of fields of `Consensus`
        What will be asked; agents score each other's models only if that takes it.
    absent : (d,), optional
        Columns of the schema that the rows do not have.
    """
    panel = collective.panel
    scorers = () if panel.make_question(fields).neighbourhood is None else collective.scorers
    with (
        _joined(Ray(_check_address(address), placement=AGENTS)) as ray,
        closing(ray.start(collective.agents, scorers, panel)) as assembly,
    ):
        ask = partial(assembly.with_jobs(1).consult, absent=absent)
        with _started(ray, DistantAgents(consult_in_form_of(collective.agents, ask)), jobs) as workers:
            yield workers


@contextmanager
def agents_on_ray(
    collective: Collective, address: str | None = None, *, consensus: bool = True
) -> Iterator[Collective]:
    """The same collective with its agents as actors of a Ray cluster; views, and what is far, stay in this process.

    `consensus`: whether it will be asked too, so that the agents are started with their scores at once.
    """
    with _joined(Ray(address, placement=AGENTS)) as ray:
        there = copy(collective)
        there.engine, there._started = ray, None
        if consensus:
            there.predict(take(there.agents[0].X, slice(0, 1)))
        try:
            yield there
        finally:
            there._close_engine()


def _check_address(address: str | None) -> str | None:
    given = address or os.environ.get("RAY_ADDRESS", "")
    if given.startswith(CLIENT):
        raise InvalidInput(f'Files must be read on the cluster: its address must be "host:port"; got {given!r}.')
    return address


@contextmanager
def _joined(ray: Ray) -> Iterator[Ray]:
    """Join a cluster, or start a Ray on this machine; leave or end it at the end."""
    with redirect_stdout(sys.stderr), ray:  # Ray tells there of processes that ended
        yield ray


@contextmanager
def _started(ray: Ray, consulted: Consulted, jobs: int | None) -> Iterator["Workers"]:
    """Workers, as many as the cluster has cores but `jobs` at most, once one of them is ready."""
    from ray import put

    count = min(jobs or ray.cores, ray.cores)
    actors = start_actors(ShardWorker, count, os.getcwd(), cpus=1.0)
    try:
        workers = Workers(actors, [put(consulted)])
        workers.wait()
        yield workers
    finally:
        end_actors(actors)


class ShardWorker:
    """A process of Ray that reads shards and answers them, on one thread.

    If it had to start again it knows nothing any more: every call brings along what it takes, as references in lists,
    since Ray would fetch others each time.

    Parameters
    ----------
    folder : where paths of shards begin
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._consult: Consult | None = None
        self._known: tuple[Sequence[Any], Task, Reader] | None = None  # the task of which shards were last answered

    def prepare(self, version: str, consulted: Sequence[Any]) -> str:
        """The version of this package here; if it is the same, whom it asks is made ready."""
        if version == VERSION:
            self._open(consulted)
        return VERSION

    def answer(self, consulted: Sequence[Any], told: Sequence[Any], shard: Shard) -> pa.RecordBatch:
        """The answers to a shard, for the task that is `told`."""
        import ray

        if self._known is None or self._known[0] != told:
            (task,) = ray.get(list(told))
            self._known = told, task, Reader(task, self._folder)
        _, task, reader = self._known
        return task.answer(shard, reader.read(shard), self._open(consulted))

    def _open(self, consulted: Sequence[Any]) -> Consult:
        import ray

        if self._consult is None:
            (found,) = ray.get(list(consulted))
            self._consult = found.open()
            use_one_thread()
        return self._consult


class Workers:
    """Workers on a cluster, which answer shards. One that ends starts again, and its shards are answered anew.

    Parameters
    ----------
    actors : of `ShardWorker`
    consulted : a reference to whom they ask, a `Consulted`, in a list
    """

    def __init__(self, actors: Sequence[Any], consulted: Sequence[Any]) -> None:
        self.actors, self.consulted = actors, consulted

    def wait(self, count: int = 1) -> None:
        """Wait until so many of them are ready."""
        import ray

        done, _ = ray.wait([self._prepare(actor) for actor in self.actors], num_returns=count)
        for reference in done:
            _check_ready(reference)

    def answers(
        self, shards: Iterable[Shard], task: Task, end_start_up: EndStartUp
    ) -> Iterator[tuple[Shard, pa.RecordBatch]]:
        """Every shard with its answers, about in order; no more than `AHEAD` for each worker are under way."""
        import ray
        from ray.exceptions import ObjectLostError, RayActorError, RayError

        told, coming, again, deaths = [ray.put(task)], iter(shards), deque[Shard](), Counter[int]()
        starting = {self._prepare(actor): actor for actor in self.actors}
        free, under_way = deque[Any](), dict[Any, tuple[Any, Shard]]()  # a worker is free as often as it takes shards
        is_started = False
        while True:
            while free and (shard := again.popleft() if again else next(coming, None)) is not None:
                actor = free.popleft()
                under_way[actor.answer.remote(self.consulted, told, shard)] = actor, shard
            if not under_way and (free or not self.actors):
                return
            (reference,), _ = ray.wait([*under_way, *starting], num_returns=1)
            if reference in starting:
                _check_ready(reference)
                if not is_started:
                    is_started = True
                    end_start_up()
                free.extend([starting.pop(reference)] * AHEAD)
                continue
            actor, shard = under_way.pop(reference)
            try:
                answers = ray.get(reference)
            except (RayActorError, ObjectLostError) as error:
                again.append(shard)
                deaths[shard.number] += 1
                if deaths[shard.number] == DEATHS:
                    raise _describe_deaths(shard, error) from error
                free = deque(each for each in free if each is not actor)
                if not any(each is actor for each in starting.values()):
                    starting[self._prepare(actor)] = actor
            except RayError as error:
                raise convert_error(error) from error
            else:
                free.append(actor)
                yield shard, answers

    def _prepare(self, actor: Any) -> Any:
        """Have a worker get ready, as often as its process has to be started for that."""
        return actor.prepare.options(max_task_retries=-1).remote(VERSION, self.consulted)


def _check_ready(reference: Any) -> None:
    """Refuse a worker that cannot get ready, or has another version of this package."""
    import ray
    from ray.exceptions import RayError

    try:
        check_version(ray.get(reference), "a worker")
    except RayError as error:
        raise convert_error(error) from error


def _describe_deaths(shard: Shard, error: Exception) -> DeGrootError:
    """The error that the processes that work on a shard end again and again."""
    reason = describe_error(error).splitlines()[0].rstrip(".")
    return DeGrootError(f"A worker's process must answer {shard}; {DEATHS} of them ended over it: {reason}.")
