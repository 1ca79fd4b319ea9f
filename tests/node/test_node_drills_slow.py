"""Failure drills with real processes that need more of the machine: clocks that are off, networks of their own."""

import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.consortium import Consortium
from support.drills import EXACT, WAYS, points, queried, right, whole

from degroot.node.records.ledger import summary

pytestmark = pytest.mark.slow


MODES = {
    "pooled": {},
    "own, with queries": {"evidence": "own", "use": ["query"]},
    "own, with copies": {"evidence": "own", "may": ["query", "copy"], "use": ["copy"]},
}


@pytest.mark.parametrize("mode", MODES)
def test_clocks_that_are_off_do_not_matter(tmp_path, mode):
    if shutil.which("cc") is None:
        pytest.skip("a C compiler is needed to shift a process's clock")
    library, X = tmp_path / "skew.so", points()
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-o", library, Path(__file__).parents[1] / "support" / "skew.c", "-ldl"], check=True
    )

    def start(consortium, name, hours):
        consortium.start(name, environment={"LD_PRELOAD": str(library), "SKEW_SECONDS": str(hours * 3600)})

    def ask(consortium, name, without=()):
        for way in WAYS if mode == "pooled" else ["solve"]:
            with consortium.connect(name, caller=name, way=way, **EXACT) as node:
                right(node.consult(X), consortium, X, without)

    with Consortium(tmp_path, 3, **MODES[mode]) as consortium:
        start(consortium, "node0", 20 * 24)
        start(consortium, "node1", -20)
        consortium.start("node2")
        whole(consortium)
        for name in consortium.names:
            ask(consortium, name)
        ahead, behind = (
            max(line.last for line in summary(consortium.configuration(name).ledger)) for name in ("node0", "node1")
        )
        assert ahead > datetime.now(UTC) + timedelta(days=19)
        assert behind < datetime.now(UTC) - timedelta(hours=19)
        asked = {name: queried(consortium, name) for name in consortium.names}
        for name, hours in (("node0", -20), ("node1", 20 * 24)):  # a clock that is set while the node is down
            consortium.kill(name)
            start(consortium, name, hours)
        whole(consortium)
        consortium.kill("node2")
        ask(consortium, "node0", [] if "copies" in mode else ["node2"])  # a copy needs its owner no more
        assert {name: queried(consortium, name) for name in consortium.names} == asked


@pytest.mark.parametrize(
    "drill",
    [
        ["network", "pooled"],  # the way between two of five is cut
        ["network", "own"],
        ["one_way"],  # one of three cannot be dialled
    ],
    ids=" ".join,
)
def test_networks_of_their_own(tmp_path, drill):
    command = ["unshare", "-rnmpf", "--mount-proc", "--kill-child"]  # whatever happens, nothing is left running
    trial = [*command, "ip", "link", "add", "bridge", "type", "bridge"]
    if any(shutil.which(each) is None for each in ("unshare", "nsenter", "ip")) or subprocess.run(trial).returncode:
        pytest.skip("networks in namespaces cannot be had here; other tests cut with proxies and closed ports")
    name, *settings = drill
    words = [*command, sys.executable, "-m", f"support.{name}", str(tmp_path), *settings]
    subprocess.run(words, cwd=Path(__file__).parents[1], check=True, timeout=600)
