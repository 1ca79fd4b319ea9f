"""Storage: agents in Ray's object store, from which their processes take them."""

from dataclasses import dataclass, replace
from typing import Any

from degroot.agents import Agent
from degroot.judges import Judge
from degroot.tables import told


@dataclass(frozen=True, slots=True)
class Stored:
    """An agent and its judge in the object store, as long as somebody has this reference."""

    reference: Any

    def __call__(self) -> tuple[Agent, Judge]:
        """What is stored."""
        import ray

        held: tuple[Agent, Judge] = ray.get(self.reference)
        return held


def stored(agent: Agent, judge: Judge) -> Stored:
    """Store an agent and its judge, without neighbourhoods: its process makes them anew."""
    import ray

    try:
        return Stored(ray.put((agent, replace(judge, near={}))))
    except Exception as error:  # whatever its model raises
        raise agent.error(
            f"its model and space must be such that they can be sent to another process; {told(error).splitlines()[0]}."
        ) from error
