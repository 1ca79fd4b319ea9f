"""Two versions side by side: nodes of this version and of the one before, from a wheel, answer together."""

import os
import subprocess
import sys

import numpy as np
import pytest
from support.consortium import CLIENT, Consortium
from support.drills import EXACT, points, right, until
from support.under_load import UnderLoad, read_log
from support.version_before import install

pytestmark = pytest.mark.slow

OLD, NEW = "node1", ("node0", "node2")
MODES = {
    "pooled": {},
    "own, with queries": {"evidence": "own", "use": ["query"]},
    "own, with copies": {"evidence": "own", "may": ["query", "copy"], "use": ["copy"]},
}
COMMAND = "import sys; from degroot.cli import main; main()"


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    """Where the version before is installed."""
    return install(tmp_path_factory.mktemp("before"))


def make_old(consortium, name):
    """Leave out of a node's file what the version before does not know."""
    path = consortium.folder / name / "node.toml"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if not line.startswith("heartbeat_seconds")))


def start(consortium, name, installed=None):
    """Start a node of this version, or of the one that is installed there."""
    consortium.start(name, environment={} if installed is None else {"PYTHONPATH": str(installed)})


def run_command(installed, *arguments):
    """Run `degroot` of the version that is installed there; None: this one."""
    environment = os.environ if installed is None else {**os.environ, "PYTHONPATH": str(installed)}
    return subprocess.run(
        [sys.executable, "-c", COMMAND, *map(str, arguments)], capture_output=True, text=True, env=environment
    )


def ask_all(consortium, without=()):
    """Ask every node, in every way; answers are those of one process."""
    X = points()
    for name in consortium.names:
        for way in ("solve", "rounds") if consortium.evidence == "pooled" else ("solve",):
            with consortium.connect(name, caller=name, way=way, **EXACT) as node:  # its own people see all fields
                right(node.consult(X), consortium, X, without)


@pytest.mark.parametrize("mode", MODES)
def test_nodes_of_both_versions_answer_together_and_one_is_upgraded_under_load(tmp_path, before, mode):
    with Consortium(tmp_path, 3, timing="receipt_seconds = 1", **MODES[mode]) as consortium:
        make_old(consortium, OLD)
        start(consortium, OLD, before)
        for name in NEW:
            start(consortium, name)
        consortium.ready()
        ask_all(consortium)
        commands = check_commands(consortium, before, tmp_path)
        assert commands == 4
        for name in NEW:  # receipts: both ends have the same digests, whatever version the messages were in
            assert read_log(consortium, name, "ledgers differ") == []
        asked = NEW[0]
        with UnderLoad(consortium, asked) as asking:
            consortium.kill(OLD, 15)
            start(consortium, OLD)
            consortium.ready()
            served = len(asking.answers)
            until(lambda: len(asking.answers) > served + 5, "nothing is answered")
        assert set(asking.reasons) <= {OLD}
        ask_all(consortium)
        consortium.kill(OLD, 15)  # and back again
        start(consortium, OLD, before)
        consortium.ready()
        ask_all(consortium)
        for name in NEW:
            assert read_log(consortium, name, "ledgers differ") == []


def check_commands(consortium, before, folder):
    """`degroot ask` of each version to a node of each gives the same answers; how many were compared."""
    rows, answers = folder / "rows.csv", []
    np.savetxt(rows, points(7), delimiter=",", header="x0,x1,x2", comments="")
    keys = consortium.credentials(CLIENT)
    consensus = ["--consensus"] if consortium.evidence == "pooled" else []
    for name in (OLD, NEW[0]):
        for installed in (before, None):
            output = folder / f"{name}-{installed is None}.csv"
            ended = run_command(
                installed, "ask", "--node", f"{name}@127.0.0.1:{consortium.ports[name]}", "--ca", keys["ca"],
                "--certificate", keys["certificate"], "--key", keys["key"], "--input", rows, "--output", output,
                *consensus,
            )  # fmt: skip
            assert ended.returncode == 0, ended.stderr
            answers.append(np.loadtxt(output, delimiter=",", skiprows=1, usecols=0, converters=strip_quotes))
    for ours, theirs in ((answers[0], answers[1]), (answers[2], answers[3])):
        np.testing.assert_allclose(ours, theirs)
    if consensus:
        np.testing.assert_allclose(answers[0], answers[2], rtol=1e-9)
    return len(answers)


def strip_quotes(text):
    """A number in a field of a CSV file."""
    return float(text.strip('"'))
