"""Figure 5: how many neighbours to look at, and how that depends on the label noise."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from degroot import Collective, InvalidInput
from degroot.paper import drawing, experiment
from degroot.paper.experiment import ExperimentTask, Finding, Row, Run, repeat_cases, run_here
from degroot.paper.problems.logistic import Problem, pose
from degroot.paper.schemes import mean_squared
from degroot.paper.statistics import above_zero, told, unsettled

TITLE = "Figure 5: error against the number of neighbours"
ABOUT = (
    "DeGroot's mean squared error on the synthetic problem against N, the number of neighbours, at the printed label "
    "noises 0.1 and 0.3, at their squares, and with models scored on labels without noise. More noise should want more "
    "neighbours (triangles: the best N in a typical repetition); the shaded range is 1 to 10 % of an agent's rows, "
    "where the paper finds N to be good."
)
AS_PRINTED, SQUARED, NOISELESS = READINGS = ("as printed", "noise squared", "noiseless validation")
MORE = 4  # times as many repetitions of the printed reading


@dataclass(frozen=True, kw_only=True)
class Settings(experiment.Settings):
    """The synthetic problem, with several noises and numbers of neighbours."""

    rows: int = Problem.rows
    points: int = Problem.points
    noises: tuple[float, float] = (0.1, 0.3)  # as printed: low, high
    readings: tuple[str, ...] = READINGS
    numbers: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 7, 8, 10, 14, 20, 30, 50, 100, 200)


def trial(
    settings: Settings, random: np.random.Generator, reading: str, level: str, noise: float, validation: str
) -> Iterator[Row]:
    """The error with each number of neighbours, of the same agents on the same test points."""
    agents, X, y = pose(Problem(rows=settings.rows, points=settings.points, noise=noise, validation=validation), random)
    for number in settings.numbers:
        yield {"neighbours": number, "mse": mean_squared(Collective(agents, number, n_jobs=1).predict(X), y)}


def tasks(settings: Settings = Settings()) -> list[ExperimentTask]:
    """Every reading, at low and at high noise; the printed one more often, as its optimum is flat."""
    for reading in settings.readings:
        if reading not in READINGS:
            raise InvalidInput(f"`readings` must be among {', '.join(READINGS)}; got {reading!r}.")
    return [
        task
        for reading in settings.readings
        for task in repeat_cases(trial, settings, _cases(reading, settings), MORE if reading == AS_PRINTED else 1)
    ]


def _cases(reading: str, settings: Settings) -> list[Row]:
    low, high = (round(noise**2, 12) if reading == SQUARED else noise for noise in settings.noises)
    common = {"reading": reading, "validation": "noiseless" if reading == NOISELESS else "noisy"}
    return [{**common, "level": "low", "noise": low}, {**common, "level": "high", "noise": high}]


def compute(settings: Settings = Settings(), run: Run = run_here) -> pd.DataFrame:
    """A row for each reading, noise, repetition and number of neighbours."""
    return run(tasks(settings))


def draw(table: pd.DataFrame, settings: Settings = Settings()) -> Figure:
    """A panel for each reading."""
    figure, panels = drawing.panels(len(settings.readings), sharey=True)
    for axes, reading in zip(panels, settings.readings, strict=True):
        rows = table[table.reading == reading]
        axes.axvspan(0.01 * settings.rows, 0.1 * settings.rows, color="black", alpha=0.06, lw=0)
        _draw_noise(axes, rows[rows.level == "low"], "-", drawing.COLOURS["DeGroot"])
        _draw_noise(axes, rows[rows.level == "high"], "--", "white")
        axes.set(title=reading, xlabel="neighbours N", xscale="log", yscale="log")
    panels[0].set_ylabel("mean squared error of DeGroot")
    drawing.legend(panels, loc="upper center", title="label noise", fontsize=8, title_fontsize=8)
    return figure


def _draw_noise(axes: Axes, rows: pd.DataFrame, line: str, filling: str) -> None:
    colour, typical, at_the_foot = drawing.COLOURS["DeGroot"], typical_best(rows), axes.get_xaxis_transform()
    label = f"{rows.noise.iloc[0]:g} (best N: {typical:.1f})"
    drawing.band(axes, rows, "neighbours", "mse", "DeGroot", ls=line, mfc=filling, label=label)
    axes.plot([typical], [0.03], ls="none", color=colour, marker="^", ms=7, mfc=filling, transform=at_the_foot)


def findings(table: pd.DataFrame, settings: Settings = Settings()) -> list[Finding]:
    """Whether more noise wants more neighbours, and whether 1 to 10 % of the rows are good."""
    found = [_growth(table[table.reading == reading], reading) for reading in settings.readings]
    if AS_PRINTED in settings.readings:
        found.append(_good(table[table.reading == AS_PRINTED], settings))
    return found


def best(rows: pd.DataFrame) -> pd.Series:
    """The number of neighbours with the least error, of each repetition."""
    return rows.loc[rows.groupby("repetition").mse.idxmin()].set_index("repetition").neighbours


def typical_best(rows: pd.DataFrame) -> float:
    """The geometric mean of these."""
    return float(np.exp(np.log(best(rows)).mean()))


def growth(rows: pd.DataFrame) -> pd.Series:
    """By how much the logarithm of the best number is larger at high noise than at low, in each repetition."""
    low, high = (best(rows[rows.level == level]) for level in ("low", "high"))
    return np.log(high) - np.log(low)


def _growth(rows: pd.DataFrame, reading: str) -> Finding:
    grown, levels = growth(rows), [rows[rows.level == level] for level in ("low", "high")]
    agrees = above_zero(grown)
    return Finding(
        "Best N",
        "shape: the optimum grows with the noise",
        ", ".join(f"{typical_best(each):.1f} at noise {each.noise.iloc[0]:g}" for each in levels)
        + f"; its logarithm changes by {told(grown)}",
        "The logarithm of a repetition's best N grows from the low to the high noise by more than two standard errors "
        "of the mean over repetitions; shrinking by as much differs, anything between is not settled.",
        agrees,
        ("" if agrees is not None else unsettled(len(grown)) + " ") + " ".join(map(_flatness, levels)),
        reading="" if reading == AS_PRINTED else reading,
    )


def _flatness(rows: pd.DataFrame) -> str:
    """The N of the least mean error, and the least and the largest N of a mean error within 20 % of it."""
    mean = rows.groupby("neighbours").mse.mean()
    good = mean.index[mean <= 1.2 * mean.min()]
    return (
        f"At noise {rows.noise.iloc[0]:g} the mean error is least for N = {mean.idxmin()}, and within 20 % of that for "
        f"N = {good.min()} to {good.max()}."
    )


def _good(rows: pd.DataFrame, settings: Settings) -> Finding:
    least, most = 0.01 * settings.rows, 0.1 * settings.rows
    numbers = {noise: each.groupby("neighbours").mse.mean().idxmin() for noise, each in rows.groupby("noise")}
    return Finding(
        "Good N",
        f"1-10 % of the local rows: {least:g} to {most:g}",
        ", ".join(f"N = {number} at noise {noise:g}" for noise, number in numbers.items()),
        "The mean over repetitions of the error is least for an N in this range, at both noises.",
        all(least <= number <= most for number in numbers.values()),
    )
