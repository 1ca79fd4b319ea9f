"""Processes that tests watch and kill."""

import time
from pathlib import Path


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
