"""Storage: agents in Ray's object store, from which their processes take them."""

from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from degroot.agents import Agent
from degroot.cluster.member import Source
from degroot.judges import Judge
from degroot.tables import take, told

OF_SAVED_AGENTS = ("scores", "met")  # what they know of others


@dataclass(frozen=True, slots=True)
class Stored:
    """An agent and its judge in the object store, as long as somebody has this reference."""

    reference: Any

    def __call__(self) -> tuple[Agent, Judge | None]:
        """What is stored."""
        import ray

        held: tuple[Agent, Judge | None] = ray.get(self.reference)
        return held


def source_of(agent: Agent, judge: Judge | None) -> Source:
    """What gives an agent and its judge again, in another process: files, or the object store.

    Neighbourhoods are not stored: its process makes them anew.
    """
    import ray

    if judge is not None and judge.source is not None:
        return judge.source
    held = (_with_one_row(agent), None) if judge is None else (agent, replace(judge, near={}))
    try:
        return Stored(ray.put(held))
    except Exception as error:  # whatever its model raises
        raise agent.error(
            f"its model and space must be such that they can be sent to another process; {told(error).splitlines()[0]}."
        ) from error


def _with_one_row(agent: Agent) -> Agent:
    """The agent with one of its rows: who is not asked what it finds on them needs no more."""
    light = copy(agent)
    light.X, light.y, light.own_predictions = take(agent.X, slice(0, 1)), agent.y[:1], None
    for name in OF_SAVED_AGENTS:
        vars(light).pop(name, None)
    return light
