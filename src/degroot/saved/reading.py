"""From a file, or the folder with it, to the agents and settings of a collective."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from degroot.agents import Agent
from degroot.exceptions import InvalidInput
from degroot.saved.agents import FiledAgent
from degroot.saved.entries import ENTRY, agent_of
from degroot.saved.settings import FORMAT, TOP, read_settings
from degroot.saved.spaces import space_of
from degroot.tomlfile import Table

FILE = "collective.toml"


@dataclass(frozen=True, slots=True)
class Saved:
    """What a collective is made of."""

    agents: tuple[Agent, ...]
    settings: dict[str, Any]  # arguments of `Collective`


def load(path: str | Path, *, unsafe_pickle: bool = False) -> Saved:
    """The collective in this file, or in the file ``collective.toml`` of this folder.

    `unsafe_pickle` opens models in pickles too, which run whatever code is in them.
    """
    top = _top(Path(path))
    entries = top.tables("agents", ENTRY)
    if not entries:
        raise top.refusal("agents", "list at least one agent, [[agents]]")
    agents: list[FiledAgent] = []
    for entry in entries:
        agents.append(agent_of(entry, top, agents[0].features if agents else None, unsafe_pickle))
    settings = read_settings(top)
    if "space" in top.entries:
        settings["space"] = space_of(top, "space")
    return Saved(tuple(agents), settings)


def _top(path: Path) -> Table:
    file = path / FILE if path.is_dir() else path
    if not file.exists():
        raise InvalidInput(f"A collective must be a TOML file, or a folder with {FILE}; there is no {file}.")
    top = Table.read(file, TOP)
    if top.given("format", lambda key: top.whole(key), FORMAT) != FORMAT:
        raise top.refusal("format", f"be {FORMAT}, the one that this version of degroot knows")
    return top
