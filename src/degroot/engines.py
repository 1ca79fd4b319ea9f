"""Engines: where the agents of a collective answer. This process is one, and is what there is without any."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from degroot.agents import Agent
from degroot.evidence import Peers
from degroot.exceptions import InvalidInput
from degroot.judges import Judge
from degroot.rules import Option
from degroot.settings import check_choice

LOCAL, RAY = "local", "ray"


class Elsewhere(Protocol):
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
        judges: Sequence[Judge],
        option: Option,
        peers: Peers | None = None,
        n_jobs: int | None = None,
        *,
        guarded: bool = False,
    ) -> Elsewhere:
        """The agents, each where it is to answer."""


def engine_of(given: Any) -> Engine | None:
    """An engine by its name, or itself; None: this process."""
    if isinstance(given, str):
        check_choice("engine", given, (LOCAL, RAY))
        if given == LOCAL:
            return None
        from degroot.cluster import Ray

        return Ray()
    if not hasattr(given, "panel"):
        raise InvalidInput(f"`engine` must be {LOCAL!r}, {RAY!r} or an engine; got {given!r}.")
    engine: Engine = given
    return engine
