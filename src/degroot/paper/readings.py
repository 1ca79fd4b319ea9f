"""Readings of table 1: what each way to read the paper's protocol gives, where it leaves a choice."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from degroot.paper import experiment, style, table1
from degroot.paper.data import Data
from degroot.paper.experiment import Finding, Row, Run, Task, here, plus_minus, repeated
from degroot.paper.models import SETTINGS
from degroot.paper.schemes import OF_TABLE_1

TITLE = "Readings: table 1 where the paper leaves a choice"
ABOUT = (
    "Table 1 on complete data under other readings of the protocol. The distance is the median over all gains of the "
    "difference between our mean and the printed one, in percentage points; the spread is the median of our standard "
    "deviation over the printed one. One reading differs from the printed protocol in the scale of the features: "
    "LIBSVM offers these data sets also with every feature in [-1, 1]."
)
RULE = "All gains that are printed beyond one standard deviation have the same sign."

ROWS = (
    ("boston", "Ridge"), ("boston", "Lasso"),
    ("abalone", "Ridge"), ("abalone", "Lasso"), ("abalone", "DTR"),
    ("cpusmall", "Ridge"), ("cpusmall", "Lasso"), ("cpusmall", "DTR"),
)  # fmt: skip
LARGE = ROWS[2:]
NETWORK = SETTINGS["boston"]["NN"]
SCALED_ONCE = {"features": "scaled", "split": "once"}

READINGS: Mapping[str, tuple[Iterable[tuple[str, str]], Mapping[str, Any]]] = {
    "as printed": (ROWS, {}),
    "scaled features": (ROWS, {"features": "scaled"}),
    "one split, dealt anew": (ROWS, {"split": "once"}),
    "scaled, one split": (ROWS, SCALED_ONCE),
    "scaled, one split, 500 test rows": (LARGE, {**SCALED_ONCE, "n_test": 500}),
    "2 agents": (ROWS, {"agents": 2}),
    "10 agents": (ROWS, {"agents": 10}),
    "Boston: 50 test rows": (ROWS[:2], {"n_test": 50}),
    "Boston: 152 test rows": (ROWS[:2], {"n_test": 152}),
    "NN: as in table 1": ([("boston", "NN")], {}),
    "NN: layers (8, 8)": ([("boston", "NN")], {"boston_network": replace(NETWORK, layers=(8, 8))}),
    "NN: eight layers of 8": ([("boston", "NN")], {"boston_network": replace(NETWORK, layers=(8,) * 8)}),
    "NN: labels not normalised": ([("boston", "NN")], {"boston_network": replace(NETWORK, normalise="features")}),
    "NN: batches of 16": ([("boston", "NN")], {"boston_network": replace(NETWORK, batch=16)}),
    "NN: scaled, one split": ([("boston", "NN")], SCALED_ONCE),
}


@dataclass(frozen=True, kw_only=True)
class Settings(experiment.Settings):
    """Which readings to compute."""

    readings: tuple[str, ...] = tuple(READINGS)


def trial(settings: Settings, random: np.random.Generator, reading: str, data: Data, model: str) -> Iterable[Row]:
    """The rows of table 1 under one reading."""
    changed = table1.Settings(seed=settings.seed, **READINGS[reading][1])
    return [row for row in table1.trial(changed, random, data, model) if row["scheme"] in OF_TABLE_1]


def tasks(settings: Settings = Settings()) -> list[Task]:
    """Every reading on the rows where it matters."""
    cases = [
        {"reading": reading, "data": data, "model": model}
        for reading in settings.readings
        for data, model in READINGS[reading][0]
    ]
    return repeated(trial, settings, cases)


def compute(settings: Settings = Settings(), run: Run = here) -> pd.DataFrame:
    """For each reading the rows of table 1."""
    return run(tasks(settings))


def findings(table: pd.DataFrame, settings: Settings = Settings()) -> list[Finding]:
    """For each reading how many signs are as printed, how far the gains are from them, and how wide their spread."""
    return [_finding(reading, part) for reading, part in table.groupby("reading", sort=False)]


def draw(table: pd.DataFrame, settings: Settings = Settings()) -> Figure:
    """For each reading its distance from the printed gains, and its spread over the printed one."""
    figure, (left, right) = style.panels(2, height=4.2, sharey=True)
    readings = list(dict.fromkeys(table["reading"]))
    measured = np.array([measure(part) for _, part in table.groupby("reading", sort=False)])
    y = np.arange(len(readings))
    for panel, values in zip((left, right), measured.T, strict=True):
        panel.hlines(y, 0 if panel is left else 1, values, color="0.8")
        panel.plot(values, y, "o", color=style.COLOURS["DeGroot"])
    left.set(xlabel="distance from the printed gains (percentage points)", title="Distance: nearer to 0 is better")
    left.set_yticks(y, readings)
    left.invert_yaxis()
    right.axvline(1, color="black", lw=0.8)
    right.set(xlabel="our spread over the printed one", xscale="log", title="Spread: 1 is the paper's")
    right.set_xticks([0.5, 1, 2, 5, 10], ["0.5", "1", "2", "5", "10"])
    return figure


def measure(table: pd.DataFrame) -> tuple[float, float]:
    """The median distance between our mean gains and the printed ones, and the median ratio of the spreads."""
    rows = list(dict.fromkeys(zip(table["data"], table["model"], strict=True)))
    cells = [
        (table1.gains(table, *row, scheme), table1.printed(*row, scheme)) for row in rows for scheme in table1.COMPARED
    ]
    distances = [abs(ours.mean() - mean) for ours, (mean, _) in cells]
    ratios = [ours.std() / spread for ours, (_, spread) in cells]
    return float(np.median(distances)), float(np.median(ratios))


def _finding(reading: str, part: pd.DataFrame) -> Finding:
    rows = list(dict.fromkeys(zip(part["data"], part["model"], strict=True)))
    same, judged = table1.same_signs(part, rows)
    distance, ratio = measure(part)
    ours = f"{same} of {judged} signs; distance {distance:.2f} points; spread {ratio:.1f} times the printed one"
    return Finding(reading, f"{judged} signs", ours, RULE, same == judged, _levels(part, rows))


def _levels(part: pd.DataFrame, rows: Iterable[tuple[str, str]]) -> str:
    levels = [
        f"{table1.NAMES[data]} {model} {plus_minus(_errors(part, data, model))} ({table1.PRINTED[data, model][0]:g})"
        for data, model in rows
    ]
    return f"DeGroot's errors (printed): {'; '.join(levels)}."


def _errors(part: pd.DataFrame, data: str, model: str) -> pd.Series:
    return part.loc[(part["data"] == data) & (part["model"] == model) & (part["scheme"] == "DeGroot"), "mse"]
