"""Compile what a node computes with into the folder NUMBA_CACHE_DIR, when an image is built.

It answers as a node does before it serves, with made-up rows, once by each rule.
"""

import tempfile
from pathlib import Path

import numpy as np
import skops.io
from sklearn.linear_model import LinearRegression

from degroot.node.config import read
from degroot.node.scoring.load import load_scored_agent, warm_up
from degroot.rules.rules import RULES

CONFIGURATION = """
name = "kernels"
listen = "127.0.0.1:7443"
state = "state"
[model]
file = "model.skops"
[data]
file = "rows.csv"
target = "y"
[collective]
rule = "{rule}"
"""


def compile_kernels(folder: Path) -> None:
    """Answer by each rule, from files in a folder."""
    rows = np.random.default_rng(0).normal(size=(60, 3))
    np.savetxt(folder / "rows.csv", rows, delimiter=",", header="x0,x1,y", comments="")
    skops.io.dump(LinearRegression().fit(rows[:, :2], rows[:, 2]), folder / "model.skops")
    for rule in RULES:
        (folder / "node.toml").write_text(CONFIGURATION.format(rule=rule))
        warm_up(load_scored_agent(read(folder / "node.toml")))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        compile_kernels(Path(made))
