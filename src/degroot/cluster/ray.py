"""The engine of a Ray cluster, or of a Ray on this machine: start actors, and collect their opinions."""

import logging
import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, repeat
from typing import Any

from degroot.agents.abstention import ColumnMask
from degroot.agents.agent import Agent, Scorer
from degroot.answers.answer import FIELDS, Consensus, check_fields
from degroot.cluster.actor import VERSION, Actor, Source, find_saved, source_of
from degroot.cluster.address import check_reached, check_same, unreachable_error
from degroot.cluster.errors import fetch_answers
from degroot.compute.compiled import block_size, in_blocks
from degroot.compute.tables import take
from degroot.consultation.consult import Conclude, Opinion, Panel, Question, consult
from degroot.consultation.settings import AGENTS, PLACEMENTS, check_choice, choose_placement
from degroot.exceptions import InvalidInput

SAID_BYTES = 1 << 25  # of points, and of what all agents say of them, for one part
LEAST_POINTS = 64  # of a part
AHEAD = 1  # parts that actors work on while the one before is concluded
PARTS_EACH = 4  # of the points for each worker, at least: they need not be equally fast
INSTRUCTION = "Ray needs extra packages: pip install 'degroot[ray]'"
START_ATTEMPTS = 4  # Ray gives its own processes 30 seconds to start, of which a busy machine may need more
START_TIMED_OUT = "timed out during startup"  # how Ray says so
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_IGNORE_UNHANDLED_ERRORS": "1",  # errors are told once, by whoever asked
    "RAY_worker_niceness": "0",  # as for threads of the asking process; Ray lets all other processes go first
}
RETRIES = 30  # of one question, where the process that works on it ends: a dead machine is found out after some of them


@dataclass(frozen=True, slots=True)
class Assembly:
    """Agents that answer from other processes, an `Engine`. It can itself be sent to other processes."""

    actors: tuple[Any, ...]
    sources: tuple[Source, ...]  # what gives each agent
    apart: bool  # whether each actor has one agent, in order; otherwise each has all
    panel: Panel
    scored: bool  # whether they can be asked for more than predictions
    n_jobs: int | None

    def consult(self, X: Any, fields: Sequence[str] | str = FIELDS, *, absent: ColumnMask = None) -> Consensus:
        """The collective prediction for the points `X`, with what lies behind it; they lack the columns `absent`."""
        known = consult(self, self.panel, X, check_fields(fields, FIELDS), absent=absent)
        return Consensus(self.panel.names, **known, peers=self.panel.peers)

    def collect(self, X: Any, question: Question, conclude: Conclude) -> None:
        """Let the actors give their opinions part by part, and take in each part while they work on the next."""
        if question.neighbourhood is not None and not self.scored:
            raise InvalidInput("Agents must have scored each other's models for these fields; they have not.")
        for part, opinions in self._opinions(X, question):
            self._conclude(part, opinions, question, conclude)

    def with_jobs(self, n_jobs: int) -> "Assembly":
        """The same agents; whoever asks them uses so many threads."""
        return replace(self, n_jobs=n_jobs)

    def close(self) -> None:
        """End the agents' processes."""
        end_actors(self.actors)

    def _conclude(self, part: slice, opinions: Sequence[Opinion], question: Question, conclude: Conclude) -> None:
        """Hand on the opinions of a part, block by block on several threads."""
        M, K = part.stop - part.start, len(opinions)

        def block(start: int, stop: int) -> None:
            conclude(slice(part.start + start, part.start + stop), [each.part(slice(start, stop)) for each in opinions])

        floats = K * question.floats(K, self.panel.outputs or 1, self.panel.n_scored)
        in_blocks(block, M, block_size(M, floats, self.n_jobs), self.n_jobs)

    def _opinions(self, X: Any, question: Question) -> Iterator[tuple[slice, list[Opinion]]]:
        """What all agents say of one part of the points after the other."""
        under_way: deque[tuple[slice, list[Any]]] = deque()
        groups = cycle([list(self._members)] if self.apart else [[each] for each in self._members])
        ahead = AHEAD if self.apart else AHEAD * len(self.actors)
        for part, members in zip(self._parts(X, question), groups, strict=False):
            under_way.append((part, _ask(members, take(X, part), question)))
            if len(under_way) > ahead:
                yield self._fetch(*under_way.popleft())
        while under_way:
            yield self._fetch(*under_way.popleft())

    @property
    def _members(self) -> Iterator[tuple[Any, tuple[Source, ...]]]:
        """The actors, each with what gives its agents."""
        return zip(
            self.actors, [(each,) for each in self.sources] if self.apart else repeat(self.sources), strict=False
        )

    def _fetch(self, part: slice, references: Sequence[Any]) -> tuple[slice, list[Opinion]]:
        """What all agents say of a part, once the actors that were asked have answered."""
        said = fetch_answers(references, self.panel.names if self.apart else [None])
        return part, [opinion for each in said for opinion in each]

    def _parts(self, X: Any, question: Question) -> list[slice]:
        """Parts of X small enough to hold what all agents say of them, and so many that all workers have some."""
        M, K, Q = X.shape[0], len(self.sources), self.panel.outputs or 1
        floats = X.shape[1] + K * question.floats(K, Q, self.panel.n_scored)
        step = SAID_BYTES // (8 * floats)
        if not self.apart:
            step = min(step, -(-M // (PARTS_EACH * len(self.actors))))
        step = max(LEAST_POINTS, step)
        return [slice(start, min(start + step, M)) for start in range(0, M, step)]


def _ask(members: Iterable[tuple[Any, tuple[Source, ...]]], X: Any, question: Question) -> list[Any]:
    """Put points to actors; they are stored once, for all to read."""
    import ray

    points = ray.put(X)
    return [actor.give_opinions.remote(sources, points, question) for actor, sources in members]


def start_actors(kind: type, count: int, *arguments: Any, cpus: float, retries: int = 0) -> tuple[Any, ...]:
    """So many actors of a kind, on all machines, that start again where they end.

    `cpus`: how many cores each reserves; `retries`: how often a call is made anew where its process ends.
    """
    options = {"num_cpus": cpus, "max_restarts": -1, "max_task_retries": retries, "scheduling_strategy": "SPREAD"}
    actor = _ray().remote(kind).options(**options)
    return tuple(actor.remote(*arguments) for _ in range(count))


def end_actors(actors: Iterable[Any]) -> None:
    """End processes."""
    import ray

    if ray.is_initialized():
        for actor in actors:
            ray.kill(actor)


class Ray:
    """A Ray cluster whose processes answer, each with all agents, or with one.

    Parameters
    ----------
    address : str, optional
        Of the cluster, as for ``ray.init``: ``"auto"``, ``"10.0.0.1:6379"`` or ``"ray://10.0.0.1:10001"``. Without one,
        the Ray that this process is connected to, or that ``RAY_ADDRESS`` names, or a new one on this machine.
    placement : ``"workers"`` or ``"agents"``, optional
        Whether each process has a copy of the whole collective, one process for each core, and answers some of the
        points; or each agent has a process of its own, an actor that keeps its rows, and all answer all points. By
        default workers where the collective was saved, so that they map its files, and agents otherwise.
    cpus : float
        How many cores each process reserves. With 0, the default, they share what there is.
    settings : of ``ray.init``, where a Ray is started on this machine

    Examples
    --------
    >>> Ray("10.0.0.1:6379")
    Ray('10.0.0.1:6379')
    """

    def __init__(
        self, address: str | None = None, *, placement: str | None = None, cpus: float = 0.0, **settings: Any
    ) -> None:
        if placement is not None:
            check_choice("placement", placement, PLACEMENTS)
        self.address, self.placement, self.cpus, self.settings = address, placement, cpus, settings
        self.started = False  # whether this engine has started or joined a Ray

    def __repr__(self) -> str:
        return f"Ray({'' if self.address is None else repr(self.address)})"

    def start(
        self, agents: Sequence[Agent], scorers: Sequence[Scorer], panel: Panel, n_jobs: int | None = None
    ) -> Assembly:
        """The agents in actors. Those that were saved are opened there again, by each actor its own; see `Scorer`.

        Without scorers, agents can be asked for predictions, and no more.

        Examples
        --------
        >>> Ray("127.0.0.1:1").start([], [], None)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        degroot.exceptions.InvalidInput: There must be a Ray cluster at 127.0.0.1:1; ...
        """
        self.connect()
        pairs = list(zip(agents, scorers or repeat(None, len(agents)), strict=True))
        sources = tuple(source_of(*pair) for pair in pairs)
        apart = (
            choose_placement(self.placement, is_saved=all(find_saved(*pair) is not None for pair in pairs)) == AGENTS
        )
        actors = self._start_agents(len(agents), n_jobs) if apart else self._start_workers(n_jobs)
        try:
            _check_versions(actors, panel.names if apart else [None] * len(actors))
        except BaseException:
            end_actors(actors)
            raise
        return Assembly(actors, sources, apart, panel, bool(scorers), n_jobs)

    def connect(self) -> None:
        """Join the cluster, or start a Ray on this machine, unless that has been done.

        Examples
        --------
        >>> Ray("127.0.0.1:1").connect()  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        degroot.exceptions.InvalidInput: There must be a Ray cluster at 127.0.0.1:1; ...
        """
        ray = _ray()
        if self.started and ray.is_initialized():
            return
        address = self.address or os.environ.get("RAY_ADDRESS")
        if self.settings and (address or ray.is_initialized()):
            raise InvalidInput(
                f"Settings must be for a Ray that is started here; got {', '.join(self.settings)} for one that runs."
            )
        if ray.is_initialized():
            check_same(self.address, ray.get_runtime_context().gcs_address, ray.util.get_node_ip_address())
            return
        self._init(address)

    def _init(self, address: str | None) -> None:
        for name, value in ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if address:
            check_reached(address)
        settings = (
            {"address": address} if address else {"address": "local", "include_dashboard": False, **self.settings}
        )
        for attempt in range(1, START_ATTEMPTS + 1):
            try:
                _ray().init(**quiet, **settings)
                break
            except Exception as error:  # Ray raises whatever its parts do
                _ray().shutdown()
                if attempt == START_ATTEMPTS or START_TIMED_OUT not in str(error):
                    raise unreachable_error(address, error) from error
        self.started = True

    def __enter__(self) -> "Ray":
        self.connect()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the cluster, or end the Ray on this machine, if this engine joined or started it.

        Examples
        --------
        >>> engine = Ray()
        >>> engine.close()  # nothing was started
        >>> engine.started
        False
        """
        if self.started:
            _ray().shutdown()
            self.started = False

    @property
    def cores(self) -> int:
        """How many cores the cluster has."""
        return max(1, int(_ray().cluster_resources().get("CPU", 1)))

    def _start_agents(self, K: int, n_jobs: int | None) -> tuple[Any, ...]:
        """An actor for each agent."""
        cores = self.cores
        if self.cpus * K > cores:
            raise InvalidInput(
                f"The cluster must have {self.cpus:g} cores for each of {K} agents; it has {cores} in all."
            )
        threads = max(1, int(self.cpus or cores // K)) if n_jobs is None or n_jobs < 0 else n_jobs
        return start_actors(Actor, K, threads, cpus=self.cpus, retries=RETRIES)

    def _start_workers(self, n_jobs: int | None) -> tuple[Any, ...]:
        """An actor for each core, or for so many as each reserves or has threads."""
        cores = self.cores
        if self.cpus > cores:
            raise InvalidInput(f"The cluster must have {self.cpus:g} cores for a worker; it has {cores} in all.")
        threads = max(1, int(self.cpus)) if n_jobs is None or n_jobs < 0 else n_jobs
        count = max(1, int(cores / max(threads, self.cpus)))
        return start_actors(Actor, count, threads, cpus=self.cpus, retries=RETRIES)


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise InvalidInput(f"{INSTRUCTION} ({error}).") from error
    return ray


def _check_versions(actors: Sequence[Any], names: Sequence[str | None]) -> None:
    """Wait until all processes run, and make sure that they run the same version of this package."""
    for name, other in zip(names, fetch_answers([actor.version.remote() for actor in actors], names), strict=True):
        check_version(other, "a worker" if name is None else repr(name))


def check_version(other: str, who: str) -> None:
    """Refuse a process of another version of this package."""
    if other != VERSION:
        raise InvalidInput(f"The cluster must have version {VERSION} of degroot; {who} runs with {other}.")
