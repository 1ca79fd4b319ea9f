"""Figure 6: the wider the agents' rows are spread, the less there is to gain from knowing whom to trust."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from degroot.paper import drawing, experiment, schemes
from degroot.paper.experiment import ExperimentTask, Finding, Row, Run, repeat_cases, run_here
from degroot.paper.problems.logistic import Problem, pose
from degroot.paper.statistics import above_zero, plus_minus, told, unsettled

TITLE = "Figure 6: error against the covariance of the agents' rows"
ABOUT = (
    "The synthetic problem with rows and test points N(mu_k, sigma² I) for several sigma²; the paper's other figures "
    "have sigma² = 1. The more the agents' rows overlap the more alike are their models, and the less DeGroot should "
    "gain over M-avg."
)
SCHEMES = ("DeGroot", "M-avg")


@dataclass(frozen=True, kw_only=True)
class Settings(experiment.Settings):
    """The synthetic problem, with several covariances."""

    rows: int = Problem.rows
    noise: float = Problem.noise
    neighbours: int = Problem.neighbours
    points: int = Problem.points
    covariances: tuple[float, ...] = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)


def trial(settings: Settings, random: np.random.Generator, covariance: float) -> Iterator[Row]:
    """The errors of DeGroot and M-avg."""
    problem = Problem(rows=settings.rows, noise=settings.noise, points=settings.points, covariance=covariance)
    agents, X, y = pose(problem, random)
    for scheme, mse in schemes.errors(SCHEMES, agents, X, y, settings.neighbours).items():
        yield {"scheme": scheme, "mse": mse}


def tasks(settings: Settings = Settings()) -> list[ExperimentTask]:
    """A case for each covariance."""
    return repeat_cases(trial, settings, [{"covariance": covariance} for covariance in settings.covariances])


def compute(settings: Settings = Settings(), run: Run = run_here) -> pd.DataFrame:
    """A row for each covariance, repetition and scheme."""
    return run(tasks(settings))


def gains(table: pd.DataFrame) -> pd.DataFrame:
    """The gain of DeGroot over M-avg in percent, for each covariance and repetition."""
    mse = table.pivot(index=["covariance", "repetition"], columns="scheme", values="mse")
    return mse.assign(gain=schemes.gain(mse["DeGroot"], mse["M-avg"])).reset_index()


def draw(table: pd.DataFrame, settings: Settings = Settings()) -> Figure:
    """Errors on the left, the gain on the right."""
    figure, [errors, gain] = drawing.panels(2)
    for scheme in SCHEMES:
        drawing.band(errors, table[table.scheme == scheme], "covariance", "mse", scheme)
    drawing.band(gain, gains(table), "covariance", "gain", "DeGroot")
    for axes in (errors, gain):
        axes.axvline(1.0, color="black", lw=1, ls=":", label="σ² = 1, as in the other figures")
        axes.set_xlabel("covariance σ² of the agents' rows")
    errors.set(ylabel="mean squared error", yscale="log")
    gain.axhline(0.0, color="black", lw=0.8)
    gain.set(ylabel="gain over M-avg (%)")
    gain.set_ylim(top=100)
    drawing.legend([errors, gain], loc="lower right")
    return figure


def findings(table: pd.DataFrame, settings: Settings = Settings()) -> list[Finding]:
    """Whether the gain shrinks, from the paper's sigma² on and below it."""
    gain = gains(table).pivot(index="repetition", columns="covariance", values="gain")
    wide, narrow = gain.loc[:, gain.columns >= 1.0], gain.loc[:, gain.columns <= 1.0]
    found = [_shrinking(wide)] if wide.shape[1] > 1 else []
    return found + ([_narrow(narrow)] if narrow.shape[1] > 1 else [])


def _shrinking(gain: pd.DataFrame) -> Finding:
    """Of repetitions by covariances, from the paper's on."""
    mean, loss = gain.mean(), gain.iloc[:, 0] - gain.iloc[:, -1]
    correlation = float(pd.Series(mean.index).corr(pd.Series(mean.to_numpy()), method="spearman"))
    less = above_zero(loss)
    return Finding(
        "Gain over M-avg from sigma² = 1 on",
        "shape: the gain shrinks as the covariance grows",
        f"{_ends(gain)}; points less: {told(loss)}; rank correlation {correlation:.2f}",
        "Spearman's rank correlation of sigma² and the mean gain is -0.8 or less, and the last gain is less than the "
        "first by more than two standard errors of their mean difference; between -2 and 2 it is not settled.",
        less if correlation <= -0.8 or less is None else False,
        f"The gain is largest at sigma² = {mean.idxmax():g}."
        + ("" if less is not None else " " + unsettled(len(gain))),
    )


def _narrow(gain: pd.DataFrame) -> Finding:
    """Of repetitions by covariances, up to the paper's."""
    loss = gain.iloc[:, -1] - gain.iloc[:, 0]
    return Finding(
        "Gain over M-avg below sigma² = 1",
        "we do not have the printed range",
        _ends(gain),
        "Not judged: we do not know whether the paper's figure begins below sigma² = 1.",
        None,
        f"Points less at {gain.columns[0]:g} than at {gain.columns[-1]:g}: {told(loss)}."
        + (" " + unsettled(len(gain)) if above_zero(loss) is None else ""),
    )


def _ends(gain: pd.DataFrame) -> str:
    first, last = (f"{plus_minus(gain[each])} % at {each:g}" for each in gain.columns[[0, -1]])
    return f"{first} to {last}"
