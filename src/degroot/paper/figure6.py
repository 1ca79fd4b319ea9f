"""Figure 6: the wider the agents' rows are spread, the less there is to gain from knowing whom to trust."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from degroot.paper import experiment, schemes, style
from degroot.paper.experiment import Finding, Row, Run, Task, here, plus_minus, repeated
from degroot.paper.logistic import Problem, pose

TITLE = "Figure 6: error against the covariance of the agents' rows"
ABOUT = (
    "The synthetic problem with rows and test points N(mu_k, sigma² I) for several sigma²; the paper's other figures "
    "have sigma² = 1. The more the agents' rows overlap the more alike are their models, and the less DeGroot should "
    "gain over M-avg."
)
SCHEMES = ("DeGroot", "M-avg")


@dataclass(frozen=True, kw_only=True)
class Settings(experiment.Settings, Problem):
    """The synthetic problem, with several covariances."""

    covariances: tuple[float, ...] = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)


def trial(settings: Settings, random: np.random.Generator, covariance: float) -> Iterator[Row]:
    """The errors of DeGroot and M-avg."""
    agents, X, y = pose(replace(settings, covariance=covariance), random)
    for scheme, mse in schemes.errors(SCHEMES, agents, X, y, settings.neighbours).items():
        yield {"scheme": scheme, "mse": mse}


def tasks(settings: Settings = Settings()) -> list[Task]:
    """A case for each covariance."""
    return repeated(trial, settings, [{"covariance": covariance} for covariance in settings.covariances])


def compute(settings: Settings = Settings(), run: Run = here) -> pd.DataFrame:
    """A row for each covariance, repetition and scheme."""
    return run(tasks(settings))


def gains(table: pd.DataFrame) -> pd.DataFrame:
    """The gain of DeGroot over M-avg in percent, for each covariance and repetition."""
    mse = table.pivot(index=["covariance", "repetition"], columns="scheme", values="mse")
    return mse.assign(gain=schemes.gain(mse["DeGroot"], mse["M-avg"])).reset_index()


def draw(table: pd.DataFrame, settings: Settings = Settings()) -> Figure:
    """Errors on the left, the gain on the right."""
    figure, [errors, gain] = style.panels(2)
    for scheme in SCHEMES:
        style.band(errors, table[table.scheme == scheme], "covariance", "mse", scheme)
    style.band(gain, gains(table), "covariance", "gain", "DeGroot")
    for axes in (errors, gain):
        axes.axvline(1.0, color="black", lw=1, ls=":", label="σ² = 1, as in the other figures")
        axes.set_xlabel("covariance σ² of the agents' rows")
    errors.set(ylabel="mean squared error", yscale="log")
    gain.set(ylabel="gain over M-avg (%)", ylim=(0, 100))
    style.legend([errors, gain], loc="lower right")
    return figure


def findings(table: pd.DataFrame, settings: Settings = Settings()) -> list[Finding]:
    """Whether the gain shrinks, from the paper's sigma² on and below it."""
    gain = gains(table)
    mean = gain.groupby("covariance").gain.mean()
    wide, narrow = mean[mean.index >= 1.0], mean[mean.index <= 1.0]
    found = []
    if len(wide) > 1:
        correlation = float(pd.Series(wide.index).corr(pd.Series(wide.to_numpy()), method="spearman"))
        found.append(
            Finding(
                "Gain over M-avg from sigma² = 1 on",
                "shape: the gain shrinks as the covariance grows",
                f"{_gain(gain, wide.index[0])} to {_gain(gain, wide.index[-1])}",
                "Spearman's rank correlation of sigma² and the mean gain is -0.8 or less, and the last gain is less "
                "than the first.",
                bool(correlation <= -0.8 and wide.iloc[-1] < wide.iloc[0]),
                f"The rank correlation is {correlation:.2f}; the gain is largest at sigma² = {wide.idxmax():g}.",
            )
        )
    if len(narrow) > 1:
        found.append(
            Finding(
                "Gain over M-avg below sigma² = 1",
                "our notes hold no values there",
                f"{_gain(gain, narrow.index[0])} to {_gain(gain, narrow.index[-1])}",
                "Not judged: it is beyond what we know of the paper's figure.",
                None,
                "The gain shrinks to this side too: agents whose rows are far from a test point judge by rows on which "
                "their own model is the best, and hold on to it.",
            )
        )
    return found


def _gain(gain: pd.DataFrame, covariance: float) -> str:
    return f"{plus_minus(gain[gain.covariance == covariance].gain)} % at {covariance:g}"
