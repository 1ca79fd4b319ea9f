"""Figure 2: the error at every test point, over rounds of pooling, and with jackknife error bars."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from degroot import Collective, baselines
from degroot.consensus.dense import pool
from degroot.paper import drawing, experiment
from degroot.paper.drawing import per_agent
from degroot.paper.experiment import ExperimentTask, Finding, Row, Run, repeat_cases, run_here
from degroot.paper.problems.logistic import DIRECTION, Line, Problem, pose, predict_along
from degroot.paper.schemes import mean_squared
from degroot.paper.statistics import plus_minus

TITLE = "Figure 2: error by test point, pooling rounds, and jackknife intervals"
ABOUT = (
    "On the synthetic problem: (a) squared errors of DeGroot and M-avg at every test point, first repetition; (b) "
    "the error of each agent's belief over rounds of pooling, at the printed label noise and at 0.01, with the exact "
    "consensus; (c) the collective prediction plus and minus one jackknife standard error, first repetition."
)
DRAWN = 30  # rounds
PRINTED = 20  # rounds to consensus, about


@dataclass(frozen=True, kw_only=True)
class Settings(experiment.Settings, Problem, Line):
    """The synthetic problem as printed; pooling also with less noise."""

    noises: tuple[float, ...] = (Problem.noise, 0.01)  # of panel b
    rounds: tuple[int, ...] = (
        *range(11), *range(12, 21, 2), 22, 25, 30, 35, 40, 50, 60, 80, 100, 130, 170, 220, 300, 400, 500, 700, 1000,
    )  # fmt: skip
    agreement: float = 1e-3  # agents whose beliefs are no farther apart agree


def by_point(settings: Settings, random: np.random.Generator, panel: str) -> Iterator[Row]:
    """The squared errors of DeGroot and M-avg at every test point."""
    agents, X, y = pose(settings, random)
    degroot = (Collective(agents, settings.neighbours, n_jobs=1).predict(X) - y) ** 2
    average = (baselines.average(agents).predict(X) - y) ** 2
    for xi, *errors in zip(X @ DIRECTION, degroot, average, strict=True):
        yield {"xi": xi, "DeGroot": errors[0], "M-avg": errors[1]}


def by_round(settings: Settings, random: np.random.Generator, panel: str, noise: float) -> Iterator[Row]:
    """Each agent's error after some rounds, the exact consensus', and how far apart agents are at most.

    And, of the test point where it is largest, the trust in itself of the agent with the second largest.
    """
    agents, X, y = pose(replace(settings, noise=noise), random)
    answer = Collective(agents, settings.neighbours, n_jobs=1).consult(X, ["value", "beliefs", "trust"])
    trust, beliefs, consensus = np.asarray(answer.trust), np.asarray(answer.beliefs), np.asarray(answer.value)
    second = np.sort(np.diagonal(trust, axis1=1, axis2=2))[:, -2].max()
    for before, now in zip((0, *settings.rounds), settings.rounds, strict=False):
        beliefs = pool(trust, beliefs, rounds=now - before).beliefs
        common = {"round": now, "consensus": mean_squared(consensus, y), "apart": np.ptp(beliefs, axis=1).max()}
        for agent, mse in zip(answer.names, ((beliefs - y[:, None]) ** 2).mean(axis=0), strict=True):
            yield {**common, "self_trust": second, "agent": agent, "mse": mse}


def along(settings: Settings, random: np.random.Generator, panel: str) -> Iterator[Row]:
    """The collective prediction and its standard error at every position."""
    yield from predict_along(settings, settings.neighbours, settings.xi, random)


def tasks(settings: Settings = Settings()) -> list[ExperimentTask]:
    """The panels."""
    return [
        *repeat_cases(by_point, settings, [{"panel": "a"}]),
        *repeat_cases(by_round, settings, [{"panel": "b", "noise": noise} for noise in settings.noises]),
        *repeat_cases(along, settings, [{"panel": "c"}]),
    ]


def compute(settings: Settings = Settings(), run: Run = run_here) -> pd.DataFrame:
    """The rows of all panels; a column that belongs to another panel is empty."""
    return run(tasks(settings))


def draw(table: pd.DataFrame, settings: Settings = Settings()) -> Figure:
    """Test points and intervals above, rounds below."""
    figure, [points, line, *rounds] = drawing.panels(2, 1 + (len(settings.noises) + 1) // 2, height=3.0)
    first = table[table.repetition == 0]
    _draw_points(points, first[first.panel == "a"])
    drawing.draw_intervals(line, first[first.panel == "c"])
    line.set_title("(c) prediction ± jackknife standard error")
    while len(rounds) > len(settings.noises):
        rounds.pop().remove()
    for axes, noise in zip(rounds, settings.noises, strict=True):
        _draw_rounds(axes, table[(table.panel == "b") & (table.noise == noise)], noise)
    drawing.legend([points, line, *rounds], fontsize=8)
    return figure


def _draw_points(axes: Axes, rows: pd.DataFrame) -> None:
    for scheme in ("M-avg", "DeGroot"):
        axes.plot(
            rows.xi, rows[scheme], ls="none", marker=drawing.MARKERS[scheme], color=drawing.COLOURS[scheme],
            ms=3, alpha=0.6, label=scheme,
        )  # fmt: skip
    axes.set(title="(a) test points", xlabel="position ξ = a'x", ylabel="squared error", yscale="log", ylim=(1e-8, 1))


def _draw_rounds(axes: Axes, rows: pd.DataFrame, noise: float) -> None:
    per_agent(axes, rows[rows["round"] <= DRAWN], "round", "mse")
    axes.axhline(rows.consensus.median(), color="black", ls="--", label="consensus")
    axes.set(title=f"(b) pooling, label noise {noise:g}", xlabel="rounds", yscale="log")
    axes.set_ylabel("mean squared error")


def findings(table: pd.DataFrame, settings: Settings = Settings()) -> list[Finding]:
    """How often DeGroot is nearer to the truth, how soon the agents agree, and what the error bars tell."""
    return [
        _nearer(table[table.panel == "a"]),
        *(_rounds(table[(table.panel == "b") & (table.noise == noise)], noise, settings) for noise in settings.noises),
        _bars(table[table.panel == "c"]),
    ]


def _nearer(rows: pd.DataFrame) -> Finding:
    share = (rows["DeGroot"] < rows["M-avg"]).groupby(rows.repetition).mean()
    times = (rows["M-avg"] / rows["DeGroot"]).median()
    return Finding(
        "(a) Test points at which DeGroot is nearer to the truth than M-avg",
        "shape: the error is smaller nearly everywhere",
        f"{100 * share.mean():.0f} % of them; the error of M-avg is {times:.0f} times as large at the median point",
        "At three quarters of the test points or more, on average over repetitions.",
        bool(share.mean() >= 0.75),
    )


def _rounds(rows: pd.DataFrame, noise: float, settings: Settings) -> Finding:
    off = ((rows.mse / rows.consensus - 1).abs()).groupby([rows.repetition, rows["round"]]).max().unstack()
    apart = rows.groupby(["repetition", "round"]).apart.max().unstack()
    as_good, agreed = _first(off <= 0.01), _first(apart <= settings.agreement)
    return Finding(
        "(b) Rounds until all agents are as good as the consensus",
        f"about {PRINTED} rounds to consensus",
        f"{_number(as_good, 0.5)} (median; half of the repetitions {_number(as_good, 0.25)} to "
        f"{_number(as_good, 0.75)}, the slowest {_number(as_good, 1.0)})",
        f"After {PRINTED} rounds every agent's mean squared error is within 1 % of that of the exact consensus, in at "
        "least half of the repetitions.",
        bool((as_good <= PRINTED).mean() >= 0.5),
        f"Until no two agents differ by more than {settings.agreement:g} at any test point: "
        f"{_number(agreed, 0.5)} rounds (median; the slowest {_number(agreed, 1.0)}). In the median repetition there "
        f"is a test point where two agents each put {rows.self_trust.median():.3f} or more of their trust in "
        "themselves.",
        reading="" if noise == settings.noise else f"noise {noise:g}",
    )


def _first(reached: pd.DataFrame) -> pd.Series:
    """For each repetition, the first of the rounds from which on it is reached, or infinity."""
    stays = reached.iloc[:, ::-1].cummin(axis=1).iloc[:, ::-1]
    return stays.idxmax(axis=1).where(stays.any(axis=1), np.inf).astype(float)


def _number(rounds: pd.Series, share: float) -> str:
    """How many rounds are enough for this share of the repetitions."""
    enough = rounds.quantile(share, interpolation="higher")
    return f"{enough:.0f}" if np.isfinite(enough) else "more than we looked at"


def _bars(rows: pd.DataFrame) -> Finding:
    error = (rows.value - rows.truth).abs()
    ranks = pd.DataFrame({"error": error, "bar": rows.standard_error}).groupby(rows.repetition).rank()
    correlation = ranks.groupby(rows.repetition).apply(lambda each: each["error"].corr(each["bar"]))
    within = (error <= rows.standard_error).groupby(rows.repetition).mean()
    return Finding(
        "(c) Rank correlation along the line of error bars and errors",
        "shape: intervals are wide where the prediction hangs on few agents",
        plus_minus(correlation),
        "Not judged: the paper prints no number, and a standard error says how much hangs on single agents, not how "
        "wrong the prediction is.",
        None,
        f"The truth lies within one standard error at {100 * within.mean():.0f} % of the positions. Figure 8 judges "
        "where the bars are wide.",
    )
