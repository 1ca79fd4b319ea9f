"""The walk of one question through the code: which modules of `degroot` it passes, and the hops between them.

``python benchmarks/walk.py consult``: `Collective.consult` in process, three agents with Ridge models, one point.
``python benchmarks/walk.py ask``: the command ``degroot ask`` put to one of three nodes, one point, with the defaults:
TLS, and the guard on. The walk goes from `RemoteCollective.consult` in the client to the asked node and back; its two
peers are not counted. What the command does around it (options, files, keys, the table) is counted apart.

The same question is asked before, uncounted: imports, compilation and first connections are not part of the walk. A
module is on the walk if any of its Python functions runs while the question is answered, under `sys.setprofile` and, in
threads that start meanwhile, `threading.setprofile`. A hop is a call of a function in one module of ours by a function
in another, with nothing in between; each pair of modules counts once.

The asked node is a process that this script starts with itself as the launcher. The client marks its calls in their
metadata; at the node an interceptor, the first one, sees the mark and sets a context variable, which every task and
thread that the call starts inherits. What runs without it is not counted: probing of peers, their questions, metrics.
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

PACKAGE = "degroot"
MARK = ("walk", "counted")  # in the metadata of calls
FEATURES = 3
COUNTED: ContextVar[bool] = ContextVar("counted", default=False)


@dataclass
class Walk:
    """Modules, and pairs of modules one of which calls the other."""

    modules: set[str] = field(default_factory=set)
    hops: set[tuple[str, str]] = field(default_factory=set)

    def step(self, frame: Any, event: str, _: Any) -> None:
        """Note the call of a function; what `sys.setprofile` calls."""
        if event != "call" or not COUNTED.get():
            return
        name = _module(frame)
        if name is None:
            return
        self.modules.add(name)
        caller = None if frame.f_back is None else _module(frame.f_back)
        if caller is not None and caller != name:
            self.hops.add((caller, name))

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Note what runs in here, in this thread and in those that it starts."""
        token = COUNTED.set(True)
        threading.setprofile(self.step)
        sys.setprofile(self.step)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
            COUNTED.reset(token)

    def save(self, path: Path) -> None:
        """Write it to a file."""
        path.write_text(json.dumps([sorted(self.modules), sorted(self.hops)]))

    @classmethod
    def load(cls, path: Path) -> "Walk":
        """What was written to a file."""
        modules, hops = json.loads(path.read_text())
        return cls(set(modules), {(one, other) for one, other in hops})

    def show(self, title: str) -> None:
        """Print it."""
        print(f"{title}: {len(self.modules)} modules, {len(self.hops)} hops between distinct pairs")
        for name in sorted(self.modules):
            print(f"  {name} -> {', '.join(sorted(other for one, other in self.hops if one == name)) or '-'}")


def _module(frame: Any) -> str | None:
    """The module of ours in which a function was defined."""
    name = str(frame.f_globals.get("__name__"))
    return name if name == PACKAGE or name.startswith(f"{PACKAGE}.") else None


def consult() -> None:
    """One question in process."""
    from sklearn.linear_model import Ridge

    from degroot import Agent, Collective

    rng = np.random.default_rng(0)
    agents = []
    for name in ("north", "south", "west"):
        X = rng.normal(size=(200, FEATURES))
        y = np.sin(X).sum(axis=1) + 0.1 * rng.normal(size=len(X))
        agents.append(Agent(Ridge().fit(X, y), X, y, name))
    collective, point, walk = Collective(agents), np.zeros((1, FEATURES)), Walk()
    collective.consult(point)
    with walk.counting():
        collective.consult(point)
    walk.show("Collective.consult")


def ask() -> None:
    """One question through the command line."""
    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    from support.consortium import CLIENT, Consortium

    client, command = Walk(), Walk()
    with tempfile.TemporaryDirectory() as folder:
        nodes = Consortium(folder)
        asked, counted, points = nodes.names[0], Path(folder) / "walk.json", Path(folder) / "points.csv"
        names = ",".join(f"x{j}" for j in range(FEATURES))
        points.write_text(f"{names}\n{','.join(['0'] * FEATURES)}\n")
        keys, address = Path(folder) / "keys", f"{asked}@127.0.0.1:{nodes.ports[asked]}"
        identity = ["--ca", keys / "ca.pem", "--certificate", keys / f"{CLIENT}.pem", "--key", keys / f"{CLIENT}.key"]
        line = ["ask", "--node", address, *map(str, identity), "--input", str(points)]
        with nodes:
            nodes.start(*nodes.names[1:])
            nodes.processes[asked] = subprocess.Popen(
                [sys.executable, __file__, "node", str(Path(folder) / asked / "node.toml"), str(counted)],
                stderr=(Path(folder) / asked / "log").open("ab"), env={**os.environ, "NUMBA_NUM_THREADS": "1"},
            )  # fmt: skip
            nodes.ready(patience=300.0)
            _run_command(line)
            with _counting_questions(client):
                _run_command(line)
            with command.counting():
                _run_command(line)
            nodes.kill(asked, signal.SIGTERM)
        node = Walk.load(counted)
    Walk(client.modules | node.modules, client.hops | node.hops).show("degroot ask, client and asked node")
    client.show("\nthe client")
    node.show("\nthe asked node")
    command.show("\nthe whole command, in the client")


def _run_command(arguments: list[str]) -> None:
    """Run ``degroot`` in this process; what it prints is of no interest here."""
    from degroot.cli import main

    before, sys.argv = sys.argv, ["degroot", *arguments]
    try:
        with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
            main()
    except SystemExit as ended:
        if ended.code:
            raise RuntimeError(f"degroot {' '.join(arguments)} ended with {ended.code}.") from None
    finally:
        sys.argv = before


@contextmanager
def _counting_questions(walk: Walk) -> Iterator[None]:
    """Count what nodes are asked in here, and mark the calls by which they are."""
    import grpc

    from degroot.node.client import RemoteCollective

    class Marking(grpc.UnaryUnaryClientInterceptor):
        def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
            mark = [MARK] if COUNTED.get() else []
            return continuation(details._replace(metadata=[*(details.metadata or ()), *mark]), request)

    def counted(*arguments: Any, **options: Any) -> Any:
        with walk.counting():
            return consult(*arguments, **options)

    opened, consult = grpc.secure_channel, RemoteCollective.consult
    grpc.secure_channel = lambda *arguments: grpc.intercept_channel(opened(*arguments), Marking())
    RemoteCollective.consult = counted
    try:
        yield
    finally:
        grpc.secure_channel, RemoteCollective.consult = opened, consult


def run_node(configuration: Path, counted: Path) -> None:
    """Run the asked node until it is told to stop, and write down what marked calls have passed."""
    import grpc

    from degroot.node.config import read
    from degroot.node.server.run import run

    class Marked(grpc.aio.ServerInterceptor):
        async def intercept_service(self, continuation: Any, details: Any) -> Any:
            if MARK in {tuple(each) for each in details.invocation_metadata}:
                COUNTED.set(True)  # in the task of this call
            return await continuation(details)

    def server(*arguments: Any, interceptors: Any = (), **options: Any) -> Any:
        return made(*arguments, interceptors=[Marked(), *interceptors], **options)

    def run_in_executor(self: Any, executor: Any, work: Any, *arguments: Any) -> Any:
        return in_executor(self, executor, partial(copy_context().run, work), *arguments)

    made, grpc.aio.server = grpc.aio.server, server
    in_executor, asyncio.BaseEventLoop.run_in_executor = asyncio.BaseEventLoop.run_in_executor, run_in_executor
    walk = Walk()
    threading.setprofile(walk.step)
    sys.setprofile(walk.step)
    run(read(configuration))
    sys.setprofile(None)
    walk.save(counted)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Count the modules that one question passes.")
    parser.add_argument("what", choices=("consult", "ask", "node"), help="node: the asked node, started by ask")
    parser.add_argument("paths", nargs="*", type=Path)
    given = parser.parse_args()
    {"consult": consult, "ask": ask, "node": run_node}[given.what](*given.paths)
