"""Processes that tests watch and kill."""

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest


def wait_for(condition, run=None, seconds=120):
    """What `condition` gives, once that is true; `run` is a process that must not end before."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert run is None or run.poll() is None, run.communicate()
        assert time.monotonic() < end
        time.sleep(0.01)
    return found


def processes_of(pid, title):
    """The processes below `pid` whose title begins so."""
    parents = {int(path.name): parent_of(path) for path in Path("/proc").iterdir() if path.name.isdigit()}

    def below(child):
        while child in parents:
            child = parents[child]
            if child == pid:
                return True
        return False

    return [child for child in parents if below(child) and title_of(child).startswith(title)]


def parent_of(path):
    try:
        return int((path / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def title_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def on_small_disk(script: str, folder: Path, *, size: str) -> subprocess.CompletedProcess[str]:
    """Run a script that is given a disk of its own, which goes when it ends."""
    unshare = ["unshare", "--user", "--map-root-user", "--mount"]
    if not shutil.which("unshare") or subprocess.run([*unshare, "true"], capture_output=True).returncode:
        pytest.skip("a small disk needs user namespaces, which this machine does not allow")
    mounted = f'mount -t tmpfs -o size={size} none "$1" && exec "$2" -c "$3" "$1"'
    command = [*unshare, "sh", "-c", mounted, "sh", str(folder), sys.executable, script]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)
