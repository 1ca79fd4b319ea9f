"""Readings of table 1: what each way to read the paper's protocol gives, where it leaves a choice."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from degroot.paper import drawing, experiment, printed
from degroot.paper.data.datasets import Data
from degroot.paper.experiment import ExperimentTask, Finding, Row, Run, repeat_cases, run_here, select_rows
from degroot.paper.figures import table1
from degroot.paper.models import SETTINGS
from degroot.paper.statistics import plus_minus

TITLE = "Readings: table 1 where the paper leaves a choice"
ABOUT = (
    "Table 1 on complete data under other readings of the protocol. The distance is the median over all gains of the "
    "difference between our mean and the printed one, in percentage points; the spread is the median of our standard "
    "deviation over the printed one. One split: test and held-out rows are drawn once, and the others dealt anew in "
    "each repetition. Scaled: every feature in [-1, 1], as in LIBSVM's other copies of these data sets."
)
RULE = "Not judged but measured: the signs that are the printed ones, the distance and the spread."

ROWS = (
    ("boston", "Ridge"), ("boston", "Lasso"),
    ("abalone", "Ridge"), ("abalone", "Lasso"), ("abalone", "DTR"),
    ("cpusmall", "Ridge"), ("cpusmall", "Lasso"), ("cpusmall", "DTR"),
)  # fmt: skip
LARGE = ROWS[2:]
BOSTON_NN = ("boston", "NN")
NETWORK = SETTINGS["boston"]["NN"]
SCALED_ONCE = {"features": "scaled", "one_split": True}

READINGS: Mapping[str, tuple[Sequence[tuple[str, str]], Mapping[str, Any]]] = {
    "one split": (ROWS, {"one_split": True}),
    "scaled, one split": (ROWS, SCALED_ONCE),
    "scaled, one split, 500 test rows": (LARGE, {**SCALED_ONCE, "n_test": 500}),
    "2 agents": (ROWS, {"agents": 2}),
    "10 agents": (ROWS, {"agents": 10}),
    "Boston: 50 test rows": (ROWS[:2], {"n_test": 50}),
    "Boston: 152 test rows": (ROWS[:2], {"n_test": 152}),  # 0.3 n
    "NN: layers (8, 8)": ([BOSTON_NN], {"boston_network": replace(NETWORK, layers=(8, 8))}),
    "NN: eight layers of 8": ([BOSTON_NN], {"boston_network": replace(NETWORK, layers=(8,) * 8)}),
    "NN: labels not normalised": ([BOSTON_NN], {"boston_network": replace(NETWORK, normalise="features")}),
    "NN: batches of 16": ([BOSTON_NN], {"boston_network": replace(NETWORK, batch=16)}),
    "NN: scaled, one split": ([BOSTON_NN], SCALED_ONCE),
}
FIVE_AGENTS = (*table1.READINGS, "one split", "scaled, one split")


@dataclass(frozen=True, kw_only=True)
class Settings(experiment.Settings):
    """Which readings to compute."""

    readings: tuple[str, ...] = tuple(READINGS)


def trial(settings: Settings, random: np.random.Generator, reading: str, data: Data, model: str) -> Iterable[Row]:
    """What table 1 measures, under one reading."""
    return table1.measured(table1.Settings(seed=settings.seed, **READINGS[reading][1]), random, data, model)


def tasks(settings: Settings = Settings()) -> list[ExperimentTask]:
    """Every reading on the rows where it matters, after those that table 1 has already."""
    known = table1.tasks(table1.Settings(reps=settings.reps, seed=settings.seed))
    wanted = [task for task in known if (task.case["data"], task.case["model"]) in (*ROWS, BOSTON_NN)]
    cases = [
        {"reading": reading, "data": data, "model": model}
        for reading in settings.readings
        for data, model in READINGS[reading][0]
    ]
    return [*wanted, *repeat_cases(trial, settings, cases)]


def compute(settings: Settings = Settings(), run: Run = run_here) -> pd.DataFrame:
    """For each reading the rows of table 1. Networks, which are noisy, are readings of their own."""
    table = run(tasks(settings))
    networks = (table["model"] == "NN") & ~table["reading"].str.startswith("NN")
    return table.assign(reading=table["reading"].mask(networks, "NN: " + table["reading"]))


def findings(table: pd.DataFrame, settings: Settings = Settings()) -> list[Finding]:
    """For each reading how many signs are as printed, how far the gains are from them, and how wide their spread."""
    found = [_finding(reading, part) for reading, part in _by_reading(table)]
    return [*_nearest(table), *found]


def draw(table: pd.DataFrame, settings: Settings = Settings()) -> Figure:
    """For each reading its distance from the printed gains, and its spread over the printed one."""
    figure, (left, right) = drawing.panels(2, height=4.2, sharey=True)
    measured = {reading: measure(part) for reading, part in _by_reading(table)}
    y = np.arange(len(measured))
    for panel, values in zip((left, right), zip(*measured.values(), strict=True), strict=True):
        panel.hlines(y, 0 if panel is left else 1, values, color="0.8")
        panel.plot(values, y, "o", color=drawing.COLOURS["DeGroot"])
    left.set(xlabel="distance from the printed gains (percentage points)", title="Distance: nearer to 0 is better")
    left.set_yticks(y, list(measured))
    left.invert_yaxis()
    right.axvline(1, color="black", lw=0.8)
    right.set(xlabel="our spread over the printed one", xscale="log", title="Spread: 1 is the paper's")
    right.set_xticks([0.5, 1, 2, 5, 10], ["0.5", "1", "2", "5", "10"])
    return figure


def measure(table: pd.DataFrame) -> tuple[float, float]:
    """The median distance between our mean gains and the printed ones, and the median ratio of the spreads."""
    cells = [
        (table1.gains(table, *row, scheme), printed.gain(*row, scheme))
        for row in _rows(table)
        for scheme in printed.COMPARED
    ]
    distances = [abs(ours.mean() - mean) for ours, (mean, _) in cells]
    ratios = [ours.std() / spread for ours, (_, spread) in cells]
    return float(np.median(distances)), float(np.median(ratios))


def _by_reading(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """The rows on complete data under each reading, in the order in which they are listed."""
    complete = select_rows(table, complete=True)
    names = sorted(dict.fromkeys(complete["reading"]), key=lambda reading: reading.startswith("NN"))
    return [(name, select_rows(complete, reading=name)) for name in names]


def _nearest(table: pd.DataFrame) -> list[Finding]:
    """Of the readings of all rows with five agents, that whose gains and that whose spread are nearest to the print."""
    measured = {name: measure(part) for name, part in _by_reading(table) if name in FIVE_AGENTS}
    if not measured:
        return []
    by_gain = min(measured, key=lambda name: measured[name][0])
    by_spread = min(measured, key=lambda name: abs(np.log(measured[name][1])))
    rule = "Not judged: the least distance, and the spread whose ratio to the printed one is nearest to 1."
    ours = f"in its gains: {by_gain} ({measured[by_gain][0]:.2f} points)"
    if measured[by_spread][1] == measured[by_spread][1]:
        ours += f"; in their spread: {by_spread} ({measured[by_spread][1]:.1f} times)"
    return [Finding("Reading nearest to the print, of those with five agents on all rows", "", ours, rule, None)]


def _finding(reading: str, part: pd.DataFrame) -> Finding:
    rows = _rows(part)
    same, clear = table1.same_signs(part, rows)
    distance, ratio = measure(part)
    spread = f"spread {ratio:.1f} times the printed one" if ratio == ratio else "one repetition has no spread"
    ours = f"{same} of {clear} signs; distance {distance:.2f} points; {spread}"
    levels = [
        f"{table1.NAMES[data]} {model} "
        f"{plus_minus(select_rows(part, data=data, model=model, scheme='DeGroot')['mse'])} "
        f"({printed.error(data, model):g})"
        for data, model in rows
    ]
    return Finding(reading, f"{clear} signs", ours, RULE, None, f"DeGroot's errors (printed): {'; '.join(levels)}.")


def _rows(table: pd.DataFrame) -> list[tuple[str, str]]:
    return list(dict.fromkeys(zip(table["data"], table["model"], strict=True)))
