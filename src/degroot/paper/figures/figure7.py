"""Figure 7: DeGroot against averaging trust or errors over agents, along the curve and over all test points."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from degroot.paper import drawing, experiment
from degroot.paper.experiment import ExperimentTask, Finding, Row, Run, repeat_cases, run_here
from degroot.paper.problems.logistic import PRINTED, Line, Problem, curve, on_the_line, pose
from degroot.paper.schemes import mean_squared, pooled
from degroot.paper.statistics import above_zero, unsettled

TITLE = "Figure 7: DeGroot against tau-avg and MSE-avg"
ABOUT = (
    "Squared error along xi = a'x of DeGroot, of weights from the mean of the agents' trust (tau-avg) and of weights "
    "from the mean of their errors (MSE-avg); median over repetitions, the middle half shaded, at the printed label "
    "noise and at 0.01. The legend has the mean squared errors on the test points; the headline numbers, under "
    "`synthetic`, judge them."
)
SCHEMES = ("DeGroot", "tau-avg", "MSE-avg")


@dataclass(frozen=True, kw_only=True)
class Settings(experiment.Settings, Line):
    """The synthetic problem, with the printed noise and with less."""

    rows: int = Problem.rows
    noises: tuple[float, ...] = (Problem.noise, 0.01)
    neighbours: int = Problem.neighbours
    points: int = Problem.points


def trial(settings: Settings, random: np.random.Generator, noise: float) -> Iterator[Row]:
    """For each scheme the squared errors along the line, and their mean on the test points."""
    agents, X, y = pose(Problem(rows=settings.rows, noise=noise, points=settings.points), random)
    line = on_the_line(settings.xi)
    for scheme in SCHEMES:
        collective = pooled(scheme, agents, settings.neighbours)
        yield {"scheme": scheme, "where": "test points", "squared_error": mean_squared(collective.predict(X), y)}
        for xi, error in zip(settings.xi, (collective.predict(line) - curve(line)) ** 2, strict=True):
            yield {"scheme": scheme, "where": "line", "xi": xi, "squared_error": error}


def tasks(settings: Settings = Settings()) -> list[ExperimentTask]:
    """A case for each noise."""
    return repeat_cases(trial, settings, [{"noise": noise} for noise in settings.noises])


def compute(settings: Settings = Settings(), run: Run = run_here) -> pd.DataFrame:
    """A row for each noise, repetition, scheme and position, and one for the mean over the test points."""
    return run(tasks(settings))


def draw(table: pd.DataFrame, settings: Settings = Settings()) -> Figure:
    """A panel for each noise."""
    figure, panels = drawing.panels(len(settings.noises), height=3.6, sharey=True)
    for axes, noise in zip(panels, settings.noises, strict=True):
        _draw_noise(axes, table[table.noise == noise])
        axes.set_xlim(settings.xi_from, settings.xi_to)
        axes.set(title=f"label noise {noise:g}", xlabel="position ξ = a'x", yscale="log", ylim=(1e-7, 100))
    panels[0].set_ylabel("squared error")
    drawing.legend(
        panels, loc="upper center", fontsize=8, title="mean squared error on the test points", title_fontsize=8
    )
    return figure


def _draw_noise(axes: Axes, rows: pd.DataFrame) -> None:
    for scheme in SCHEMES:
        each = rows[rows.scheme == scheme]
        mean = each[each["where"] == "test points"].squared_error.mean()
        label = f"{scheme}: {mean:.1e} (paper: {PRINTED[scheme]:.1e})"
        drawing.band(axes, each[each["where"] == "line"], "xi", "squared_error", scheme, label=label)
        axes.lines[-1].set(markevery=4)


def findings(table: pd.DataFrame, settings: Settings = Settings()) -> list[Finding]:
    """The order of the schemes, and who is nearest to the truth along the line."""
    return [finding for noise in settings.noises for finding in _at(noise, table[table.noise == noise])]


def _at(noise: float, rows: pd.DataFrame) -> list[Finding]:
    points, line = (rows[rows["where"] == where] for where in ("test points", "line"))
    mse = points.pivot(index="repetition", columns="scheme", values="squared_error")
    reading = "" if noise == Problem.noise else f"noise {noise:g}"
    return [replace(finding, reading=reading) for finding in (_order(mse), _nearest(line))]


def _order(mse: pd.DataFrame) -> Finding:
    first, second = mse["tau-avg"] - mse["DeGroot"], mse["MSE-avg"] - mse["tau-avg"]
    agrees = above_zero(first, second)
    return Finding(
        "Order of the schemes on the test points",
        "DeGroot before tau-avg before MSE-avg",
        f"DeGroot is ahead of tau-avg in {100 * (first > 0).mean():.0f} % of the repetitions, tau-avg of MSE-avg in "
        f"{100 * (second > 0).mean():.0f} %",
        "The mean squared errors have this order, each step by more than two standard errors of the mean difference; a "
        "step the other way by as much differs, anything between is not settled.",
        agrees,
        "" if agrees is not None else unsettled(len(mse)),
    )


def _nearest(line: pd.DataFrame) -> Finding:
    median = line.groupby(["xi", "scheme"]).squared_error.median().unstack()
    nearest = median.idxmin(axis=1)
    share = (nearest == "DeGroot").mean()
    others = nearest[nearest != "DeGroot"]
    elsewhere = ", ".join(
        f"{scheme} about xi = {each.index.values.mean():.1f}" for scheme, each in others.groupby(others)
    )
    return Finding(
        "Where DeGroot is nearest to the truth",
        "shape: the error of DeGroot is below the others along the curve",
        f"at {100 * share:.0f} % of the positions",
        "The median squared error of DeGroot is the least of the three at two thirds of the positions or more.",
        bool(share >= 2 / 3),
        f"Elsewhere: {elsewhere} (mean position)." if elsewhere else "",
    )
