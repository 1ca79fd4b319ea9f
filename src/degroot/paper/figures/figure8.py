"""Figure 8: jackknife intervals where agents' rows overlap little, and where they overlap much."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from degroot.paper import drawing, experiment
from degroot.paper.experiment import ExperimentTask, Finding, Row, Run, repeat_cases, run_here
from degroot.paper.problems.logistic import Line, Problem, Sample, predict_along

TITLE = "Figure 8: jackknife intervals at two covariances"
ABOUT = (
    "The collective prediction along xi = a'x plus and minus one jackknife standard error over agents (first "
    "repetition), for rows with covariance sigma² = 1 and 5; and the standard error itself over all repetitions. At "
    "the edges few agents know the curve, so the answer hangs on single ones and bars should be wide; with sigma² = 5 "
    "more agents have rows there, and bars should be much smaller. The edges are the outer tenths of the line, the "
    "middle is its middle fifth (shaded)."
)
LOOKS = ({"ls": "-", "marker": "o"}, {"ls": "--", "marker": "s"})  # of the standard errors at the two covariances


@dataclass(frozen=True, kw_only=True)
class Settings(experiment.Settings, Line):
    """The synthetic problem, with a narrow and a wide covariance."""

    rows: int = Problem.rows
    noise: float = Problem.noise
    neighbours: int = Problem.neighbours
    covariances: tuple[float, float] = (1.0, 5.0)


def trial(settings: Settings, random: np.random.Generator, covariance: float) -> Iterator[Row]:
    """The collective prediction and its standard error along the line."""
    sample = Sample(rows=settings.rows, noise=settings.noise, covariance=covariance)
    yield from predict_along(sample, settings.neighbours, settings.xi, random)


def tasks(settings: Settings = Settings()) -> list[ExperimentTask]:
    """A case for each covariance."""
    return repeat_cases(trial, settings, [{"covariance": covariance} for covariance in settings.covariances])


def compute(settings: Settings = Settings(), run: Run = run_here) -> pd.DataFrame:
    """A row for each covariance, repetition and position."""
    return run(tasks(settings))


def draw(table: pd.DataFrame, settings: Settings = Settings()) -> Figure:
    """Intervals at each covariance, and the standard errors of both."""
    figure, [*panels, errors] = drawing.panels(3)
    for axes, covariance in zip(panels, settings.covariances, strict=True):
        drawing.draw_intervals(axes, table[(table.covariance == covariance) & (table.repetition == 0)])
        axes.set_title(f"σ² = {covariance:g}")
    for part in _parts(settings).values():
        errors.axvspan(*part, color="black", alpha=0.06, lw=0)
    for covariance, look in zip(settings.covariances, LOOKS, strict=True):
        rows, label = table[table.covariance == covariance], f"σ² = {covariance:g}"
        drawing.band(errors, rows, "xi", "standard_error", "DeGroot", **look, mfc="white", markevery=4, label=label)
    errors.set(title="all repetitions", xlabel="position ξ = a'x", ylabel="standard error")
    errors.set(xlim=(settings.xi_from, settings.xi_to), ylim=(0, None))
    drawing.legend([*panels, errors], loc="upper center", fontsize=8)
    return figure


def _parts(settings: Settings) -> dict[str, tuple[float, float]]:
    """Where on the line the edges and the middle are."""
    start, stop = settings.xi_from, settings.xi_to
    tenth = (stop - start) / 10
    middle = (start + stop) / 2
    return {"left": (start, start + tenth), "middle": (middle - tenth, middle + tenth), "right": (stop - tenth, stop)}


def bars(table: pd.DataFrame, settings: Settings = Settings()) -> pd.DataFrame:
    """The mean standard error in each part of the line and on both edges, for each covariance and repetition."""
    keys = [table.covariance, table.repetition]
    means = pd.DataFrame(
        {part: table.standard_error.where(table.xi.between(*ends)).groupby(keys).mean()
         for part, ends in _parts(settings).items()}
    )  # fmt: skip
    return means.assign(edges=(means.left + means.right) / 2)


def findings(table: pd.DataFrame, settings: Settings = Settings()) -> list[Finding]:
    """Whether bars are wide at the edges when rows overlap little, and much smaller when they overlap much."""
    narrow, wide = (bars(table, settings).loc[covariance] for covariance in settings.covariances)
    return [_at_the_edges(narrow, settings), _smaller(narrow, wide, settings)]


def _at_the_edges(narrow: pd.DataFrame, settings: Settings) -> Finding:
    ratio = narrow[["edges", "left", "right"]].div(narrow.middle, axis=0).median()
    return Finding(
        f"Bars at the edges against bars in the middle, sigma² = {settings.covariances[0]:g}",
        "shape: wide at the edges",
        f"{ratio.edges:.1f} times as wide ({ratio.left:.1f} at the left edge, {ratio.right:.1f} at the right)",
        "In the median repetition the mean standard error over both edges is at least twice that in the middle.",
        bool(ratio.edges >= 2.0),
        _by_itself(ratio >= 2.0),
    )


def _smaller(narrow: pd.DataFrame, wide: pd.DataFrame, settings: Settings) -> Finding:
    few, many = settings.covariances
    shrunk = (wide / narrow).median()
    return Finding(
        f"Bars at the edges, sigma² = {many:g} against {few:g}",
        "shape: much smaller",
        f"{shrunk.edges:.2f} times as wide ({shrunk.left:.2f} at the left edge, {shrunk.right:.2f} at the right)",
        "In the median repetition the mean standard error over both edges is at most half as large.",
        bool(shrunk.edges <= 0.5),
        _by_itself(shrunk <= 0.5),
    )


def _by_itself(meets: pd.Series) -> str:
    """Whether it is one of the edges alone that meets the rule."""
    alone = [edge for edge in ("left", "right") if meets[edge]]
    return f"By itself the {alone[0]} edge meets the rule, the other does not." if len(alone) == 1 else ""
