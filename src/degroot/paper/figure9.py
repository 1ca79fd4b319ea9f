"""Figure 9: gain over M-avg against the heterogeneity of labels, ridge regression."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from degroot.paper import heterogeneity, models, style
from degroot.paper.data import Data
from degroot.paper.experiment import Finding, Row, Run, Task, chosen, here, repeated
from degroot.paper.heterogeneity import NOISY, NOTHING_IN_COMMON, TITLES, at_the_end, growth

TITLE = "Figure 9: gain against label heterogeneity, ridge regression"
ABOUT = (
    "Five agents with ridge regression; a fraction p of the rows is dealt in the order of the label, the rest at "
    "random. By how many percent DeGroot's error is below M-avg's: it should grow with p. Median and middle half of "
    "the repetitions. At p = 1, where agents have no labels in common, it breaks down on two of the three sets."
)
BOSTON = "That Boston gains all the same is not explained by this."


@dataclass(frozen=True, kw_only=True)
class Settings(heterogeneity.Settings):
    """The paper's data sets and penalties."""

    data: tuple[str, ...] = ("abalone", "boston", "cpusmall")
    penalties: tuple[float, ...] = (1.0, 1e-5, 1e-5)
    times: tuple[int, ...] = (1, 4, 1)  # as many repetitions: the small set is noisy


def trial(settings: Settings, random: np.random.Generator, data: Data, penalty: float) -> Iterable[Row]:
    """The gain for each fraction."""
    return heterogeneity.along(data, models.make("Ridge", penalty), settings, random)


def tasks(settings: Settings = Settings()) -> list[Task]:
    """Every data set with its penalty."""
    parts = zip(settings.data, settings.penalties, settings.times, strict=True)
    return [
        task
        for data, penalty, times in parts
        for task in repeated(trial, settings, [{"data": data, "penalty": penalty}], times)
    ]


def compute(settings: Settings = Settings(), run: Run = here) -> pd.DataFrame:
    """Data, penalty, repetition, fraction in order, errors of DeGroot and M-avg, gain in percent, trust and weight."""
    return run(tasks(settings))


def draw(table: pd.DataFrame, settings: Settings = Settings()) -> Figure:
    """A panel for each data set."""
    figure, axes = style.panels(len(settings.data))
    for panel, data, penalty in zip(axes, settings.data, settings.penalties, strict=True):
        heterogeneity.panel(panel, f"{TITLES[data]}, ridge ({penalty:g})", "fraction $p$ dealt by label")
        heterogeneity.curve(panel, chosen(table, data=data))
    heterogeneity.legend(figure, axes[0])
    return figure


def findings(table: pd.DataFrame, settings: Settings = Settings()) -> list[Finding]:
    """Growth on each data set, and what happens at p = 1."""
    found = {data: chosen(table, data=data) for data in settings.data}
    return [
        *(
            growth(part, f"{TITLES[data]}, ridge: gain over M-avg along p", NOISY.get(data, ""))
            for data, part in found.items()
        ),
        at_the_end(found, "Ridge: all rows dealt by label, p = 1", f"{NOTHING_IN_COMMON} {BOSTON}"),
    ]
