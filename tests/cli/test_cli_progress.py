"""Progress of commands: each stage is told on standard error, and standard output is the same with and without it."""

import io
import re
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from degroot.compute import progress

NAMES = ("north", "south", "west")
TRAIN = ("train", *(f"{name}.csv" for name in NAMES), "--target", "price", "--model", "linear")
PREDICT = ("predict", "--collective", "collective", "--input", "new.csv", "--output", "answers.csv")
EXPLAIN = ("explain", "--collective", "collective", "--input", "new.csv", "--coverage", "0.9")

TRAINING = [
    "Loading the library", "Reading files", "Inferring columns", "Encoding rows", "Training", "Comparing",
    "Training on all rows", "Measuring gains", "Writing the collective",
]  # fmt: skip
PREDICTING = ["Loading the library", "Opening the collective", "Counting rows", "Predicting", "Writing"]


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A file for each organisation, and one with rows to ask about."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    for k, name in enumerate((*NAMES, "new")):
        rows = pd.DataFrame(random.normal(k / 2, 1.0, size=(40, 2)), columns=["area", "age"])
        known = rows.assign(price=np.sin(rows["area"]) + k * rows["age"])
        (rows if name == "new" else known).to_csv(f"{name}.csv", index=False)
    return tmp_path


def list_stages(lines):
    """What the lines say is being done, each once, in order."""
    return list(dict.fromkeys(re.match(r"[^:(]+", line).group() for line in lines))


def is_in_order(stages, found):
    coming = iter(found)
    return all(stage in coming for stage in stages)


def test_lines_tell_the_stages_of_commands_and_standard_output_stays_clean(degroot, place, monkeypatch):
    quiet = [degroot(*TRAIN), degroot(*PREDICT), degroot(*EXPLAIN)]
    assert [each.err for each in quiet] == ["", "", ""]
    (place / "collective").rename(place / "before")
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    monkeypatch.setattr(progress, "INTERVAL", -1.0)
    told = [degroot(*TRAIN), degroot(*PREDICT), degroot(*EXPLAIN)]
    assert [each.code for each in told] == [0, 0, 0]
    assert is_in_order(TRAINING, list_stages(told[0].err.splitlines())), told[0].err
    assert is_in_order(PREDICTING, list_stages(told[1].err.splitlines())), told[1].err
    assert is_in_order(
        ["Opening the collective", "Reading new.csv", "Calibrating", "Asking"], list_stages(told[2].err.splitlines())
    )
    assert (told[0].out, told[2].out) == (quiet[0].out, quiet[2].out)


def test_a_terminal_has_one_line_that_is_gone_at_the_end(degroot, place, monkeypatch):
    quiet, terminal = degroot(*TRAIN), Terminal()
    (place / "collective").rename(place / "before")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=terminal, modules=sys.modules))
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    monkeypatch.setattr(progress, "TICK", 0.001)
    assert degroot(*TRAIN) == quiet
    lines = [line.strip() for line in terminal.getvalue().split("\r") if line.strip()]
    assert is_in_order(["Training", "Comparing"], [re.split(" [█░…]", line)[0] for line in lines])
    assert re.search(r"\r *\r$", terminal.getvalue())
    assert "\n" not in terminal.getvalue()
    assert "\x1b" not in terminal.getvalue()


def test_the_line_is_gone_before_a_complaint(degroot, place, monkeypatch, capsys):
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=terminal, modules=sys.modules))
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    code, out, err = degroot(*TRAIN[:3], "--target", "cost")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert re.search(r"\r *\r$", terminal.getvalue())
