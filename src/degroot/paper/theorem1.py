"""Theorem 1, tried out: as rows grow, the weights tend to the inverse of the models' local errors."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from degroot import Agent, Collective, trust
from degroot.paper import experiment, style
from degroot.paper.experiment import Finding, Row, Run, Task, here, plus_minus, repeated

Array = NDArray[np.float64]

TITLE = "Theorem 1: consensus weights against their limit as rows grow"
ABOUT = (
    "Five agents draw rows from the same distribution, uniform on a square; their models are fixed, truth + bias_j, so "
    "that the expected squared error of each near x', bias_j(x')² + noise², is known (labels are noisy, and that is "
    "part of the error). The weights should tend to its inverse, normalised, when the neighbours N grow in number but "
    "shrink as a share of the rows, N = rows^(2/3), and should not when N stays 5."
)
HOMES = np.array([[-0.6, -0.6], [-0.6, 0.6], [0.0, 0.0], [0.6, -0.6], [0.6, 0.6]])  # where each model is at its best
POINT = np.array([-0.5, 0.35])  # whose weights are drawn: all distances to the homes differ
AGENTS = tuple(f"agent {k}" for k in range(1, len(HOMES) + 1))


@dataclass(frozen=True, kw_only=True)
class Settings(experiment.Settings):
    """How many rows the agents have, and how their neighbourhoods grow with them."""

    rows: tuple[int, ...] = (100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600)  # of each agent
    exponent: float = 2 / 3  # of the growing neighbourhood, N = rows ** exponent
    fixed: int = 5  # the neighbours of the one that does not grow
    noise: float = 0.2  # standard deviation, of the labels
    side: int = 5  # test points are a grid of side x side

    @property
    def slope(self) -> float:
        """What theory has for the growing neighbourhood: the power of rows with which the difference falls.

        Chance goes with :math:`N^{-1/2}`; the width of the neighbourhood, squared, with its share of the rows, as
        these have two features.
        """
        return -min(self.exponent / 2, 1 - self.exponent)


def truth(X: Array) -> Array:
    """The labels without noise."""
    labels: Array = np.sin(np.pi * X[:, 0]) + X[:, 1] ** 2
    return labels


def misses(X: Array) -> Array:
    """By how much the models miss the truth, (n, K): little at an agent's home, and more with the distance squared."""
    away: Array = ((X[:, None, :] - HOMES) ** 2).sum(axis=-1)
    return 0.1 + away


def limits(X: Array, noise: float) -> Array:
    """What theorem 1 has for the weights, (n, K): the inverse of bias² + noise², normalised."""
    return trust.from_errors(misses(X) ** 2 + noise**2)


def trial(settings: Settings, random: np.random.Generator, rows: int, neighbourhood: str) -> Iterator[Row]:
    """For each agent: its weight at one point, and the differences of its weights from their limits at many."""
    side = np.linspace(-0.5, 0.5, settings.side)
    X = np.vstack([POINT, np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)])
    neighbours = round(rows**settings.exponent) if neighbourhood == "growing" else settings.fixed
    collective = Collective(_agents(settings, rows, random), neighbours, n_jobs=1)
    weights, limit = np.asarray(collective.consult(X, fields="weights").weights), limits(X, settings.noise)
    differences = np.abs(weights - limit)[1:]
    for k, name in enumerate(AGENTS):
        yield {
            "neighbours": neighbours,
            "agent": name,
            "weight": weights[0, k],
            "limit": limit[0, k],
            "mean": differences[:, k].mean(),
            "largest": differences[:, k].max(),
        }


def tasks(settings: Settings = Settings()) -> list[Task]:
    """Every number of rows, with neighbourhoods that grow and that do not."""
    cases = [{"rows": n, "neighbourhood": kind} for kind in ("growing", "fixed") for n in settings.rows]
    return repeated(trial, settings, cases)


def compute(settings: Settings = Settings(), run: Run = here) -> pd.DataFrame:
    """Weights and their differences from the limits, for each agent and number of rows."""
    return run(tasks(settings))


def draw(table: pd.DataFrame, settings: Settings = Settings()) -> Figure:
    """The differences against rows, and the weights at one point on their way to the limits."""
    figure, (left, right) = style.panels(2, height=3.6)
    grows, stays = f"N = rows^{settings.exponent:.2f}", f"N = {settings.fixed}"
    for kind, name, colour, marker in (
        ("growing", grows, style.COLOURS["DeGroot"], "o"),
        ("fixed", stays, "black", "s"),
    ):
        every, (slope, error) = differences(table, kind), fitted_slope(table, kind)
        _band(left, every, "mean", colour, marker, "-", f"{name}: mean, slope {slope:.3f} ± {error:.3f}")
        _band(left, every, "largest", colour, marker, ":", f"{name}: largest")
    left.set(
        xscale="log", yscale="log", xlabel="rows of each agent", ylabel="difference of the weights from their limit"
    )
    for k, (name, part) in enumerate(table[table.neighbourhood == "growing"].groupby("agent")):
        _band(right, part, "weight", style.AGENTS[k], "osD^v"[k], "-", f"{name}, {grows}")
        right.axhline(part.limit.iloc[0], color=style.AGENTS[k], ls="--", lw=1)
    best = _of_the_best(table, "fixed")
    _band(right, best, "weight", "black", "s", ":", f"{best.agent.iloc[0]}, {stays}")
    right.plot([], [], color="black", ls="--", lw=1, label="limits")
    at = f"({POINT[0]:g}, {POINT[1]:g})"
    right.set(xscale="log", xlabel="rows of each agent", ylabel=f"consensus weight at x' = {at}", ylim=(0, None))
    left.set_ylim(top=left.get_ylim()[1] * 4)  # room for the legend
    style.legend([left], loc="upper right", fontsize=7.5)
    style.legend([right], loc="center", bbox_to_anchor=(0.5, 0.52), fontsize=7.5, ncols=2)
    return figure


def findings(table: pd.DataFrame, settings: Settings = Settings()) -> list[Finding]:
    """The difference falls and ends small, but only where the neighbourhood grows."""
    growing, fixed = differences(table, "growing"), differences(table, "fixed")
    final = growing[growing.rows == growing.rows.max()]
    slope, error = fitted_slope(table, "growing")
    middle = float(np.median(fixed.rows.unique()))
    flat, flat_error = fitted_slope(table[table.rows >= middle], "fixed")
    stays, best = fixed[fixed.rows == fixed.rows.max()], _of_the_best(table, "fixed")
    best = best[best.rows == best.rows.max()]
    return [
        Finding(
            what="Difference between weights and limit as rows grow",
            paper="shape: the weights tend to inverse-MSE weights (theorem 1)",
            ours=f"mean difference falls as rows^({slope:.3f} ± {error:.3f})",
            rule="the slope in logarithms is below zero by more than two standard errors",
            agrees=bool(slope + 2 * error < 0),
            note=f"Chance and the width of the neighbourhood together let expect a power of {settings.slope:.3f}.",
        ),
        Finding(
            what=f"Difference that is left at {final.rows.iloc[0]:,} rows",
            paper="shape: none in the limit",
            ours=f"mean {plus_minus(final['mean'])}, largest {plus_minus(final.largest)}",
            rule="mean below 0.01 and largest below 0.05, where the mean weight is 0.2",
            agrees=bool(final["mean"].mean() < 0.01 and final.largest.mean() < 0.05),
        ),
        Finding(
            what=f"Difference when the neighbours stay {settings.fixed}",
            paper="shape: the theorem needs neighbourhoods that grow",
            ours=f"mean {plus_minus(stays['mean'])} at the most rows; slope {flat:.3f} ± {flat_error:.3f} in the upper "
            "half of the rows",
            rule="the slope in the upper half of the rows is above half of the one expected for growing neighbourhoods",
            agrees=bool(flat > settings.slope / 2),
            note="With few neighbours the errors keep fluctuating however near they are, and the inverse of a "
            "fluctuating error is too large on average (Jensen), most so for the best model: at the point drawn its "
            f"weight is {plus_minus(best.weight)} at the most rows, where the limit is {best.limit.iloc[0]:.3f}.",
        ),
    ]


def differences(table: pd.DataFrame, kind: str) -> pd.DataFrame:
    """The mean and the largest difference over all agents, for each number of rows and repetition."""
    groups = table[table.neighbourhood == kind].groupby(["rows", "repetition"])
    return groups.agg({"mean": "mean", "largest": "max"}).reset_index()


def fitted_slope(table: pd.DataFrame, kind: str) -> tuple[float, float]:
    """The power of rows with which the mean difference goes, by least squares in logarithms; and its standard error."""
    from scipy.stats import linregress

    every = differences(table, kind)
    line = linregress(np.log(every.rows), np.log(every["mean"]))
    return float(line.slope), float(line.stderr)


def _of_the_best(table: pd.DataFrame, kind: str) -> pd.DataFrame:
    """The rows of the agent with the largest limit at the point that is drawn."""
    return table[(table.neighbourhood == kind) & (table.limit == table.limit.max())]


def _agents(settings: Settings, rows: int, random: np.random.Generator) -> list[Agent]:
    agents = []
    for k, name in enumerate(AGENTS):
        X = random.uniform(-1.0, 1.0, size=(rows, 2))
        y = truth(X) + settings.noise * random.normal(size=rows)
        agents.append(Agent(lambda X, k=k: truth(X) + misses(X)[:, k], X, y, name))
    return agents


def _band(axes: Axes, table: pd.DataFrame, y: str, colour: str, marker: str, line: str, label: str) -> None:
    quartiles = table.groupby("rows")[y].quantile([0.25, 0.5, 0.75]).unstack()
    axes.fill_between(quartiles.index, quartiles[0.25], quartiles[0.75], color=colour, alpha=0.2, lw=0)
    axes.plot(quartiles.index, quartiles[0.5], color=colour, marker=marker, ls=line, label=label)
