"""Figure 7: DeGroot against averaging trust or errors over agents, along the curve and over all test points."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from degroot import Collective, baselines
from degroot.paper import experiment, style
from degroot.paper.experiment import Finding, Row, Run, Task, here, plus_minus, repeated
from degroot.paper.logistic import PRINTED, Line, Problem, curve, on_the_line, pose
from degroot.paper.schemes import mean_squared

TITLE = "Figure 7: DeGroot against tau-avg and MSE-avg"
ABOUT = (
    "Squared error along xi = a'x of DeGroot, of weights from the mean of the agents' trust (tau-avg) and of weights "
    "from the mean of their errors (MSE-avg); median over repetitions, the middle half shaded, at the printed label "
    "noise and at 0.01, with which the printed error of DeGroot is reached. The legend has the mean squared errors on "
    "the test points."
)
SCHEMES: dict[str, Callable[..., Collective]] = {
    "DeGroot": Collective, "tau-avg": baselines.trust_average, "MSE-avg": baselines.error_average,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Settings(experiment.Settings, Problem, Line):
    """The synthetic problem, with the printed noise and with less."""

    noises: tuple[float, ...] = (0.1, 0.01)


def trial(settings: Settings, random: np.random.Generator, noise: float) -> Iterator[Row]:
    """For each scheme the squared errors along the line, and their mean on the test points."""
    agents, X, y = pose(replace(settings, noise=noise), random)
    line = on_the_line(settings.xi)
    for scheme, pooled in SCHEMES.items():
        collective = pooled(agents, settings.neighbours, n_jobs=1)
        yield {"scheme": scheme, "where": "test points", "squared_error": mean_squared(collective.predict(X), y)}
        for xi, error in zip(settings.xi, (collective.predict(line) - curve(line)) ** 2, strict=True):
            yield {"scheme": scheme, "where": "line", "xi": xi, "squared_error": error}


def tasks(settings: Settings = Settings()) -> list[Task]:
    """A case for each noise."""
    return repeated(trial, settings, [{"noise": noise} for noise in settings.noises])


def compute(settings: Settings = Settings(), run: Run = here) -> pd.DataFrame:
    """A row for each noise, repetition, scheme and position, and one for the mean over the test points."""
    return run(tasks(settings))


def draw(table: pd.DataFrame, settings: Settings = Settings()) -> Figure:
    """A panel for each noise."""
    figure, panels = style.panels(len(settings.noises), height=3.6, sharey=True)
    for axes, noise in zip(panels, settings.noises, strict=True):
        _draw_noise(axes, table[table.noise == noise])
        axes.set_xlim(settings.xi_from, settings.xi_to)
        axes.set(title=f"label noise {noise:g}", xlabel="position ξ = a'x", yscale="log", ylim=(1e-7, 100))
    panels[0].set_ylabel("squared error")
    style.legend(
        panels, loc="upper center", fontsize=8, title="mean squared error on the test points", title_fontsize=8
    )
    return figure


def _draw_noise(axes: Axes, rows: pd.DataFrame) -> None:
    for scheme in SCHEMES:
        each = rows[rows.scheme == scheme]
        mean = each[each["where"] == "test points"].squared_error.mean()
        label = f"{scheme}: {mean:.1e} (paper: {PRINTED[scheme]:.1e})"
        style.band(axes, each[each["where"] == "line"], "xi", "squared_error", scheme, label=label)
        axes.lines[-1].set(markevery=4)


def findings(table: pd.DataFrame, settings: Settings = Settings()) -> list[Finding]:
    """The printed errors, their order, and who is nearest to the truth along the line."""
    found = []
    for noise in settings.noises:
        rows = table[table.noise == noise]
        mse = rows[rows["where"] == "test points"].pivot(index="repetition", columns="scheme", values="squared_error")
        found += [_value(mse[scheme], scheme, noise) for scheme in SCHEMES]
        found += [_order(mse, noise), _nearest(rows[rows["where"] == "line"], noise)]
    return found


def _value(mse: pd.Series, scheme: str, noise: float) -> Finding:
    agrees = 0.5 <= mse.mean() / PRINTED[scheme] <= 2.0
    return Finding(
        f"MSE of {scheme}, label noise {noise:g}", f"{PRINTED[scheme]:.1e}", plus_minus(mse),
        "The mean over repetitions is within a factor of 2 of the printed value.", bool(agrees),
        "" if agrees else "The headline numbers, under `synthetic`, say which readings of the noise give the print.",
    )  # fmt: skip


def _order(mse: pd.DataFrame, noise: float) -> Finding:
    ahead = (mse["DeGroot"] < mse[["tau-avg", "MSE-avg"]].min(axis=1)).mean()
    between = (mse["tau-avg"] < mse["MSE-avg"]).mean()
    mean = mse.mean()
    return Finding(
        f"Order of the schemes, label noise {noise:g}",
        "DeGroot before tau-avg before MSE-avg",
        f"DeGroot is the best of the three in {100 * ahead:.0f} % of the repetitions, tau-avg is before MSE-avg in "
        f"{100 * between:.0f} %",
        "The means over repetitions have this order.",
        bool(mean["DeGroot"] < mean["tau-avg"] < mean["MSE-avg"]),
    )


def _nearest(line: pd.DataFrame, noise: float) -> Finding:
    median = line.groupby(["xi", "scheme"]).squared_error.median().unstack()
    share = (median.idxmin(axis=1) == "DeGroot").mean()
    return Finding(
        f"Where DeGroot is nearest to the truth, label noise {noise:g}",
        "shape: the error of DeGroot is below the others along the curve",
        f"at {100 * share:.0f} % of the positions",
        "The median squared error of DeGroot is the least of the three at two thirds of the positions or more.",
        bool(share >= 2 / 3),
    )
