"""Five organisations that each see a part of the paper's synthetic problem, as files in folders of their own."""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template

import numpy as np

from degroot.agents.agent import Agent
from degroot.node.tls import authority
from degroot.paper.problems.logistic import Problem, make_agents

NAMES = ("basel", "delft", "genoa", "lyon", "turin")
CLIENT = "analyst"
FEATURES = ("x0", "x1")
PROBLEM = Problem()
DAYS = 1  # for which certificates are valid


def organisations(seed: int) -> list[Agent]:
    """Their models and rows, drawn at random."""
    agents = make_agents(PROBLEM, np.random.default_rng(seed))
    return [Agent(agent.model, agent.X, agent.y, name) for name, agent in zip(NAMES, agents, strict=True)]


def write(folder: Path, agents: Sequence[Agent], addresses: Mapping[str, str]) -> None:
    """Everybody's certificate, rows, model and configuration."""
    authority.init_ca(folder / "keys", "demo", DAYS)
    authority.issue(folder / "keys", CLIENT, DAYS)
    for agent in agents:
        authority.issue(folder / "keys", agent.name, DAYS)
        home = folder / agent.name
        home.mkdir()
        _write_rows(home / "rows.csv", agent)
        _write_model(home / "model.skops", agent)
        (home / "node.toml").write_text(_configuration(agent.name, addresses))


def _write_rows(path: Path, agent: Agent) -> None:
    header, exact = ",".join([*FEATURES, "y"]), "%.17g"
    np.savetxt(path, np.c_[agent.X, agent.y], exact, delimiter=",", header=header, comments="")


def _write_model(path: Path, agent: Agent) -> None:
    import skops.io

    skops.io.dump(agent.model, path)


def _configuration(name: str, addresses: Mapping[str, str]) -> str:
    text = files("degroot.demo").joinpath("node.toml").read_text(encoding="utf-8")
    own = Template(text).substitute(name=name, address=addresses[name], neighbours=PROBLEM.neighbours, client=CLIENT)
    peers = (f'\n[[peers]]\nname = "{peer}"\naddress = "{at}"\n' for peer, at in addresses.items() if peer != name)
    return own + "".join(peers)
