"""Engines: Ray, on a cluster or on this machine."""

import logging
import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any

from degroot.agents.agent import Agent, Scorer
from degroot.answers.answer import FIELDS, Consensus, asked
from degroot.cluster.actor import VERSION, Actor, Source, source_of
from degroot.cluster.address import check_reached, check_same, refusal
from degroot.cluster.errors import heard
from degroot.cluster.hearing import Hearing, Standards
from degroot.cluster.opinion import Opinion
from degroot.compute.tables import take
from degroot.consultation.roster import scored_by_peers_indices
from degroot.exceptions import InvalidInput
from degroot.rules.evidence import PeerIndices, Question
from degroot.rules.rules import RuleSettings

SAID_BYTES = 1 << 25  # of points, and of what all agents say of them, for one part
AHEAD = 1  # parts that agents work on while the one before is concluded


@dataclass(frozen=True, slots=True)
class Assembly:
    """Agents that answer from other processes. It can itself be sent to other processes."""

    actors: tuple[Any, ...]
    sources: tuple[Source, ...]  # what gives each actor its agent
    names: tuple[str, ...]  # of the agents
    outputs: int | None  # how many numbers they predict for each row; None: one, as (n,)
    hearing: Hearing
    judged: bool = True  # whether they can be asked for more than what they believe

    def consult(self, X: Any, fields: Sequence[str] | str = FIELDS) -> Consensus:
        """The collective prediction for the points `X`, with what lies behind it."""
        return Consensus(self.names, **self.answer(X, asked(fields, FIELDS)), peers=self.hearing.peers)

    def answer(self, X: Any, names: Iterable[str]) -> dict[str, Any]:
        """The fields in `names` for the points `X`, and flags."""
        draft = self.hearing.blank(names, X.shape[0], len(self.actors), self.outputs or 1)
        question = self.hearing.question(draft.fields)
        if question.reach is not None and not self.judged:
            raise InvalidInput("Agents must have scored each other's models for these fields; they have not.")
        for part, opinions in self._opinions(X, question):
            self.hearing.conclude(opinions, draft.part(part))
        return draft.told(self.names, self.outputs)

    def with_jobs(self, n_jobs: int) -> "Assembly":
        """The same agents; whoever asks them uses so many threads."""
        return replace(self, hearing=replace(self.hearing, n_jobs=n_jobs))

    def close(self) -> None:
        """End the agents' processes."""
        end(self.actors)

    def _opinions(self, X: Any, question: Question) -> Iterator[tuple[slice, list[Opinion]]]:
        """What all agents say of one part of the points after the other."""
        under_way: deque[tuple[slice, list[Any]]] = deque()
        for part in self._parts(X, question):
            under_way.append((part, self._ask(take(X, part), question)))
            if len(under_way) > AHEAD:
                done, references = under_way.popleft()
                yield done, heard(references, self.names)
        for done, references in under_way:
            yield done, heard(references, self.names)

    def _parts(self, X: Any, question: Question) -> list[slice]:
        """Parts of X small enough to hold what all agents say of them."""
        K, Q = len(self.actors), self.outputs or 1
        floats = X.shape[1] + K * question.floats(K, Q, self.hearing.scored(K))
        step = max(64, SAID_BYTES // (8 * floats))
        return [slice(start, min(start + step, X.shape[0])) for start in range(0, X.shape[0], step)]

    def _ask(self, X: Any, question: Question) -> list[Any]:
        """Put points to all agents; they are stored once, for all to read."""
        import ray

        points = ray.put(X)
        asked = zip(self.actors, self.sources, strict=True)
        return [actor.opinion.remote(source, points, question) for actor, source in asked]


def end(actors: Iterable[Any]) -> None:
    """End agents' processes."""
    import ray

    if ray.is_initialized():
        for actor in actors:
            ray.kill(actor)


INSTRUCTION = "Ray needs extra packages: pip install 'degroot[ray]'"
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_IGNORE_UNHANDLED_ERRORS": "1"}  # errors are told once, by whoever asked
RETRIES = 30  # of one question, where the process that works on it ends: a dead machine is found out after some of them


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

    def panel(
        self,
        agents: Sequence[Agent],
        scorers: Sequence[Scorer],
        option: RuleSettings,
        peers: PeerIndices | None = None,
        n_jobs: int | None = None,
        *,
        guarded: bool = False,
    ) -> Assembly:
        """The agents as actors. Those that are in files are opened there again, by each actor its own; see `Judge`.

        Without scorers, agents can be asked for what they believe, and no more.
        """
        self.connect()
        names = tuple(agent.name for agent in agents)
        pairs = zip(agents, scorers or repeat(None, len(agents)), strict=True)
        sources = tuple(source_of(agent, scorer) for agent, scorer in pairs)
        actors = self._actors(len(sources), n_jobs)
        try:
            _check_versions(actors, names)
            standards = _standards(actors, sources, names) if guarded else None
        except BaseException:
            end(actors)
            raise
        hearing = Hearing(option, scored_by_peers_indices(agents), peers, standards, n_jobs)
        return Assembly(actors, sources, names, agents[0].outputs, hearing, bool(scorers))

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
        try:
            _ray().init(**quiet, **settings)
        except Exception as error:  # Ray raises whatever its parts do
            raise refusal(address, error) from error
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
    for name, other in zip(names, heard([actor.version.remote() for actor in actors], names), strict=True):
        if other != VERSION:
            raise InvalidInput(f"The cluster must have version {VERSION} of degroot; {name!r} runs with {other}.")


def _standards(actors: Sequence[Any], sources: Sequence[Source], names: Sequence[str]) -> Standards:
    asked = [actor.standards.remote(source) for actor, source in zip(actors, sources, strict=True)]
    return Standards.of(heard(asked, names))
