"""The image: its linter finds nothing, and its steps make a root in which a node runs that may write next to nothing.

Nothing here runs `docker build`: there is no daemon where these tests were written.
"""

import contextlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.consortium import Consortium
from support.drills import until
from support.image import ROOT, Image, make_base, read_steps

CONTAINERFILE = ROOT / "deploy" / "Containerfile"
HADOLINT = shutil.which("hadolint") or shutil.which("hadolint", path=Path(sys.executable).parent)


@pytest.mark.skipif(HADOLINT is None, reason="hadolint is not installed: make linters")
def test_hadolint_finds_nothing(tmp_path):
    done = subprocess.run([HADOLINT, CONTAINERFILE], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")
    worse = tmp_path / "Containerfile"
    worse.write_text(CONTAINERFILE.read_text().replace("WORKDIR /etc/degroot", "WORKDIR etc"))
    assert subprocess.run([HADOLINT, worse], capture_output=True).returncode  # it does look


def test_what_is_copied_is_let_through_to_the_builder_and_nothing_else():
    ignored = (ROOT / "deploy" / "Containerfile.dockerignore").read_text().splitlines()
    let_through = {line[1:] for line in ignored if line.startswith("!")}
    copied = {
        source
        for word, told in read_steps(CONTAINERFILE.read_text())
        for source in told.split()[:-1]
        if word == "COPY" and not told.startswith("--from=")
    }
    assert copied == let_through
    assert all((ROOT / source).exists() for source in copied)


@pytest.mark.slow  # it makes a small Debian, and installs the node there
def test_a_node_runs_in_the_root_that_the_steps_make(tmp_path):
    image = Image(CONTAINERFILE.read_text(), make_base(tmp_path / "base"), tmp_path)
    with contextlib.ExitStack() as stack:
        stack.enter_context(Consortium(tmp_path, 1, evidence="own"))
        home = tmp_path / "configuration"
        shutil.copytree(tmp_path / "node0", home)
        for name in ("ca.pem", "node0.pem", "node0.key"):
            shutil.copy(tmp_path / "keys" / name, home)
        text = (home / "node.toml").read_text().replace("../keys/", "")
        text = text.replace('state = "state"', 'state = "/var/lib/degroot/north"')
        (home / "node.toml").write_text(f"{text}[metrics]\nport = 9443\n")
        for path in (home, *home.iterdir()):
            shutil.chown(path, *map(int, image.user.split(":")))
        log = tmp_path / "log"
        container = stack.enter_context(Container(image.start(home, tmp_path / "state", log), log))
        until(lambda: container.ask("ready") == "200 ready", log.read_text, 600)
        assert container.ask("live") == "200 alive"
        assert container.status["Uid"] == ["10001"] * 4
        assert (container.status["CapEff"], container.status["NoNewPrivs"]) == (["0000000000000000"], ["1"])
        assert any((image.root / "opt/degroot").rglob("objects/*/*.o"))
        assert not (container.root / "tmp/kernels").exists()  # none was compiled anew
        assert [path.name for path in (tmp_path / "state").iterdir()] == ["north"]
        for place in ("opt/degroot", "etc/degroot", "usr", ""):
            with pytest.raises(OSError, match="Read-only file system"):
                (container.root / place / "written").touch()
        assert container.stop() == 0
        assert '"event": "stopped"' in log.read_text()


class Container:
    """A node in namespaces."""

    def __init__(self, process, log):
        self._process, self._log = process, log

    @property
    def pid(self):
        """Of the node, which is process 1 in there; None as long as there is none."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        return children[0] if children else None

    @property
    def root(self):
        return Path(f"/proc/{self.pid}/root")

    @property
    def status(self):
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return {name: value.split() for name, _, value in (line.partition(":\t") for line in lines)}

    def ask(self, path):
        """Status and text of a reply on the port for probes."""
        assert self._process.poll() is None, self._log.read_text()
        if self.pid is None:
            return ""
        code = f"""
import http.client
connection = http.client.HTTPConnection("127.0.0.1", 9443, timeout=60)
connection.request("GET", "/{path}")
reply = connection.getresponse()
print(reply.status, reply.read().decode().strip())
"""
        done = subprocess.run(
            ["nsenter", "-t", self.pid, "-n", sys.executable, "-c", code], capture_output=True, text=True, timeout=120
        )
        return done.stdout.strip()

    def stop(self):
        subprocess.run(["kill", "-TERM", self.pid], check=True)
        return self._process.wait(120)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
