"""Engines: Ray, on a cluster or on this machine."""

import logging
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from degroot.agents import Agent
from degroot.cluster.assembly import Assembly
from degroot.cluster.faults import first_line, heard
from degroot.cluster.hearing import Hearing, Standards
from degroot.cluster.member import VERSION, Member, Source
from degroot.cluster.stored import stored
from degroot.evidence import Peers
from degroot.exceptions import InvalidInput
from degroot.judges import Judge
from degroot.rules import Option
from degroot.tables import told

INSTRUCTION = "Ray needs extra packages: pip install 'degroot[ray]'"
RETRIES = 10  # of one question, where the process that works on it ends


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
        judges: Sequence[Judge],
        option: Option,
        peers: Peers | None = None,
        n_jobs: int | None = None,
        *,
        guarded: bool = False,
    ) -> Assembly:
        """The agents as actors. Those that are in files are opened there again, by each actor its own; see `Judge`."""
        self.connect()
        names = tuple(agent.name for agent in agents)
        sources = tuple(judge.source or stored(agent, judge) for agent, judge in zip(agents, judges, strict=True))
        members = self._members(sources, n_jobs)
        _check_versions(members, names)
        aside = tuple(k for k, agent in enumerate(agents) if agent.scored_by_peers)
        standards = _standards(members, names) if guarded else None
        hearing = Hearing(option, aside, peers, standards, n_jobs)
        return Assembly(members, sources, names, agents[0].outputs, hearing)

    def connect(self) -> None:
        """Join the cluster, or start a Ray on this machine, unless that has been done."""
        ray = _ray()
        if ray.is_initialized():
            return
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        address = self.address or os.environ.get("RAY_ADDRESS")
        settings = (
            {"address": address} if address else {"address": "local", "include_dashboard": False, **self.settings}
        )
        try:
            ray.init(**quiet, **settings)
        except Exception as error:  # Ray raises whatever its parts do
            raise InvalidInput(_refusal(address, error)) from error
        self.started = True

    def close(self) -> None:
        """Leave the cluster, or end the Ray on this machine, if this engine joined or started it."""
        if self.started:
            _ray().shutdown()
            self.started = False

    def _members(self, sources: Sequence[Source], n_jobs: int | None) -> tuple[Any, ...]:
        ray, K = _ray(), len(sources)
        cores = float(ray.cluster_resources().get("CPU", 1.0))
        if self.cpus * K > cores:
            raise InvalidInput(
                f"The cluster must have {self.cpus:g} cores for each of {K} agents; it has {cores:g} in all."
            )
        threads = max(1, int(self.cpus or cores // K)) if n_jobs is None or n_jobs < 0 else n_jobs
        actor = ray.remote(Member).options(
            num_cpus=self.cpus, max_restarts=-1, max_task_retries=RETRIES, scheduling_strategy="SPREAD"
        )
        return tuple(actor.remote(source, threads) for source in sources)


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise InvalidInput(f"{INSTRUCTION} ({error}).") from error
    return ray


def _check_versions(members: Sequence[Any], names: Sequence[str]) -> None:
    """Wait until all processes run, and make sure that they run the same version of this package."""
    for name, other in zip(names, heard([member.version.remote() for member in members], names), strict=True):
        if other != VERSION:
            raise InvalidInput(
                f"The cluster must have version {VERSION} of degroot; the process of {name!r} has {other}."
            )


def _standards(members: Sequence[Any], names: Sequence[str]) -> Standards:
    said = heard([member.standards.remote() for member in members], names)
    return Standards(tuple(each[0] for each in said), *(np.array([each[k] for each in said]) for k in (1, 2)))


def _refusal(address: str | None, error: Exception) -> str:
    if address is None:
        return f"Ray must start on this machine; {first_line(told(error))}."
    return f"There must be a Ray cluster of the same Ray and Python at {address}; {first_line(told(error))}."
