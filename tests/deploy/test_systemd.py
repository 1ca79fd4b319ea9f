"""The unit: systemd finds no fault with it, and a node runs under it, with all its hardening."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from support.consortium import Consortium
from support.drills import until
from support.systemd import Systemd, check_possible

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "deploy" / "systemd" / "degroot-node@.service"
MOST_EXPOSED = 1.5  # of 10, as systemd-analyze counts; the network and compiled code are what is left
NODE = "degroot-node@node0"

needs_analyze = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")


@needs_analyze
def test_systemd_understands_every_line_of_the_unit(tmp_path):
    command = re.search(r"^ExecStart=(\S+)", UNIT.read_text(), re.MULTILINE)[1]
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace(command, "/bin/true"))  # which is there
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    unit.write_text(unit.read_text().replace("RestrictRealtime=yes", "RestrictRealtimes=yes"))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True)
    assert "RestrictRealtimes" in done.stderr  # it does look


@needs_analyze
def test_the_unit_leaves_little_open():
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", UNIT]
    done = subprocess.run(command, capture_output=True, text=True)
    told = re.search(r"Overall exposure level .*: ([\d.]+)", done.stdout)
    assert float(told[1]) <= MOST_EXPOSED, done.stdout


@pytest.mark.slow  # the node compiles its kernels
def test_a_node_runs_under_systemd_reloads_and_stops(tmp_path):
    check_possible()
    with Consortium(tmp_path, 1, evidence="own"):
        home = tmp_path / "etc" / "node0"
        home.mkdir(parents=True)
        for path in (*(tmp_path / "node0").iterdir(), *(tmp_path / "keys").glob("*.pem"), tmp_path / "keys/node0.key"):
            shutil.copy(path, home)
        text = (home / "node.toml").read_text().replace("../keys/", "")
        text = text.replace('state = "state"', 'state = "/var/lib/degroot/node0"')
        (home / "node.toml").write_text(f"{text}[metrics]\nport = 9443\n")
        with Systemd(tmp_path, UNIT, tmp_path / "etc") as systemd:
            systemd.run("systemctl", "start", NODE)
            assert systemd.show(NODE, "ActiveState") == "active"
            assert systemd.show(NODE, "StatusText") == "the node can answer"
            assert systemd.show(NODE, "User") == "degroot"
            assert "ready\n" in systemd.run("curl", "-s", "http://127.0.0.1:9443/ready")
            assert systemd.run("ls", "/var/cache/degroot/node0")  # kernels, which the next start finds
            process = systemd.show(NODE, "MainPID")
            assert "NoNewPrivs:\t1" in systemd.run("cat", f"/proc/{process}/status")
            systemd.run("systemctl", "reload", NODE)
            until(lambda: '"event": "reloaded"' in systemd.read_output(), lambda: systemd.read_output())
            until(lambda: systemd.show(NODE, "ActiveState") == "active", lambda: systemd.show(NODE, "ActiveState"))
            assert systemd.show(NODE, "MainPID") == process
            systemd.run("systemctl", "stop", NODE)
            assert systemd.show(NODE, "Result") == "success"
            assert '"event": "stopped"' in systemd.read_output()
            systemd.run("sh", "-c", "echo 'x = 1' >> /etc/degroot/node0/node.toml")
            systemd.run("systemctl", "start", NODE, check=False)
            assert systemd.show(NODE, "ExecMainStatus") == "2"
            assert systemd.show(NODE, "NRestarts") == "0"  # a mistake is not started again
