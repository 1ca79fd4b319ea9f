"""Theorem 1, tried out: as rows grow, the weights tend to the inverse of the models' local errors."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from degroot import Collective
from degroot.paper import drawing, experiment
from degroot.paper.drawing import AGENT_COLOURS, per_agent
from degroot.paper.experiment import ExperimentTask, Finding, Row, Run, repeat_cases, run_here
from degroot.paper.problems import square
from degroot.paper.statistics import above_zero, plus_minus, told, unsettled, with_error

TITLE = "Theorem 1: consensus weights against their limit as rows grow"
ABOUT = (
    "Five agents draw rows from the same distribution, uniform on a square; their models are fixed, truth + bias_j, so "
    "that the expected squared error of each near x', bias_j(x')² + noise², is known (labels are noisy, and that is "
    "part of the error). The weights should tend to its inverse, normalised, when the neighbours N grow in number but "
    "shrink as a share of the rows, N = rows^(2/3), and should not when N stays 5."
)
POINT = np.array([-0.5, 0.35])  # whose weights are drawn: all distances to the homes differ


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


def trial(settings: Settings, random: np.random.Generator, rows: int, neighbourhood: str) -> Iterator[Row]:
    """For each agent: its weight at one point, and the differences of its weights from their limits at many."""
    side = np.linspace(-0.5, 0.5, settings.side)
    X = np.vstack([POINT, np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)])
    neighbours = round(rows**settings.exponent) if neighbourhood == "growing" else settings.fixed
    agents = square.make_agents(lambda k, X: square.misses(X)[:, k], rows, settings.noise, random)
    weights = np.asarray(Collective(agents, neighbours, n_jobs=1).consult(X, fields="weights").weights)
    limit = square.inverse_weights(X, settings.noise)
    differences = np.abs(weights - limit)[1:]
    for k, name in enumerate(square.NAMES):
        yield {
            "neighbours": neighbours,
            "agent": name,
            "weight": weights[0, k],
            "limit": limit[0, k],
            "mean": differences[:, k].mean(),
            "largest": differences[:, k].max(),
        }


def tasks(settings: Settings = Settings()) -> list[ExperimentTask]:
    """Every number of rows, with neighbourhoods that grow and that do not."""
    cases = [{"rows": n, "neighbourhood": kind} for kind in ("growing", "fixed") for n in settings.rows]
    return repeat_cases(trial, settings, cases)


def compute(settings: Settings = Settings(), run: Run = run_here) -> pd.DataFrame:
    """Weights and their differences from the limits, for each agent and number of rows."""
    return run(tasks(settings))


def draw(table: pd.DataFrame, settings: Settings = Settings()) -> Figure:
    """The differences against rows, and the weights at one point on their way to the limits."""
    figure, (left, right) = drawing.panels(2, height=3.6)
    names = {"growing": f"N = rows^{settings.exponent:.2f}", "fixed": f"N = {settings.fixed}"}
    _draw_differences(left, table, names)
    _draw_weights(right, table, names)
    return figure


def findings(table: pd.DataFrame, settings: Settings = Settings()) -> list[Finding]:
    """The difference falls and ends small, but only where the neighbourhood grows."""
    return [_falling(table, settings), _ending(table), _staying(table, settings)]


def differences(table: pd.DataFrame, kind: str) -> pd.DataFrame:
    """The mean and the largest difference over all agents, for each number of rows and repetition."""
    groups = table[table.neighbourhood == kind].groupby(["rows", "repetition"])
    return groups.agg({"mean": "mean", "largest": "max"}).reset_index()


def slopes(table: pd.DataFrame, kind: str) -> pd.Series:
    """The power of rows with which the mean difference goes, by least squares in logarithms, in each repetition."""
    log = np.log(differences(table, kind).pivot(index="rows", columns="repetition", values="mean"))
    x = np.log(log.index.to_numpy())
    x -= x.mean()
    return log.mul(x, axis=0).sum() / (x @ x)


def _falling(table: pd.DataFrame, settings: Settings) -> Finding:
    each = slopes(table, "growing")
    agrees = above_zero(-each)
    return Finding(
        what="Difference between weights and limit as rows grow",
        paper="shape: the weights tend to inverse-MSE weights (theorem 1)",
        ours=f"the mean difference goes as a power of rows: {told(each)}",
        rule="The slope in logarithms is below zero by more than two standard errors of the mean over repetitions; "
        "above by as much differs, anything between is not settled.",
        agrees=agrees,
        note=f"From chance, and from the width of the neighbourhood, one expects {settings.slope:.3f} in the end."
        + ("" if agrees is not None else " " + unsettled(len(each))),
    )


def _ending(table: pd.DataFrame) -> Finding:
    last = _at_most_rows(differences(table, "growing"))
    return Finding(
        what=f"Difference that is left at {last.rows.iloc[0]:,} rows",
        paper="shape: none in the limit",
        ours=f"mean {plus_minus(last['mean'])}, largest {plus_minus(last.largest)}",
        rule="The mean is below 0.01 and the largest below 0.05, on average over repetitions; the mean weight is 0.2.",
        agrees=bool(last["mean"].mean() < 0.01 and last.largest.mean() < 0.05),
    )


def _staying(table: pd.DataFrame, settings: Settings) -> Finding:
    upper = table[table.rows >= table.rows.drop_duplicates().median()]
    each, last = slopes(upper, "fixed"), _at_most_rows(differences(table, "fixed"))
    agrees = above_zero(each - settings.slope / 2)
    return Finding(
        what=f"Difference when the neighbours stay {settings.fixed}",
        paper="shape: the theorem needs neighbourhoods that grow",
        ours=f"mean {plus_minus(last['mean'])} at the most rows; in the upper half of the numbers of rows it goes as "
        f"a power of rows: {told(each)}",
        rule="That power is above half of the one expected for growing neighbourhoods by more than two standard errors "
        "of the mean over repetitions; below by as much differs, anything between is not settled.",
        agrees=agrees,
        note=("" if agrees is not None else unsettled(len(each)) + " ") + _biased(table),
    )


def _biased(table: pd.DataFrame) -> str:
    """Whether the weight of the best model is too large when the neighbours stay few."""
    best = _at_most_rows(_of_the_best(table, "fixed")).set_index("repetition")
    off = best.weight - best.limit
    why = ": the inverse of an error that fluctuates is too large on average (Jensen)." if above_zero(off) else "."
    return (
        f"At the point drawn and the most rows the weight of the best model is its limit, {best.limit.iloc[0]:.3f}, "
        f"plus {told(off)}{why}"
    )


def _at_most_rows(table: pd.DataFrame) -> pd.DataFrame:
    return table[table.rows == table.rows.max()]


def _of_the_best(table: pd.DataFrame, kind: str) -> pd.DataFrame:
    """The rows of the agent with the largest limit at the point that is drawn."""
    return table[(table.neighbourhood == kind) & (table.limit == table.limit.max())]


def _draw_differences(axes: Axes, table: pd.DataFrame, names: dict[str, str]) -> None:
    looks = {"growing": (drawing.COLOURS["DeGroot"], "o"), "fixed": ("black", "s")}
    for kind, (colour, marker) in looks.items():
        every = differences(table, kind)
        label = f"{names[kind]}: mean, slope {with_error(slopes(table, kind))}"
        drawing.band(axes, every, "rows", "mean", color=colour, marker=marker, label=label)
        drawing.band(
            axes, every, "rows", "largest", color=colour, marker=marker, ls=":", label=f"{names[kind]}: largest"
        )
    axes.set(xscale="log", yscale="log", xlabel="rows of each agent", ylabel="difference of the weights from the limit")
    axes.set_ylim(top=axes.get_ylim()[1] * 4)  # room for the legend
    drawing.legend([axes], loc="upper right", fontsize=7.5)


def _draw_weights(axes: Axes, table: pd.DataFrame, names: dict[str, str]) -> None:
    growing = table[table.neighbourhood == "growing"]
    per_agent(axes, growing, "rows", "weight")
    for agent, limit in growing.groupby("agent").limit.first().items():
        axes.axhline(limit, color=AGENT_COLOURS[agent], ls="--", lw=1)
    best = _of_the_best(table, "fixed")
    label = f"{best.agent.iloc[0]}, {names['fixed']}"
    drawing.band(axes, best, "rows", "weight", color="black", marker="s", ls=":", label=label)
    axes.plot([], [], color="black", ls="--", lw=1, label="limits")
    at = f"({POINT[0]:g}, {POINT[1]:g})"
    axes.set(xscale="log", xlabel="rows of each agent", ylabel=f"consensus weight at x' = {at}", ylim=(0, None))
    drawing.legend([axes], loc="center", bbox_to_anchor=(0.5, 0.52), fontsize=7.5, ncols=2, title=names["growing"])
