"""`degroot predict --engine ray`: the same bytes as on one machine, also when processes are killed in the middle."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge
from support.processes import alive, processes_of, wait_for

from degroot import Agent, Collective

pytest.importorskip("ray")

NAMES = ["x0", "x1", "x2"]
FILES, ROWS = 16, 20_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A collective, and its input in many files."""
    random, agents = np.random.default_rng(1), []
    for k in range(2):
        X = pd.DataFrame(random.normal(k / 2, 1.0, size=(200, 3)), columns=NAMES)
        y = (np.sin(X) @ np.array([1.0, -2.0, k])).to_numpy()
        agents.append(Agent(Ridge().fit(X, y), X, y, f"a{k}"))
    folder = tmp_path_factory.mktemp("cluster")
    Collective(agents).save(folder / "collective")
    (folder / "in").mkdir()
    for k in range(FILES):
        table = pd.DataFrame(random.normal(size=(ROWS, 3)), columns=NAMES).assign(id=np.arange(ROWS))
        table.to_parquet(folder / "in" / f"{k:03}.parquet")
    return folder


@pytest.fixture(scope="module")
def local(folder):
    """The answers without Ray."""
    run = predict(folder, "in", "local.parquet", "--keep", "id")
    _, err = run.communicate(timeout=600)
    assert run.returncode == 0, err
    return (folder / "local.parquet").read_bytes()


@pytest.fixture
def on_ray(folder):
    """Starts the command with the engine, in a Ray of its own."""
    place = tempfile.mkdtemp(prefix="r")  # a short path: it is a socket's too
    started = []

    def run(*arguments):
        started.append(predict(folder, *arguments, "--engine", "ray", RAY_TMPDIR=place))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.communicate()
    shutil.rmtree(place, ignore_errors=True)


def predict(folder, given, output, *arguments, **environment):
    start = [sys.executable, "-c", "from degroot.cli import main; main()"]
    command = [*start, "predict", "--collective", "collective", "--input", given]
    return subprocess.Popen(
        [*command, "--output", output, *arguments],
        cwd=folder, env=os.environ | environment, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("placement", "titles"), [("workers", ["ray::ShardWorker"]), ("agents", ["ray::Actor", "ray::ShardWorker"])]
)
def test_the_same_bytes_after_kills(folder, local, on_ray, placement, titles):
    output = folder / f"killed-{placement}.parquet"
    run = on_ray("in", output.name, "--keep", "id", "--placement", placement)
    wait_for(lambda: finished(output) >= 2, run)
    killed = []
    for title in titles:
        killed.append(wait_for(lambda title=title: processes_of(run.pid, title), run)[0])
        os.kill(killed[-1], signal.SIGKILL)
    assert not output.exists()  # it was in the middle
    wait_for(lambda: set(processes_of(run.pid, titles[0])) - set(killed), run)
    out, err = run.communicate(timeout=600)
    assert run.returncode == 0, err
    assert out.startswith(f"{FILES * ROWS:,} rows; 0 bad; ")
    assert output.read_bytes() == local


@pytest.mark.slow
@pytest.mark.parametrize("placement", ["workers", "agents"])
def test_a_killed_command_goes_on_with_the_same_bytes(folder, local, on_ray, placement):
    output = folder / f"resumed-{placement}.parquet"
    run = on_ray("in", output.name, "--keep", "id", "--placement", placement)
    wait_for(lambda: finished(output) >= 2, run)
    workers = [*processes_of(run.pid, "ray::Actor"), *processes_of(run.pid, "ray::ShardWorker")]
    assert workers
    run.kill()
    run.communicate()
    assert not output.exists()
    wait_for(lambda: not any(map(alive, workers)))  # nothing stays behind
    run = on_ray("in", output.name, "--keep", "id", "--placement", placement)
    out, err = run.communicate(timeout=600)
    assert run.returncode == 0, err
    assert "of them before" in out
    assert output.read_bytes() == local
    assert sorted(path.name for path in folder.glob(f"{output.stem}*")) == [output.name]


def test_no_cluster_at_the_address(folder, degroot, monkeypatch):
    monkeypatch.chdir(folder)
    about = ["--collective", "collective", "--input", "in", "--output", "out.parquet"]
    code, out, err = degroot("predict", *about, "--engine", "ray", "--address", "127.0.0.1:1")
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert err.startswith("degroot: There must be a Ray cluster at 127.0.0.1:1; ")
    assert not list(folder.glob("out.parquet*"))


def finished(output):
    """How many shards are in the manifest."""
    manifest = Path(f"{output}.unfinished", "manifest.jsonl")
    return manifest.read_text().count('"part"') if manifest.exists() else 0
