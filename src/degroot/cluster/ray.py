"""The engine of a Ray cluster, or of a Ray on this machine: start actors, and collect their opinions."""

import logging
import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any

from degroot.agents.abstention import ColumnMask
from degroot.agents.agent import Agent, Scorer
from degroot.answers.answer import FIELDS, Consensus, check_fields
from degroot.cluster.actor import VERSION, Actor, Source, source_of
from degroot.cluster.address import check_reached, check_same, unreachable_error
from degroot.cluster.errors import fetch_answers
from degroot.compute.compiled import block_size, in_blocks
from degroot.compute.tables import take
from degroot.consultation.consult import Conclude, Opinion, Panel, Question, consult
from degroot.exceptions import InvalidInput

SAID_BYTES = 1 << 25  # of points, and of what all agents say of them, for one part
AHEAD = 1  # parts that agents work on while the one before is concluded
INSTRUCTION = "Ray needs extra packages: pip install 'degroot[ray]'"
START_ATTEMPTS = 4  # Ray gives its own processes 30 seconds to start, of which a busy machine may need more
START_TIMED_OUT = "timed out during startup"  # how Ray says so
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_IGNORE_UNHANDLED_ERRORS": "1"}  # errors are told once, by whoever asked
RETRIES = 30  # of one question, where the process that works on it ends: a dead machine is found out after some of them


@dataclass(frozen=True, slots=True)
class Assembly:
    """Agents that answer from other processes, an `Engine`. It can itself be sent to other processes."""

    actors: tuple[Any, ...]
    sources: tuple[Source, ...]  # what gives each actor its agent
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
        for part in self._parts(X, question):
            under_way.append((part, self._ask(take(X, part), question)))
            if len(under_way) > AHEAD:
                done, references = under_way.popleft()
                yield done, fetch_answers(references, self.panel.names)
        for done, references in under_way:
            yield done, fetch_answers(references, self.panel.names)

    def _parts(self, X: Any, question: Question) -> list[slice]:
        """Parts of X small enough to hold what all agents say of them."""
        K, Q = len(self.actors), self.panel.outputs or 1
        floats = X.shape[1] + K * question.floats(K, Q, self.panel.n_scored)
        step = max(64, SAID_BYTES // (8 * floats))
        return [slice(start, min(start + step, X.shape[0])) for start in range(0, X.shape[0], step)]

    def _ask(self, X: Any, question: Question) -> list[Any]:
        """Put points to all agents; they are stored once, for all to read."""
        import ray

        points = ray.put(X)
        asked = zip(self.actors, self.sources, strict=True)
        return [actor.give_opinion.remote(source, points, question) for actor, source in asked]


def end_actors(actors: Iterable[Any]) -> None:
    """End agents' processes."""
    import ray

    if ray.is_initialized():
        for actor in actors:
            ray.kill(actor)


class Ray:
    """A Ray cluster where each agent is an actor that keeps its own rows.

    Parameters
    ----------
    address : str, optional
        Of the cluster, as for ``ray.init``: ``"auto"``, ``"10.0.0.1:6379"`` or ``"ray://10.0.0.1:10001"``. Without one,
        the Ray that this process is connected to, or that ``RAY_ADDRESS`` names, or a new one on this machine.
    cpus : float
        How many cores each agent's actor reserves. With 0, the default, agents share what there is.
    settings : of ``ray.init``, where a Ray is started on this machine

    Examples
    --------
    >>> Ray("10.0.0.1:6379")
    Ray('10.0.0.1:6379')
    """

    def __init__(self, address: str | None = None, *, cpus: float = 0.0, **settings: Any) -> None:
        self.address, self.cpus, self.settings = address, cpus, settings
        self.started = False  # whether this engine has started or joined a Ray

    def __repr__(self) -> str:
        return f"Ray({'' if self.address is None else repr(self.address)})"

    def start(
        self, agents: Sequence[Agent], scorers: Sequence[Scorer], panel: Panel, n_jobs: int | None = None
    ) -> Assembly:
        """The agents as actors. Those that are in files are opened there again, by each actor its own; see `Scorer`.

        Without scorers, agents can be asked for predictions, and no more.

        Examples
        --------
        >>> Ray("127.0.0.1:1").start([], [], None)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        degroot.exceptions.InvalidInput: There must be a Ray cluster at 127.0.0.1:1; ...
        """
        self.connect()
        pairs = zip(agents, scorers or repeat(None, len(agents)), strict=True)
        sources = tuple(source_of(agent, scorer) for agent, scorer in pairs)
        actors = self._actors(len(sources), n_jobs)
        try:
            _check_versions(actors, panel.names)
        except BaseException:
            end_actors(actors)
            raise
        return Assembly(actors, sources, panel, bool(scorers), n_jobs)

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
        for name, value in QUIET.items():
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

    def _actors(self, K: int, n_jobs: int | None) -> tuple[Any, ...]:
        cores = self.cores
        if self.cpus * K > cores:
            raise InvalidInput(
                f"The cluster must have {self.cpus:g} cores for each of {K} agents; it has {cores} in all."
            )
        threads = max(1, int(self.cpus or cores // K)) if n_jobs is None or n_jobs < 0 else n_jobs
        actor = (
            _ray()
            .remote(Actor)
            .options(num_cpus=self.cpus, max_restarts=-1, max_task_retries=RETRIES, scheduling_strategy="SPREAD")
        )
        return tuple(actor.remote(threads) for _ in range(K))


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise InvalidInput(f"{INSTRUCTION} ({error}).") from error
    return ray


def _check_versions(actors: Sequence[Any], names: Sequence[str]) -> None:
    """Wait until all processes run, and make sure that they run the same version of this package."""
    for name, other in zip(names, fetch_answers([actor.version.remote() for actor in actors], names), strict=True):
        if other != VERSION:
            raise InvalidInput(f"The cluster must have version {VERSION} of degroot; {name!r} runs with {other}.")
