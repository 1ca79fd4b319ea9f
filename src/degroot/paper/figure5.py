"""Figure 5: how many neighbours to look at, and how that depends on the label noise."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from degroot import Collective
from degroot.paper import experiment, style
from degroot.paper.experiment import Finding, Row, Run, Task, here, repeated
from degroot.paper.logistic import Problem, pose
from degroot.paper.schemes import mean_squared

TITLE = "Figure 5: error against the number of neighbours"
ABOUT = (
    "DeGroot's mean squared error on the synthetic problem against N, the number of neighbours, at the printed label "
    "noises 0.1 and 0.3, at their squares, and with models scored on labels without noise. More noise should want more "
    "neighbours (triangles: the best N in a typical repetition); the shaded range is 1 to 10 % of an agent's rows, "
    "where the paper finds N to be good."
)
READINGS = ("as printed", "noise squared", "noiseless validation")


@dataclass(frozen=True, kw_only=True)
class Settings(experiment.Settings, Problem):
    """The synthetic problem, with several noises and numbers of neighbours."""

    noises: tuple[float, float] = (0.1, 0.3)  # as printed: low, high
    readings: tuple[str, ...] = READINGS
    numbers: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 7, 8, 10, 14, 20, 30, 50, 100, 200)


def trial(
    settings: Settings, random: np.random.Generator, reading: str, level: str, noise: float, validation: str
) -> Iterator[Row]:
    """The error with each number of neighbours, of the same agents on the same test points."""
    agents, X, y = pose(replace(settings, noise=noise, validation=validation), random)
    for number in settings.numbers:
        yield {"neighbours": number, "mse": mean_squared(Collective(agents, number, n_jobs=1).predict(X), y)}


def tasks(settings: Settings = Settings()) -> list[Task]:
    """Every reading, at low and at high noise."""
    cases = []
    for reading in settings.readings:
        for level, printed in zip(("low", "high"), settings.noises, strict=True):
            noise = round(printed**2, 12) if reading == "noise squared" else printed
            validation = "noiseless" if reading == "noiseless validation" else "noisy"
            cases.append({"reading": reading, "level": level, "noise": noise, "validation": validation})
    return repeated(trial, settings, cases)


def compute(settings: Settings = Settings(), run: Run = here) -> pd.DataFrame:
    """A row for each reading, noise, repetition and number of neighbours."""
    return run(tasks(settings))


def draw(table: pd.DataFrame, settings: Settings = Settings()) -> Figure:
    """A panel for each reading."""
    figure, panels = style.panels(len(settings.readings), sharey=True)
    for axes, reading in zip(panels, settings.readings, strict=True):
        rows = table[table.reading == reading]
        axes.axvspan(0.01 * settings.rows, 0.1 * settings.rows, color="black", alpha=0.06, lw=0)
        _draw_noise(axes, rows[rows.level == "low"], "-", style.COLOURS["DeGroot"])
        _draw_noise(axes, rows[rows.level == "high"], "--", "white")
        axes.set(title=reading, xlabel="neighbours N", xscale="log", yscale="log")
    panels[0].set_ylabel("mean squared error of DeGroot")
    style.legend(panels, loc="upper center", title="label noise", fontsize=8, title_fontsize=8)
    return figure


def _draw_noise(axes: Axes, rows: pd.DataFrame, line: str, filling: str) -> None:
    colour, best, at_the_foot = style.COLOURS["DeGroot"], typical_best(rows), axes.get_xaxis_transform()
    label = f"{rows.noise.iloc[0]:g} (best N: {best:.1f})"
    style.band(axes, rows, "neighbours", "mse", "DeGroot", ls=line, mfc=filling, label=label)
    axes.plot([best], [0.03], ls="none", color=colour, marker="^", ms=7, mfc=filling, transform=at_the_foot)


def findings(table: pd.DataFrame, settings: Settings = Settings()) -> list[Finding]:
    """Whether more noise wants more neighbours, and whether 1 to 10 % of the rows are good."""
    found = [_growth(table[table.reading == reading], reading) for reading in settings.readings]
    if "as printed" in settings.readings:
        found.append(_good(table[table.reading == "as printed"], settings))
    return found


def typical_best(rows: pd.DataFrame) -> float:
    """The number of neighbours that is best in a repetition: the geometric mean over repetitions."""
    best = rows.loc[rows.groupby("repetition").mse.idxmin()].neighbours
    return float(np.exp(np.log(best).mean()))


def _growth(rows: pd.DataFrame, reading: str) -> Finding:
    low, high = (rows[rows.level == level] for level in ("low", "high"))
    few, many = typical_best(low), typical_best(high)
    flat = "; ".join(
        f"at noise {each.noise.iloc[0]:g} the mean error is least for N = {_best(each)} and at most 20 % more for N = "
        f"{_range(each)[0]} to {_range(each)[1]}" for each in (low, high)
    )  # fmt: skip
    printed, remark = reading == "as printed", ""
    if printed:
        remark = " So few repetitions may not tell."
    elif many <= few:
        remark = " Under this reading the optimum does not grow, which speaks against it."
    return Finding(
        f"Best N, {reading}",
        "shape: the optimum grows with the noise",
        f"{few:.1f} at noise {low.noise.iloc[0]:g}, {many:.1f} at {high.noise.iloc[0]:g}",
        "The geometric mean over repetitions of the best N of each is larger at the higher noise."
        + ("" if printed else " Not judged where the noise is not the printed one."),
        many > few if printed else None,
        f"The curves are flat about their optimum: {flat}.{remark}",
    )


def _good(rows: pd.DataFrame, settings: Settings) -> Finding:
    least, most = 0.01 * settings.rows, 0.1 * settings.rows
    best = {noise: _best(each) for noise, each in rows.groupby("noise")}
    return Finding(
        "Good N, as printed",
        f"1-10 % of the local rows: {least:g} to {most:g}",
        ", ".join(f"N = {number} at noise {noise:g}" for noise, number in best.items()),
        "The mean over repetitions of the error is least for an N in this range, at both noises.",
        all(least <= number <= most for number in best.values()),
    )


def _best(rows: pd.DataFrame) -> int:
    return int(rows.groupby("neighbours").mse.mean().idxmin())


def _range(rows: pd.DataFrame) -> tuple[int, int]:
    """The least and the largest N of which the mean error is within 20 % of the least."""
    mean = rows.groupby("neighbours").mse.mean()
    good = mean.index[mean <= 1.2 * mean.min()]
    return int(good.min()), int(good.max())
