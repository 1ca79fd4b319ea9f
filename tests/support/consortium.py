"""A consortium for tests: certificates, data, models and configurations in a folder, and real node processes."""

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
from functools import cache
from multiprocessing import forkserver
from pathlib import Path
from unittest.mock import patch

import numpy as np

from degroot import Agent, Collective, InvalidInput
from degroot.node.client import connect
from degroot.node.config import GRANTS, read
from degroot.node.tls import authority

CLIENT = "analyst"
QUIET = {"GRPC_VERBOSITY": "NONE"}  # gRPC writes lines to standard error that are no JSON unless it is told not to
PATIENCE = 600.0  # seconds to wait for nodes, on a machine that is busy


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def made_rows(seed, K, n=120, d=3, noise=0.3):
    """Rows, labels and linear coefficients of K unlike organisations."""
    rng = np.random.default_rng(seed)
    for k in range(K):
        X = rng.normal(rng.normal(0.0, 1.5, d), 1.0, size=(n + 7 * k, d))
        y = np.sin(X).sum(axis=1) + noise * rng.normal(size=len(X))
        slopes, *_ = np.linalg.lstsq(np.c_[X, np.ones(len(X))], y, rcond=None)
        yield X, y, slopes


def save_linear(path, slopes):
    """A linear model as skops file."""
    import skops.io
    from sklearn.linear_model import LinearRegression

    model = LinearRegression()
    model.coef_, model.intercept_, model.n_features_in_ = np.array(slopes[:-1]), float(slopes[-1]), len(slopes) - 1
    temporary = path.with_suffix(".new")
    skops.io.dump(model, temporary)
    temporary.replace(path)
    return model


class Forked:
    """A node's process, forked from one that has all imports done: starting it takes no time."""

    def __init__(self, folder, before=None, **settings):
        context = multiprocessing.get_context("forkserver")
        start_forkserver()
        self._process = context.Process(target=_run, args=(folder, before), kwargs=settings)
        self._process.start()
        self.pid = self._process.pid

    def poll(self):
        return self._process.exitcode

    def wait(self, timeout=None):
        self._process.join(timeout)
        return self._process.exitcode

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self._process.kill()


@cache
def start_forkserver():
    """Start the process that nodes are forked from, with all imports done and the kernels loaded."""
    forkserver.set_forkserver_preload(["degroot.node.server.run", "sklearn.linear_model", "skops.io", "warm"])
    path = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    with patch.dict(
        os.environ, PYTHONPATH=os.pathsep.join(path), **QUIET
    ):  # it imports `warm`, and knows no other path
        forkserver.ensure_running()


def _run(folder, before, **settings):
    from degroot.node.server.run import run

    log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    if before is not None:
        before(folder)
    run(read(folder / "node.toml"), **settings)


def save_table(path, agent, y):
    """An agent's rows, with labels `y` as y, or y0, y1, ... and its own predictions as own, or own0, own1, ..."""
    columns = {f"x{j}": agent.X[:, j] for j in range(agent.n_features)}
    for name, values in (("y", np.asarray(y)), ("own", agent.own_predictions)):
        if values is not None and values.ndim == 1:
            columns[name] = values
        elif values is not None:
            columns |= {f"{name}{q}": values[:, q] for q in range(values.shape[1])}
    lines = [",".join(columns)]
    lines += [",".join(str(each) for each in row) for row in zip(*(c.tolist() for c in columns.values()), strict=True)]
    path.write_text("\n".join(lines) + "\n")


def save_model(path, model):
    """Any model of scikit-learn as skops file."""
    import skops.io

    skops.io.dump(model, path)


class Consortium:
    """K nodes on loopback. `agents`, instead of `rows`: pairs of an agent, named as the nodes are, and its labels.

    `evidence`: pooled by default, since most tests are of the paper's protocol; then peers and the client may do and
    see all. With ``"own"`` they may what a node's defaults let them, unless `may`, `use` or `fields` say otherwise.
    `deadline`: seconds that nodes wait for a peer. On a busy machine a few are not enough for one that is well; they
    are for tests in which somebody is silent.
    """

    def __init__(
        self,
        folder,
        K=3,
        seed=0,
        *,
        settings="",
        top="",
        timing="",
        limits="",
        rows=None,
        data="",
        agents=None,
        hosts=None,
        deadline=30.0,
        evidence="pooled",
        may=None,
        use=None,
        fields=None,
        least_rows=1,
        maps="",
    ):
        self.evidence, self.least_rows, self.maps = evidence, least_rows, maps
        self.guard = "guard = false" not in settings
        everything = evidence == "pooled"
        self.may = may or (["query", "opinion", "ask"] if everything else None)
        self.use = use
        self.fields = fields or (list(GRANTS) if everything else None)
        self.folder, self.names = Path(folder), [f"node{k}" for k in range(K)]
        self.ports = dict(zip(self.names, free_ports(K), strict=True))
        self.deadline = deadline
        self.hosts = hosts or dict.fromkeys(self.names, "127.0.0.1")
        self.processes, self.routes = {}, {}  # routes: (from, to) -> another port than the peer's own
        self.agents = []
        authority.init_ca(self.folder / "keys", "tests", 90)
        for name in (*self.names, CLIENT):
            authority.issue(self.folder / "keys", name, 90, ["127.0.0.1", "localhost"])
        for agent, y in agents or ():
            home = self.folder / agent.name
            home.mkdir()
            save_table(home / "rows.csv", agent, y)
            save_model(home / "model.skops", agent.model)
            self.agents.append(agent)
            self.write(agent.name, settings=settings, top=top, timing=timing, limits=limits, data=data)
        if agents:
            return
        for name, (X, y, slopes) in zip(self.names, rows or made_rows(seed, K), strict=True):
            home = self.folder / name
            home.mkdir()
            table = np.c_[X, y]
            header = ",".join([*(f"x{j}" for j in range(X.shape[1])), "y"])
            np.savetxt(home / "rows.csv", table, delimiter=",", header=header, comments="", fmt="%.17g")
            model = save_linear(home / "model.skops", slopes)
            self.agents.append(Agent(model, X, y, name))
            self.write(name, settings=settings, top=top, timing=timing, limits=limits, data=data)

    def write(
        self,
        name,
        peers=None,
        *,
        settings="",
        top="",
        timing="",
        limits="",
        data="",
        clients=(CLIENT,),
        may=None,
        use=None,
        fields=None,
    ):
        """The configuration of one node. `may`, `use`: of all peers, or by name; `fields`: of peers and clients."""
        may, use, fields = may or self.may, use or self.use, fields or self.fields
        peers = [each for each in self.names if each != name] if peers is None else peers
        text = f"""
name = "{name}"
listen = "{self.hosts[name]}:{self.ports[name]}"
state = "state"
evidence = "{self.evidence}"
{top}
[identity]
ca = "../keys/ca.pem"
certificate = "../keys/{name}.pem"
key = "../keys/{name}.key"
[model]
file = "model.skops"
[data]
file = "rows.csv"
{data if "target" in data else 'target = "y"' + chr(10) + data}
[collective]
{settings}
[timing]
probe_seconds = 0.2
heartbeat_seconds = 0.2
deadline_seconds = {self.deadline}
chunk_rows = 50
{timing}
[limits]
{limits}
"""
        text += f"[maps]\n{self.maps}\n" if self.evidence == "maps" else ""
        text += f"[disclosure]\nleast_rows = {self.least_rows}\n" if self.evidence == "pooled" else ""
        shown = "" if fields is None else f"fields = {list(fields)}\n"
        for each in peers:
            port = self.routes.get((name, each), self.ports[each])
            text += f'[[peers]]\nname = "{each}"\naddress = "{self.hosts[each]}:{port}"\n'
            rights, uses = (by.get(each) if isinstance(by, dict) else by for by in (may, use))
            text += "" if rights is None else f"may = {list(rights)}\n"
            text += "" if uses is None else f"use = {list(uses)}\n"
            text += shown if rights is not None and "ask" in rights else ""
        for each in clients:
            text += f'[[clients]]\nname = "{each}"\n{shown}'
        whole = self.folder / name / "node.toml.new"
        whole.write_text(text)
        whole.replace(self.folder / name / "node.toml")  # the node may be looking

    def configuration(self, name):
        return read(self.folder / name / "node.toml")

    def start(self, *names, environment=None, prefix=()):
        for name in names or self.names:
            code = (
                "import sys; from pathlib import Path; from degroot.node.config import read; "
                "from degroot.node.server.run import run; run(read(Path(sys.argv[1])))"
            )
            log = (self.folder / name / "log").open("ab")
            self.processes[name] = subprocess.Popen(
                [*prefix, sys.executable, "-c", code, str(self.folder / name / "node.toml")],
                stderr=log, stdout=log, env={**os.environ, **QUIET, "NUMBA_NUM_THREADS": "1", **(environment or {})},
            )  # fmt: skip
            log.close()
        return self

    def fork(self, *names, before=None):
        """Start nodes quickly. `before`: a function of a module, called in each process with the node's folder."""
        for name in names or self.names:
            self.processes[name] = Forked(self.folder / name, before)
        return self

    def log(self, name):
        return (self.folder / name / "log").read_text()

    def credentials(self, name=CLIENT):
        keys = self.folder / "keys"
        return {"ca": keys / "ca.pem", "certificate": keys / f"{name}.pem", "key": keys / f"{name}.key"}

    def connect(self, name=None, *, caller=CLIENT, patience=PATIENCE, view=None, **settings):
        """A connection to one node, once it is there; by default for the consensus where evidence is pooled."""
        settings["view"] = view or ("consensus" if self.evidence == "pooled" else "own")
        name = name or self.names[0]
        until = time.monotonic() + patience
        while True:
            try:
                return connect(
                    f"{self.hosts[name]}:{self.ports[name]}", node=name, **self.credentials(caller), **settings
                )
            except Exception as error:
                if isinstance(error, TypeError | InvalidInput) and error.__cause__ is None:
                    raise  # settings that make no sense: to wait does not help
                if time.monotonic() > until or self.processes[name].poll() is not None:
                    raise AssertionError(f"{name} does not answer:\n{self.log(name)}") from None
                time.sleep(0.1)

    def ready(self, *names, among=None, patience=PATIENCE):
        """Wait until these nodes see those `among` as ready."""
        until = time.monotonic() + patience
        for name in names or self.names:
            with self.connect(name, caller=name) as node:  # its own people are told all
                while not all(node.members.get(each) == "ready" for each in among or self.names):
                    assert time.monotonic() < until, f"{name} sees {node.members}\n{self.log(name)}"
                    time.sleep(0.05)
        return self

    def kill(self, name, number=signal.SIGKILL):
        self.processes[name].send_signal(number)
        return self.processes[name].wait(PATIENCE) if number in (signal.SIGKILL, signal.SIGTERM) else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait()

    def collective(self, without=(), **settings):
        """The same agents in this process."""
        settings = {"guard": self.guard, **settings}
        return Collective([agent for agent in self.agents if agent.name not in without], **settings)
