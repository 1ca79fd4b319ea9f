"""Gains of DeGroot over M-avg: measured on test points, most of them above 0 or within chance, and drawn."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from degroot import Consensus
from degroot.paper import drawing
from degroot.paper.experiment import Row
from degroot.paper.schemes import Array, gain, mean_squared

MOSTLY = "in more than half of the repetitions by two binomial standard errors, 0.5 + 2 √(0.25 / n)"
FLOOR = -100.0  # percent, of the pictures
COLOUR = drawing.COLOURS["DeGroot"]


def measure_gain(answer: Consensus, y: Array) -> Row:
    """The errors of DeGroot and of M-avg on test points with labels `y`, and the gain in percent."""
    mse, m_avg = mean_squared(answer.value, y), mean_squared(np.asarray(answer.beliefs).mean(axis=1), y)
    return {"mse": mse, "m_avg": m_avg, "gain": gain(mse, m_avg)}


def judge_sign(values: pd.Series) -> bool | None:
    """Whether most values, one for each repetition, are above 0, or below; None where that is within chance."""
    least = 0.5 + 2 * np.sqrt(0.25 / len(values))
    return True if (values > 0).mean() > least else False if (values < 0).mean() > least else None


def panel(axes: Axes, title: str, xlabel: str) -> None:
    """An empty panel, with M-avg as the line at 0."""
    axes.set(title=title, xlabel=xlabel, ylabel="gain over M-avg (%)")
    axes.axhline(0, color=drawing.COLOURS["M-avg"], lw=1.5, label="M-avg")


def curve(axes: Axes, table: pd.DataFrame, x: str, label: str = "DeGroot") -> None:
    """The gain along a column `x`, median and middle half of the repetitions."""
    if not len(table):
        axes.text(0.5, 0.5, "left out: no data", transform=axes.transAxes, ha="center")
        return
    drawing.band(axes, table, x, "gain", "DeGroot", label=label)
    _tell_what_is_below(axes, table.groupby(x)["gain"].median())


def second_curve(axes: Axes, table: pd.DataFrame, x: str, label: str, look: str = "--o") -> None:
    """The medians under another reading, with open marks."""
    medians = table.groupby(x)["gain"].median() if len(table) else pd.Series(dtype=float)
    axes.plot(medians.index, medians, look, color=COLOUR, mfc="white", ms=drawing.LOOK["lines.markersize"], label=label)
    _tell_what_is_below(axes, medians)


def finish(figure: Figure, panels: Sequence[Axes]) -> None:
    """Cut off what lies below -100 %, and put one legend below all panels."""
    for axes in panels:
        axes.set_ylim(bottom=max(FLOOR, axes.get_ylim()[0]))
    drawing.legend_below(figure, panels[0])


def _tell_what_is_below(axes: Axes, medians: pd.Series) -> None:
    for level, below in medians[medians < FLOOR].items():
        axes.annotate(
            f"{below:.0f} %", (level, FLOOR), (-24, 3), textcoords="offset points", fontsize=8, ha="center",
            color=COLOUR,
        )  # fmt: skip
