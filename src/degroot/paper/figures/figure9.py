"""Figure 9: gain over M-avg against the heterogeneity of labels, ridge regression."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from degroot.paper import drawing, gains, heterogeneity, models
from degroot.paper.data.datasets import KNOWN, Data
from degroot.paper.experiment import ExperimentTask, Finding, Row, Run, repeat_cases, run_here, select_rows
from degroot.paper.heterogeneity import at_the_end, growth

TITLE = "Figure 9: gain against label heterogeneity, ridge regression"
ABOUT = (
    "Five agents with ridge regression; a fraction p of the rows is dealt in the order of the label, the rest at "
    "random. By how many percent DeGroot's error is below M-avg's: it should grow with p. Median and middle half of "
    "the repetitions, of which Boston, with few rows for each agent and for testing, gets four times as many."
)


@dataclass(frozen=True, kw_only=True)
class Settings(heterogeneity.Settings):
    """The paper's data sets and penalties."""

    data: tuple[str, ...] = ("abalone", "boston", "cpusmall")
    penalties: tuple[float, ...] = (1.0, 1e-5, 1e-5)
    repetitions_each: tuple[int, ...] = (1, 4, 1)  # times `reps`: the small set is noisy


def trial(settings: Settings, random: np.random.Generator, data: Data, penalty: float) -> Iterable[Row]:
    """The gain for each fraction."""
    return heterogeneity.along(data, models.make("Ridge", penalty), settings, random)


def tasks(settings: Settings = Settings()) -> list[ExperimentTask]:
    """Every data set with its penalty."""
    parts = zip(settings.data, settings.penalties, settings.repetitions_each, strict=True)
    return [
        task
        for data, penalty, times in parts
        for task in repeat_cases(trial, settings, [{"data": data, "penalty": penalty}], times)
    ]


def compute(settings: Settings = Settings(), run: Run = run_here) -> pd.DataFrame:
    """Data, penalty, repetition, fraction in order, errors of DeGroot and M-avg, gain in percent, trust in oneself."""
    return run(tasks(settings))


def draw(table: pd.DataFrame, settings: Settings = Settings()) -> Figure:
    """A panel for each data set."""
    figure, axes = drawing.panels(len(settings.data))
    for panel, data, penalty in zip(axes, settings.data, settings.penalties, strict=True):
        gains.panel(panel, f"{KNOWN[data].title}, ridge ({penalty:g})", "fraction $p$ dealt by label")
        gains.curve(panel, select_rows(table, data=data), "heterogeneity")
    gains.finish(figure, axes)
    return figure


def findings(table: pd.DataFrame, settings: Settings = Settings()) -> list[Finding]:
    """Growth on each data set, and what becomes of the gain at p = 1."""
    found = {KNOWN[data].title: select_rows(table, data=data) for data in settings.data}
    return [
        *(growth(part, f"{title}, ridge: gain over M-avg along p") for title, part in found.items()),
        at_the_end(found, "Ridge: all rows dealt by label, p = 1"),
    ]
