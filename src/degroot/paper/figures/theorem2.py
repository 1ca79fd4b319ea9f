"""Theorem 2, tried out: for independent unbiased agents no weights are better than those of inverse errors."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from degroot.paper import drawing, experiment, schemes
from degroot.paper.experiment import ExperimentTask, Finding, Row, Run, repeat_cases, run_here
from degroot.paper.problems import square, waves
from degroot.paper.statistics import above_zero, plus_minus, told, unsettled

Array = NDArray[np.float64]

TITLE = "Theorem 2: how near to the least possible error, and where that ends"
ABOUT = (
    "Five models, truth + error_j, whose errors are waves of a high random frequency with a standard deviation "
    "sigma_j(x) that varies over a square: unbiased, and independent between agents. Agents score on labels without "
    "noise, so that local errors are sigma_j² alone. Weights in proportion to 1 / sigma_j² then give the least "
    "expected squared error of all weights that sum to 1, 1 / sum_j (1 / sigma_j²). Top left: how far above it each "
    "method is, with N = rows^(2/3) neighbours. Top right: moving these weights towards and away from random ones. "
    "Bottom: when all agents share a part of their errors, which the theorem excludes."
)
OPTIMAL = "optimal weights"
ON_SIMPLEX = "optimal weights, none negative"
MOVED = "moved weights"
ABOVE = "MSE above the least possible [%]"


@dataclass(frozen=True, kw_only=True)
class Settings(experiment.Settings):
    """What the agents have, and how their errors are alike."""

    rows: tuple[int, ...] = (100, 200, 400, 800, 1600, 3200, 6400, 12800)  # of each agent
    exponent: float = 2 / 3  # N = rows ** exponent
    correlations: tuple[float, ...] = (0.15, 0.3, 0.45, 0.6, 0.75, 0.9)  # of any two agents' errors, at the most rows
    shifts: tuple[float, ...] = (-1.0, -0.75, -0.5, -0.25, 0.25, 0.5, 0.75, 1.0)  # 0: optimal weights; 1: random ones
    directions: int = 10  # how many random weights there are
    noise: float = 0.0  # standard deviation, of the labels on which agents score models
    frequency: float = 1000.0  # of the waves: far above 1 / width of a neighbourhood
    points: int = 2000  # test points


def trial(settings: Settings, random: np.random.Generator, rows: int, correlation: float) -> Iterator[Row]:
    """The error of every method, and of the weights that would be optimal; beside what theory expects."""
    X, errors = _points_and_errors(settings, correlation, random)
    agents, limits = square.make_agents(errors.error, rows, settings.noise, random), _limits(X, settings.noise)
    compared = schemes.WITHOUT_HOLD_OUT if correlation == 0.0 else ("DeGroot", "M-avg")
    found = schemes.errors(compared, agents, X, square.true_labels(X), round(rows**settings.exponent))
    covariance = errors.covariance(X)
    for scheme, mse in found.items():
        yield {"scheme": scheme, "mse": mse, **_expected(limits[scheme], errors, X)}
    yield {"scheme": OPTIMAL, **_known(waves.optimal(covariance), errors, X)}
    yield {"scheme": ON_SIMPLEX, **_known(waves.optimal_on_simplex(covariance), errors, X)}


def moved(settings: Settings, random: np.random.Generator, rows: int, correlation: float) -> Iterator[Row]:
    """The error of weights on lines from the optimal ones through random ones; no rows are needed for that."""
    X, errors = _points_and_errors(settings, correlation, random)
    best = waves.optimal(errors.covariance(X))
    yield {"scheme": OPTIMAL, **_known(best, errors, X)}
    for number, target in enumerate(random.dirichlet(np.ones(best.shape[1]), size=settings.directions), start=1):
        for shift in settings.shifts:
            known = _known(best + shift * (target - best), errors, X)
            yield {"scheme": MOVED, **known, "direction": number, "shift": shift}


def tasks(settings: Settings = Settings()) -> list[ExperimentTask]:
    """Every number of rows; at the most, every correlation; and known weights without any rows."""
    cases = [{"rows": n, "correlation": 0.0} for n in settings.rows]
    cases += [{"rows": max(settings.rows), "correlation": c} for c in settings.correlations]
    return repeat_cases(trial, settings, cases) + repeat_cases(moved, settings, [{"rows": 0, "correlation": 0.0}])


def compute(settings: Settings = Settings(), run: Run = run_here) -> pd.DataFrame:
    """Errors, `mse`, and what `theory` has for them where the number of rows has no end."""
    return run(tasks(settings))


def excess(table: pd.DataFrame, over: str = OPTIMAL) -> pd.DataFrame:
    """The table with columns `excess` and `expected`: percent above the error of weights `over` on the same points."""
    keys = ["rows", "correlation", "repetition"]
    both = table.merge(table.loc[table.scheme == over, [*keys, "mse", "theory"]], on=keys, suffixes=("", "_least"))
    both["excess"] = 100.0 * (both.mse / both.mse_least - 1.0)
    both["expected"] = 100.0 * (both.theory / both.theory_least - 1.0)
    return both


def draw(table: pd.DataFrame, settings: Settings = Settings()) -> Figure:
    """How far above the least error: with more rows, with other weights, with correlated errors."""
    figure, axes = drawing.panels(2, 2, height=3.1)
    every = excess(table)
    independent = every[(every.correlation == 0.0) & (every.rows > 0)]
    for scheme in reversed(schemes.WITHOUT_HOLD_OUT):  # DeGroot on top
        drawing.band(axes[0], independent[independent.scheme == scheme], "rows", "excess", scheme)
    axes[0].set(xscale="log", yscale="log", xlabel="rows of each agent", ylabel=ABOVE)
    _draw_moves(axes[1], every[every.rows == 0])
    _draw_errors(axes[2], table[table.rows == table.rows.max()])
    _draw_excess(axes[3], table)
    drawing.legend(axes, fontsize=7.5)
    return figure


def findings(table: pd.DataFrame, settings: Settings = Settings()) -> list[Finding]:
    """Near the optimum with many rows, never below it, and away from it with correlated errors."""
    every = excess(table)
    most = every[(every.rows == every.rows.max()) & (every.correlation == 0.0)]
    fewest = every[every.rows == every.rows[every.rows > 0].min()]
    return [_near(most, fewest), _others(most), _least(every), _moving(every), _correlating(table)]


def _near(most: pd.DataFrame, fewest: pd.DataFrame) -> Finding:
    above = {scheme: part.excess for scheme, part in most.groupby("scheme")}
    before = fewest[fewest.scheme == "DeGroot"]
    return Finding(
        what=f"DeGroot's MSE above the least possible at {most.rows.iloc[0]:,} rows",
        paper="shape: inverse-MSE weights are optimal for independent unbiased agents (theorem 2)",
        ours=f"{plus_minus(above['DeGroot'])} % ({plus_minus(before.excess)} % at {before.rows.iloc[0]:,} rows)",
        rule="At most 5 % on average over repetitions.",
        agrees=bool(above["DeGroot"].mean() <= 5.0),
        note=f"tau-avg ({plus_minus(above['tau-avg'])} %) and MSE-avg ({plus_minus(above['MSE-avg'])} %) have the same "
        "limit here, where all rows come from the same distribution; figure 7 shows them where they do not.",
    )


def _others(most: pd.DataFrame) -> Finding:
    wide = most.pivot(index="repetition", columns="scheme", values="excess")
    others = wide[["M-avg", "best single"]]
    return Finding(
        what="M-avg and the best single model above the least possible",
        paper="shape: no other weights are better",
        ours="; ".join(f"{scheme} {plus_minus(others[scheme])} %" for scheme in others),
        rule="Both are above DeGroot in every repetition, at the most rows.",
        agrees=bool((others.min(axis=1) > wide["DeGroot"]).all()),
    )


def _least(every: pd.DataFrame) -> Finding:
    known = every[(every.scheme == OPTIMAL) & (every.rows == 0)]
    apart = 100.0 * (known.mse / known.theory - 1.0)
    return Finding(
        what="MSE of the optimal weights against 1 / sum_j (1 / sigma_j²)",
        paper="shape: the least expected squared error",
        ours=f"{plus_minus(known.mse)} against {plus_minus(known.theory)}, {plus_minus(apart)} % apart",
        rule="They are within 5 % of each other on average over repetitions.",
        agrees=bool(abs(apart.mean()) <= 5.0),
    )


def _moving(every: pd.DataFrame) -> Finding:
    away = every[every.scheme == MOVED]
    raised, ratio = (away.excess > 0).mean(), away.excess.mean() / away.expected.mean()
    return Finding(
        what="Moving the optimal weights along random directions",
        paper="shape: any move raises the error",
        ours=f"raises it in {raised:.1%} of {len(away):,} moves, on average by {ratio:.3f} times what theory has",
        rule="Every move raises it, on average within 5 % of shift² · sum_j sigma_j² direction_j².",
        agrees=bool(raised == 1.0 and abs(ratio - 1.0) <= 0.05),
    )


def _correlating(table: pd.DataFrame) -> Finding:
    both = [
        _correlated(table, over).pivot(index="repetition", columns="correlation", values="excess")
        for over in (ON_SIMPLEX, OPTIMAL)
    ]
    simplex, optimal = (above.mean() for above in both)
    steps = [above[to] - above[start] for above in both for start, to in pairwise(above.columns)]
    agrees = above_zero(*steps)
    return Finding(
        what="DeGroot's MSE above the least possible when errors are correlated",
        paper="shape: the theorem assumes independent errors",
        ours="above the optimal weights that are not negative, and those that may be, by correlation: "
        + "; ".join(f"{simplex[c]:.1f} % and {optimal[c]:.1f} % at {c:g}" for c in simplex.index),
        rule="Both grow with every step of the correlation, by more than two standard errors of the mean difference; a "
        "step down by as much differs, anything between is not settled.",
        agrees=agrees,
        note=("" if agrees is not None else unsettled(len(both[0])) + " ") + _beside_theory(table),
    )


def _beside_theory(table: pd.DataFrame) -> str:
    """How DeGroot compares with what theory has for it where errors are correlated the most."""
    every = _correlated(table, ON_SIMPLEX)
    most = every[every.correlation == every.correlation.max()]
    return (
        f"At {most.correlation.iloc[0]:g} theory has {most.expected.mean():.1f} % above those that are not negative, "
        f"with rows without end; DeGroot is above that, in points: {told(most.excess - most.expected)}."
    )


def _correlated(table: pd.DataFrame, over: str) -> pd.DataFrame:
    """DeGroot above the weights `over`, at the most rows, for every correlation."""
    every = excess(table, over)
    return every[(every.rows == every.rows.max()) & (every.scheme == "DeGroot")]


def _draw_moves(axes: Axes, away: pd.DataFrame) -> None:
    drawing.band(axes, away, "shift", "excess", color="black", ls="", marker="o", label="moved weights")
    axes.plot(away.groupby("shift").expected.median(), color="black", ls="--", lw=1, label="theory")
    axes.set(xlabel="shift of the weights (0: optimal, 1: random)", ylabel=ABOVE)


def _draw_errors(axes: Axes, most: pd.DataFrame) -> None:
    for scheme in ("M-avg", "DeGroot"):
        drawing.band(axes, most[most.scheme == scheme], "correlation", "mse", scheme)
    for scheme, line, marker in ((ON_SIMPLEX, "--", "x"), (OPTIMAL, ":", "+")):
        part = most[most.scheme == scheme]
        drawing.band(axes, part, "correlation", "mse", color="black", ls=line, marker=marker, label=scheme)
    axes.set(xlabel="correlation of the agents' errors", ylabel="MSE", yscale="log")


def _draw_excess(axes: Axes, table: pd.DataFrame) -> None:
    for over, filling in ((OPTIMAL, "none"), (ON_SIMPLEX, "full")):
        part, colour = _correlated(table, over), drawing.COLOURS["DeGroot"]
        look = {"marker": drawing.MARKERS["DeGroot"], "fillstyle": filling, "label": f"DeGroot over {over}"}
        drawing.band(axes, part, "correlation", "excess", color=colour, **look)
        axes.plot(part.groupby("correlation").expected.median(), color="black", ls="--", lw=1)
    axes.plot([], [], color="black", ls="--", lw=1, label="theory, with rows without end")
    axes.set(xlabel="correlation of the agents' errors", ylabel=ABOVE)
    axes.set_yscale("symlog", linthresh=10.0)


def _points_and_errors(
    settings: Settings, correlation: float, random: np.random.Generator
) -> tuple[Array, waves.Waves]:
    X = square.make_points(settings.points, random)
    return X, waves.Waves.drawn(settings.frequency, correlation, random)


def _limits(X: Array, noise: float) -> dict[str, Array]:
    """The weights that each method tends to with more rows."""
    sigma = square.misses(X)
    single = np.zeros_like(sigma)
    single[:, (sigma**2).mean(axis=0).argmin()] = 1.0
    local = dict.fromkeys(("DeGroot", "tau-avg", "MSE-avg"), square.inverse_weights(X, noise))
    return {**local, "M-avg": np.full_like(sigma, 1 / sigma.shape[1]), "best single": single}


def _known(weights: Array, errors: waves.Waves, X: Array) -> Row:
    """The error of weights that are known, and what is expected of them."""
    return {"mse": ((weights * errors.errors(X)).sum(axis=-1) ** 2).mean(), **_expected(weights, errors, X)}


def _expected(weights: Array, errors: waves.Waves, X: Array) -> Row:
    """What theory has for the error of weights that are not moved."""
    theory = waves.expected_error(weights, errors.covariance(X)).mean()
    return {"theory": theory, "direction": 0, "shift": 0.0}
