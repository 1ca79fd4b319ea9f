"""A consortium for a while: node processes on this machine, of which nothing is left in the end."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from degroot.agents.agent import Agent
from degroot.demo.organisations import CLIENT, write
from degroot.exceptions import DeGrootError
from degroot.node.client import RemoteCollective, connect
from degroot.node.errors import PeerError

HOST = "127.0.0.1"
PAUSE = 0.1  # seconds between looks
PATIENCE = 120.0  # seconds until all have to be ready


class Consortium:
    """A node for each agent, with a certificate, a folder and a process of its own."""

    def __init__(self, agents: Sequence[Agent]) -> None:
        self.agents = agents
        self._stack = ExitStack()
        self._nodes: dict[str, RemoteCollective] = {}  # those that have answered
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> "Consortium":
        with self._stack:
            self.folder = Path(self._stack.enter_context(TemporaryDirectory(prefix="degroot-demo-")))
            ports = _free_ports(len(self.agents))
            self.addresses = {agent.name: f"{HOST}:{port}" for agent, port in zip(self.agents, ports, strict=True)}
            write(self.folder, self.agents, self.addresses)
            for agent in self.agents:
                self._processes[agent.name] = self._stack.enter_context(_Node(self.folder / agent.name)).process
            self._stack = self._stack.pop_all()  # all is well: it is closed when this is
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def connect(self, name: str, **settings: Any) -> RemoteCollective:
        """The collective, asked through one of the nodes."""
        keys = self.folder / "keys"
        node = connect(
            self.addresses[name], node=name, ca=keys / "ca.pem", certificate=keys / f"{CLIENT}.pem",
            key=keys / f"{CLIENT}.key", **settings,
        )  # fmt: skip
        self._stack.callback(node.close)
        return node

    def calibration(self) -> Iterator[dict[str, int]]:
        """How many of its peers' models each node has scored; again and again, until all are."""
        until, peers = time.monotonic() + PATIENCE, len(self.agents) - 1
        while time.monotonic() < until:
            scored = {name: self._scored(name) for name in self.addresses}
            yield scored
            if all(number == peers for number in scored.values()):
                return
            time.sleep(PAUSE)
        raise DeGrootError(f"All nodes must be ready within {PATIENCE:g} seconds; they have scored {scored}.")

    def kill(self, name: str) -> None:
        """End a node without a word, as a power cut would."""
        self._processes[name].kill()
        self._processes[name].wait()

    def _scored(self, name: str) -> int:
        try:
            if name not in self._nodes:
                self._nodes[name] = self.connect(name)
            members = self._nodes[name].members
        except PeerError:  # not there yet
            if self._processes[name].poll() is not None:
                last = (self.folder / name / "log").read_text().strip().rsplit("\n", 1)[-1]
                raise DeGrootError(f"The node {name!r} must run; it has ended: {last}") from None
            return 0
        return sum(state == "ready" for peer, state in members.items() if peer != name)


class _Node:
    """A process on a leash."""

    def __init__(self, home: Path) -> None:
        with (home / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "degroot.demo.parent_watch", str(home / "node.toml")],
                stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True,
                env=os.environ | {"GRPC_VERBOSITY": "NONE"},
            )  # fmt: skip

    def __enter__(self) -> "_Node":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((HOST, 0))
        return [int(each.getsockname()[1]) for each in sockets]
