"""Figure 1: whom the agents trust, and who is right, along the curve."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from degroot import Collective
from degroot.paper import drawing, experiment
from degroot.paper.drawing import per_agent
from degroot.paper.experiment import ExperimentTask, Finding, Row, Run, repeat_cases, run_here
from degroot.paper.problems.logistic import NAMES, Line, Problem, Sample, curve, make_agents, on_the_line
from degroot.paper.statistics import plus_minus

TITLE = "Figure 1: consensus weights and errors along xi"
ABOUT = (
    "The five agents' consensus weights and the squared errors of their models along xi = a'x, where the truth falls "
    "from 1 to 0; median over repetitions, the middle half shaded. Where a model's error is least its weight should be "
    "largest."
)


@dataclass(frozen=True, kw_only=True)
class Settings(experiment.Settings, Sample, Line):
    """The synthetic problem as printed."""

    neighbours: int = Problem.neighbours


def trial(settings: Settings, random: np.random.Generator) -> Iterator[Row]:
    """Every agent's weight, and the error of its model, at every position."""
    X = on_the_line(settings.xi)
    collective = Collective(make_agents(settings, random), settings.neighbours, n_jobs=1)
    answer = collective.consult(X, ["weights", "beliefs"])
    weights, errors = np.asarray(answer.weights), (np.asarray(answer.beliefs) - curve(X)[:, None]) ** 2
    for k, agent in enumerate(answer.names):
        for xi, weight, error in zip(settings.xi, weights[:, k], errors[:, k], strict=True):
            yield {"agent": agent, "xi": xi, "weight": weight, "squared_error": error}


def tasks(settings: Settings = Settings()) -> list[ExperimentTask]:
    """A single case."""
    return repeat_cases(trial, settings, [{}])


def compute(settings: Settings = Settings(), run: Run = run_here) -> pd.DataFrame:
    """A row for each repetition, agent and position."""
    return run(tasks(settings))


def draw(table: pd.DataFrame, settings: Settings = Settings()) -> Figure:
    """Weights on the left, errors on the right."""
    figure, [weights, errors] = drawing.panels(2)
    per_agent(weights, table, "xi", "weight")
    per_agent(errors, table, "xi", "squared_error")
    for axes in (weights, errors):
        axes.set(xlabel="position ξ = a'x", xlim=(settings.xi_from, settings.xi_to))
    weights.set(ylabel="consensus weight", ylim=(0, 1))
    errors.set(ylabel="squared error of the model", yscale="log", ylim=(1e-6, 10))
    drawing.legend([weights], loc="upper center", ncols=3)
    return figure


def findings(table: pd.DataFrame, settings: Settings = Settings()) -> list[Finding]:
    """Whether weight goes to those who are right."""
    places = table.groupby(["repetition", "xi"])
    ranked = table.assign(error_rank=places.squared_error.rank(), weight_rank=places.weight.rank(ascending=False))
    return [_largest(ranked), _in_order(ranked), _leading(table)]


def _largest(ranked: pd.DataFrame) -> Finding:
    leaders = ranked[ranked.weight_rank == 1]
    best, second = (leaders.error_rank == 1).mean(), (leaders.error_rank <= 2).mean()
    return Finding(
        "The largest weight goes to a model that is right there",
        "shape: weights are large where the model's error is small",
        f"to the best or second best of five at {100 * second:.0f} % of the positions, to the best at "
        f"{100 * best:.0f} %",
        "To the best or second best at three quarters of the positions or more, on average.",
        bool(second >= 0.75),
    )


def _in_order(ranked: pd.DataFrame) -> Finding:
    K, apart = len(NAMES), (ranked.error_rank - ranked.weight_rank) ** 2
    at_each = 1 - 6 * apart.groupby([ranked.repetition, ranked.xi]).sum() / (K * (K**2 - 1))
    correlation = at_each.groupby("repetition").mean()
    return Finding(
        "Rank correlation of weights and inverse errors among the five agents",
        "shape: the better a model, the larger its weight",
        plus_minus(correlation),
        "Spearman's, averaged over positions and repetitions, is 0.5 or more.",
        bool(correlation.mean() >= 0.5),
    )


def _leading(table: pd.DataFrame) -> Finding:
    medians = table.groupby(["xi", "agent"]).weight.median().unstack()
    leading = sorted(set(medians.idxmax(axis=1)))
    return Finding(
        "Agents who lead somewhere",
        "shape: weights move from agent to agent along the line",
        f"{len(leading)} of {len(NAMES)}: {', '.join(leading)}",
        "Every agent has the largest median weight at some position.",
        len(leading) == len(NAMES),
    )
