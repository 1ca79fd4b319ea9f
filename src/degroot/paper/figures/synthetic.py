"""The headline numbers: every scheme's error on the synthetic problem, under three readings of the label noise."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from degroot.paper import drawing, experiment, schemes
from degroot.paper.experiment import ExperimentTask, Finding, Row, Run, repeat_cases, run_here
from degroot.paper.problems.logistic import AS_PRINTED, PRINTED, READINGS, Problem, pose
from degroot.paper.statistics import plus_minus

TITLE = "Synthetic problem: the headline numbers"
ABOUT = (
    "Mean squared error of every scheme on 200 test points of the synthetic problem: five agents, 200 rows each, "
    "linear models, five neighbours. The paper prints label noise 0.1; we also try a standard deviation of 0.01 (the "
    "variance, 0.1², taken for one) and agents that score models on labels without noise."
)
TIMES_WORSE = {"M-avg": 50.0, "tau-avg": PRINTED["tau-avg"] / PRINTED["DeGroot"]}  # than DeGroot
MARKERS = dict(zip(READINGS, "os^", strict=True))


@dataclass(frozen=True, kw_only=True)
class Settings(experiment.Settings):
    """The synthetic problem; each reading says what noise there is."""

    rows: int = Problem.rows
    neighbours: int = Problem.neighbours
    points: int = Problem.points
    readings: tuple[str, ...] = tuple(READINGS)


def trial(
    settings: Settings, random: np.random.Generator, reading: str, noise: float, validation: str
) -> Iterator[Row]:
    """The error of every scheme."""
    agents, X, y = pose(Problem(rows=settings.rows, points=settings.points, noise=noise, validation=validation), random)
    for scheme, mse in schemes.errors(schemes.WITHOUT_HOLD_OUT, agents, X, y, settings.neighbours).items():
        yield {"scheme": scheme, "mse": mse}


def tasks(settings: Settings = Settings()) -> list[ExperimentTask]:
    """One case for each reading."""
    return repeat_cases(trial, settings, [{"reading": reading, **READINGS[reading]} for reading in settings.readings])


def compute(settings: Settings = Settings(), run: Run = run_here) -> pd.DataFrame:
    """A row for each reading, repetition and scheme."""
    return run(tasks(settings))


def draw(table: pd.DataFrame, settings: Settings = Settings()) -> Figure:
    """A dot for each repetition, the means, and what the paper prints."""
    figure, [axes] = drawing.panels(height=3.6)
    for place, scheme in enumerate(schemes.WITHOUT_HOLD_OUT):
        _draw_scheme(axes, place, scheme, table[table.scheme == scheme], settings)
    axes.set(
        xscale="log", xlabel="mean squared error on the test points",
        yticks=range(len(schemes.WITHOUT_HOLD_OUT)), yticklabels=schemes.WITHOUT_HOLD_OUT,
    )  # fmt: skip
    axes.invert_yaxis()
    drawing.legend([axes], handles=_keys(settings), loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def _draw_scheme(axes: Axes, place: int, scheme: str, rows: pd.DataFrame, settings: Settings) -> None:
    for shift, reading in zip((-0.22, 0.0, 0.22), settings.readings, strict=False):
        mse = rows[rows.reading == reading].mse
        look: Any = {"color": drawing.COLOURS[scheme], "marker": MARKERS[reading], "ls": "none"}
        axes.plot(mse, [place + shift] * len(mse), ms=2.5, alpha=0.3, **look)
        axes.plot([mse.mean()], [place + shift], ms=8, mec="black", **look)
    printed = PRINTED.get(scheme) or TIMES_WORSE[scheme] * PRINTED["DeGroot"]
    line = "-" if scheme in PRINTED else ":"
    axes.plot([printed] * 2, [place - 0.4, place + 0.4], color="black", lw=2, ls=line)


def _keys(settings: Settings) -> list[Line2D]:
    means = [
        Line2D([], [], color="grey", mec="black", ls="none", ms=8, marker=MARKERS[name], label=f"{name}: mean")
        for name in settings.readings
    ]
    return [
        *means,
        Line2D([], [], color="grey", ls="none", ms=2.5, marker="o", label="single repetitions"),
        Line2D([], [], color="black", lw=2, label="printed in the paper"),
        Line2D([], [], color="black", lw=2, ls=":", label="printed: over 50 times DeGroot"),
    ]


def findings(table: pd.DataFrame, settings: Settings = Settings()) -> list[Finding]:
    """Every printed value under every reading."""
    errors = {
        reading: table[table.reading == reading].pivot(index="repetition", columns="scheme", values="mse")
        for reading in settings.readings
    }
    found = []
    for reading, mse in errors.items():
        under = [_value(scheme, mse) for scheme in PRINTED] + [_times_worse(scheme, mse) for scheme in TIMES_WORSE]
        under[0] = replace(under[0], note=_why(reading, errors))  # of DeGroot
        found += [replace(finding, reading="" if reading == AS_PRINTED else reading) for finding in under]
    return found


def _reached(scheme: str, mse: pd.DataFrame) -> bool:
    return bool(0.5 <= mse[scheme].mean() / PRINTED[scheme] <= 2.0)


def _value(scheme: str, mse: pd.DataFrame) -> Finding:
    return Finding(
        f"MSE of {scheme}", f"{PRINTED[scheme]:.1e}", plus_minus(mse[scheme]),
        "The mean over repetitions is within a factor of 2 of the printed value.", _reached(scheme, mse),
    )  # fmt: skip


def _why(reading: str, errors: dict[str, pd.DataFrame]) -> str:
    """What there is to say of the error of DeGroot where it is not the printed one."""
    mse, printed = errors[reading], PRINTED["DeGroot"]
    if _reached("DeGroot", mse):
        return ""
    least, noise = mse["DeGroot"].min(), READINGS[reading]["noise"]
    said = [
        f"The best of {len(mse)} repetitions gives {least:.1e}" + (", above the print." if least > printed else ".")
    ]
    if READINGS[reading]["validation"] == "noisy":
        said.append(
            f"The variance of the noise, {noise**2:.1e}, is part of every error by which agents judge models: "
            f"{noise**2 / printed:.1f} times the printed error."
        )
    reached = [scheme for scheme in PRINTED if scheme != "DeGroot" and _reached(scheme, mse)]
    if reached:
        said.append(f"The printed values of {', '.join(reached)} are reached all the same.")
    others = [f"{each} ({errors[each]['DeGroot'].mean():.1e})" for each in errors if _reached("DeGroot", errors[each])]
    if others:
        said.append(f"That of DeGroot is under other readings: {', '.join(others)}.")
    return " ".join(said)


def _times_worse(scheme: str, mse: pd.DataFrame) -> Finding:
    least, times = TIMES_WORSE[scheme], float((mse[scheme] / mse["DeGroot"]).median())
    mean, over = mse.mean(), scheme == "M-avg"
    agrees = times > least if over else times >= least / 2
    return Finding(
        f"{scheme} against DeGroot",
        f"{'over ' if over else ''}{least:.0f} times worse",
        f"{times:.0f} times worse in the median repetition; the means are {mean[scheme] / mean['DeGroot']:.0f} times "
        "apart",
        "The ratio of the errors in the median repetition is "
        + (f"over {least:.0f}." if over else f"at least half of {least:.0f}."),
        agrees,
        ""
        if agrees
        else f"The error of {scheme}, {mean[scheme]:.1e}, is {mean[scheme] / PRINTED['DeGroot']:.0f} times "
        f"that printed for DeGroot; our DeGroot's is {mean['DeGroot'] / PRINTED['DeGroot']:.1f} times.",
    )
