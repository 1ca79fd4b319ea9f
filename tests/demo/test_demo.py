"""`degroot demo`: it shows what it promises with real processes, and leaves nothing behind however it ends."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from degroot import Consensus, DeGrootError
from degroot.demo.comparison import XI, DemoPoints, compare, difference, in_process
from degroot.demo.consortium import Consortium
from degroot.demo.organisations import NAMES, organisations

DEMO = [sys.executable, "-c", "from degroot.cli import main; main()", "demo", "--out"]


def processes(word):
    """The command lines of all processes with this word in them, by number."""
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except (OSError, UnicodeDecodeError):
            continue
        if entry.name.isdigit() and word in command:
            found[int(entry.name)] = command
    return found


def wait_until(condition, what, patience=180.0):
    until = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < until, what
        time.sleep(0.05)


@pytest.fixture
def place(tmp_path):
    """A folder of its own for temporary files."""
    (tmp_path / "temporary").mkdir()
    return tmp_path


def begun(place):
    environment = os.environ | {"TMPDIR": str(place / "temporary"), "COLUMNS": "100"}
    return subprocess.Popen(
        [*DEMO, str(place / "out")], env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def nodes_of(place):
    return processes(str(place / "temporary"))


def test_five_nodes_answer_and_one_is_lost(place):
    demo = begun(place)
    out, err = demo.communicate(timeout=300)
    assert (demo.returncode, err) == (0, "")
    before, after = out.split("turin is killed")
    for name in NAMES:
        assert re.search(rf"{name}.*4/4 models scored", before)
    assert "missing: unreachable" in after
    rows = [line.split("│")[1:-1] for line in out.splitlines() if line.startswith("│")]
    n = len(XI)
    answers, spread = [rows[:n], rows[2 * n : 3 * n]], []
    for row in (*answers[0], *answers[1]):
        spread.append(float(row[-1].split("±")[1]))
        assert len(row) == 6
    assert min(spread) > 0
    weights = [np.array([[float(cell) for cell in row[1:]] for row in rows[k * n : (k + 1) * n]]) for k in (1, 3)]
    assert np.allclose([each.sum(axis=1) for each in weights], 1, atol=0.03)  # as they are rounded
    assert weights[0][:, -1].max() > 0.1
    assert not weights[1][:, -1].any()  # whoever is missing has no weight
    errors, differences = np.array([[float(cell) for cell in row[1:4]] for row in rows[-4:-2]]), rows[-2:]
    assert (errors[:, 0] < errors[:, 1:].min(axis=1)).all()  # better than the average and than any single model
    asked = np.array([[float(cell) for cell in row[1:4]] for row in rows[-6:-4]])
    assert (asked[:, 1] < asked[:, 0]).all()  # whoever asks gains: its view is better than its own model
    for row in differences:
        assert float(row[1]) < 1e-12
        assert float(row[2]) < 1e-6
    assert (place / "out" / "degroot-demo.png").stat().st_size > 10_000
    assert not any((place / "temporary").iterdir())
    assert not nodes_of(place)


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_nothing_is_left_when_it_is_interrupted(place, number):
    demo = begun(place)
    try:
        wait_until(lambda: len(nodes_of(place)) == len(NAMES), "the nodes must start")
        demo.send_signal(number)
        _, err = demo.communicate(timeout=60)
        assert demo.returncode == 130
        assert err.endswith("degroot: stopped; nothing is left of the nodes\n")
        wait_until(lambda: not nodes_of(place), "the nodes must end")
        assert not any((place / "temporary").iterdir())
    finally:
        demo.kill()


@pytest.mark.slow
def test_nodes_end_with_the_demonstration_however_that_ends(place):
    demo = begun(place)
    try:
        wait_until(lambda: len(nodes_of(place)) == len(NAMES), "the nodes must start")
    finally:
        demo.kill()
    demo.communicate(timeout=60)
    wait_until(lambda: not nodes_of(place), "the nodes must end")


def test_a_node_that_ends_is_an_error_and_nothing_is_left(monkeypatch, place):
    monkeypatch.setenv("TMPDIR", str(place / "temporary"))
    monkeypatch.setattr("tempfile.tempdir", None)
    with Consortium(agents()[:2]) as nodes:  # basel and delft
        (nodes.folder / "delft" / "rows.csv").unlink()
        with pytest.raises(DeGrootError, match=r"'delft' must run; it has ended: .*rows\.csv"):
            list(nodes.calibration())
    assert not nodes_of(place)
    assert not any((place / "temporary").iterdir())


def test_without_the_extra_it_says_what_to_install(tmp_path):
    argv = ["degroot", "demo", "--out", str(tmp_path)]
    code = f"import sys; sys.modules['cryptography'] = None; sys.argv = {argv!r}; from degroot import cli; cli.main()"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 2
    assert "pip install 'degroot[node]'" in ended.stderr


def agents():
    return organisations(0)


class ForFirst:
    """A collective that answers as the first agent's node does: from its own view."""

    def __init__(self, collective):
        self.collective = collective

    def predict(self, X):
        return self.consult(X, ["value"]).value

    def consult(self, X, fields):
        return self.collective.consult(X, fields, asker=self.collective.names[0])


def test_compared_with_itself_there_is_no_difference():
    some = agents()[:3]
    points = DemoPoints.draw(0)
    situation = compare({"here": in_process(some)}, ForFirst(in_process(some)), some, points)
    assert situation.differences == {"here": 0.0}
    assert situation.errors.best_single == min(
        np.mean((agent.predict(points.test) - 1 / (1 + np.exp(points.test.sum(axis=1)))) ** 2) for agent in some
    )
    assert situation.averages == pytest.approx(np.mean([agent.predict(points.listed) for agent in some], axis=0))


def test_the_largest_difference_is_found_wherever_it_is():
    one = Consensus(("a", "b", "c"), np.zeros(2), np.zeros(2), np.array([[0.5, 0.0, 0.5], [1.0, 0.0, 0.0]]))
    for field in ("value", "standard_error", "weights"):
        other = {name: np.array(getattr(one, name)) for name in ("value", "standard_error", "weights")}
        other["weights"] = other["weights"][:, [0, 2]]
        assert difference(one, Consensus(("a", "c"), **other)) == 0.0
        other[field].flat[1] += 0.25
        assert difference(one, Consensus(("a", "c"), **other)) == 0.25
