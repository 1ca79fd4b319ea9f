"""How a node starts: what it loads, and how soon it finds peers that start after it."""

import os
import subprocess
import sys
import urllib.error
import urllib.request

import numpy as np
import pytest
from support.consortium import QUIET, Consortium, free_ports
from support.drills import until

REPORT = """
import sys
from pathlib import Path
from degroot.node.config import read
from degroot.node.server.run import run
from degroot.node.server.service_manager import ServiceManager
tell_stopping = ServiceManager.tell_stopping
def report(self):
    Path(sys.argv[2]).write_text("\\n".join(sys.modules))
    tell_stopping(self)
ServiceManager.tell_stopping = report
run(read(Path(sys.argv[1])))
"""
PAGE = {"fastapi", "starlette", "uvicorn", "jinja2", "degroot.node.page.app"}
UNUSED = {
    "sklearn", "scipy.sparse", "pandas", "skops", "matplotlib", "joblib", "numba", "typer", "opendp", "onnx",
    "degroot.cli", "degroot.estimators", "degroot.training", "degroot.paper", "degroot.node.report",
    "degroot.node.state.backup",
}  # fmt: skip


@pytest.mark.parametrize("has_page", [False, True])
def test_a_node_loads_what_it_uses(tmp_path, has_page):
    from skl2onnx import to_onnx

    with Consortium(tmp_path, 2, evidence="own") as consortium:
        for agent in consortium.agents:
            agent.model.intercept_ = np.float64(agent.model.intercept_)
            home = tmp_path / agent.name
            (home / "model.onnx").write_bytes(to_onnx(agent.model, agent.X[:1]).SerializeToString())
            page = f"[page]\nport = {free_ports(1)[0]}\n" if has_page else ""
            text = (home / "node.toml").read_text().replace("model.skops", "model.onnx")
            (home / "node.toml").write_text(text + page)
        consortium.fork("node1")
        file = tmp_path / "node0/node.toml"
        with (tmp_path / "node0/log").open("ab") as log:
            consortium.processes["node0"] = subprocess.Popen(
                [sys.executable, "-c", REPORT, file, tmp_path / "modules"], stderr=log, env={**os.environ, **QUIET}
            )
        consortium.ready()
        with consortium.connect("node0", caller="node0") as node:
            node.consult(np.zeros((1, 3)), "value", coverage=0.9)
            node.consult(np.zeros((100, 3)))
        consortium.processes["node0"].terminate()
        assert consortium.processes["node0"].wait(60) == 0
    loaded = set((tmp_path / "modules").read_text().split())
    assert "degroot.node.server.service" in loaded
    assert sorted(loaded & UNUSED) == []
    assert loaded & PAGE == (PAGE if has_page else set())


def test_a_peer_that_starts_later_is_found_when_it_calls(tmp_path):
    with Consortium(tmp_path, 2, evidence="own") as consortium:
        for name in consortium.names:
            file = tmp_path / name / "node.toml"
            file.write_text(file.read_text().replace("probe_seconds = 0.2", "probe_seconds = 3600"))
        consortium.fork("node0")
        await_missing_peer(consortium)
        consortium.fork("node1").ready()


def test_a_node_that_needs_a_quorum_is_ready_when_its_peers_are(tmp_path):
    with Consortium(tmp_path, 2) as consortium:
        (port,) = free_ports(1)
        file = tmp_path / "node0/node.toml"
        text = file.read_text().replace("probe_seconds = 0.2", "probe_seconds = 3600")
        file.write_text(f"{text}\n[metrics]\nport = {port}\n")
        consortium.fork("node0")
        await_missing_peer(consortium)
        assert not is_ready(port)
        consortium.fork("node1").ready()
        until(lambda: is_ready(port), lambda: consortium.log("node0"))


def await_missing_peer(consortium):
    log = consortium.folder / "node0/log"
    until(lambda: log.exists() and "peer not ready" in log.read_text(), "node0 does not miss its peer")


def is_ready(port):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=60) as reply:
            return reply.status == 200
    except urllib.error.HTTPError:
        return False
