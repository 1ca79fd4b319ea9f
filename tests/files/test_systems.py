"""What runs on systems without POSIX locks, such as Windows. A process of its own stands in for one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

from degroot import Agent, Collective
from degroot.batch import predict_files
from degroot.files import atomic

NAMES = ["x0", "x1"]
ELSEWHERE = '''
import asyncio, contextlib, fcntl, importlib, io, json, multiprocessing, pkgutil, signal, subprocess, sys, types

flock, EXCLUSIVE = fcntl.flock, fcntl.LOCK_EX | fcntl.LOCK_NB

def locking(number, mode, count):
    """As in Windows: the next `count` bytes, which nobody else may hold."""
    assert (mode, count) in ((msvcrt.LK_NBLCK, 1), (msvcrt.LK_UNLCK, 1))
    try:
        flock(number, EXCLUSIVE if mode == msvcrt.LK_NBLCK else fcntl.LOCK_UN)
    except OSError:
        raise PermissionError(13, "Permission denied") from None

msvcrt = types.ModuleType("msvcrt")
msvcrt.LK_UNLCK, msvcrt.LK_NBLCK, msvcrt.locking = 0, 2, locking
sys.modules |= {"msvcrt": msvcrt} | dict.fromkeys(["fcntl", "resource", "pwd", "grp", "termios"])
del signal.SIGHUP, signal.SIGKILL

import degroot

for name in ("batch", "cli", "demo", "files", "node", "saved", "training"):
    package = importlib.import_module(f"degroot.{name}")
    for module in pkgutil.walk_packages(package.__path__, f"degroot.{name}."):
        if module.name != "degroot.batch.ray":  # where Ray runs is Ray's own matter
            importlib.import_module(module.name)

from degroot import cli
from degroot.files.lock import HAS_POSIX_LOCKS, try_lock

with open("lock", "a") as one, open("lock", "a") as other:
    told = [(HAS_POSIX_LOCKS, try_lock(one), try_lock(other))]
for command in json.loads(sys.argv[1]):
    sys.argv = ["degroot", *command]
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        try:
            cli.main()
        except SystemExit as ended:
            told.append((ended.code or 0, out.getvalue(), err.getvalue()))
print(json.dumps(told))
'''


def run_elsewhere(folder, *commands):
    """What the locks came to, and then what each command did: its exit code and what it printed."""
    command = [sys.executable, "-W", "error", "-c", ELSEWHERE, json.dumps([list(map(str, each)) for each in commands])]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def home(tmp_path):
    """A saved collective, two files of rows, and one with a bad row."""
    random, agents = np.random.default_rng(1), []
    for k in range(2):
        X = random.normal(k, 1.0, size=(40, 2))
        agents.append(Agent(Ridge().fit(X, X[:, k]), X, X[:, k], f"a{k}"))
    Collective(agents).save(tmp_path / "saved")
    for name in ("a", "b"):
        pd.DataFrame(random.normal(size=(30, 2)), columns=NAMES).to_csv(tmp_path / f"{name}.csv", index=False)
    pd.DataFrame({"x0": [1.0], "x1": ["?"]}).to_csv(tmp_path / "c.csv", index=False)
    return tmp_path


def test_files_are_predicted_and_nodes_say_where_they_run(home):
    predict = ["predict", "--collective", "saved", "--jobs", 1, "--input"]
    locks, whole, broken, stopped, other, anew, _, node, check, demo = run_elsewhere(
        home,
        [*predict, "?.csv", "--output", "out/null.csv", "--on-bad-row", "null"],
        [*predict, "c.csv", "--output", "broken.csv"],
        [*predict, "?.csv", "--output", "out/stopped.csv"],
        [*predict, "a.csv", "--output", "out/stopped.csv"],
        [*predict, "a.csv", "--output", "out/stopped.csv", "--restart"],
        ["node", "init", "north"],
        ["node", "run", "north.toml"],
        ["node", "check", "north.toml"],
        ["demo"],
    )
    assert locks == [False, True, False]
    assert (whole[0], whole[1].split(";")[:2], whole[2]) == (0, ["61 rows", " 1 bad"], "")
    here = predict_files(home / "saved", [home / "?.csv"], home / "here" / "null.csv", on_bad_row="null")
    assert (home / "out" / "null.csv").read_bytes() == here.output.read_bytes()
    for code, _, told in (broken, stopped):
        assert (code, "row 1 of c.csv: 'x1' is '?'" in told) == (2, True), told
    assert (other[0], "it had other inputs. `restart` begins anew." in other[2]) == (2, True), other
    assert (anew[0], anew[1].split(";")[:2]) == (0, ["30 rows", " 0 bad"]), anew
    assert sorted(path.name for path in (home / "out").iterdir()) == ["null.csv", "stopped.csv"]
    assert not list(home.rglob("*.unfinished"))
    for code, out, told in (node, check, demo):
        assert (code, out, told.count("\n")) == (2, "", 1)
        assert told.startswith("degroot: A node must run on Linux or macOS: it needs POSIX locks, signals and file ")


@pytest.mark.parametrize("windows", [False, True])
def test_folders_are_synced_where_they_can_be_opened(tmp_path, monkeypatch, windows):
    monkeypatch.setattr(atomic, "WINDOWS", windows)
    opened, really = [], os.open

    def watch(path, flags):
        opened.append((Path(path), flags))
        return really(path, flags)

    monkeypatch.setattr(os, "open", watch)
    (tmp_path / "new").write_text("whole")
    atomic.publish(tmp_path / "new", tmp_path / "out")
    assert (tmp_path / "out").read_text() == "whole"
    file = (tmp_path / "new", os.O_RDWR if windows else os.O_RDONLY)
    assert opened == ([file] if windows else [file, (tmp_path, os.O_RDONLY)])
