"""Engines: where the agents of a collective answer. This process is one, and is what there is without any."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from degroot.agents.agent import Agent, Scorer
from degroot.rules.evidence import PeerIndices
from degroot.rules.rules import RuleSettings

LOCAL, RAY = "local", "ray"


class RemoteEngine(Protocol):
    """Agents in other processes, before a question."""

    @property
    def judged(self) -> bool:
        """Whether they can be asked for more than what they believe."""

    def answer(self, X: Any, names: Iterable[str]) -> dict[str, Any]:
        """The fields in `names` for the points `X`, and flags."""

    def close(self) -> None:
        """End their processes."""


class Engine(Protocol):
    """Whatever puts agents into other processes."""

    def panel(
        self,
        agents: Sequence[Agent],
        scorers: Sequence[Scorer],
        option: RuleSettings,
        peers: PeerIndices | None = None,
        n_jobs: int | None = None,
        *,
        guarded: bool = False,
    ) -> RemoteEngine:
        """The agents, each where it is to answer."""
