"""Figure 4: the five linear models, each right about its own part of the curve."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from degroot.paper import drawing, experiment
from degroot.paper.drawing import AGENT_COLOURS, per_agent
from degroot.paper.experiment import ExperimentTask, Finding, Row, Run, repeat_cases, run_here
from degroot.paper.problems.logistic import CENTRES, DIRECTION, NAMES, Line, Sample, curve, make_agents, on_the_line

TITLE = "Figure 4: the five linear models"
ABOUT = (
    "The agents' linear models along xi = a'x with the truth, and every agent's rows in the first repetition. Each "
    "model should be right about the part of the curve that its agent has seen."
)


@dataclass(frozen=True, kw_only=True)
class Settings(experiment.Settings, Sample, Line):
    """The synthetic problem as printed."""


def trial(settings: Settings, random: np.random.Generator, what: str) -> Iterator[Row]:
    """What every agent's model says along the line, or the rows it was fitted on."""
    for agent in make_agents(settings, random):
        if what == "rows":
            values, positions = agent.y, agent.X @ DIRECTION
        else:
            values, positions = agent.predict(on_the_line(settings.xi)), settings.xi
        for xi, value in zip(positions, values, strict=True):
            yield {"agent": agent.name, "xi": xi, "value": value}


def tasks(settings: Settings = Settings()) -> list[ExperimentTask]:
    """The models in all repetitions, the rows in the first."""
    first = replace(settings, reps=1)
    return repeat_cases(trial, settings, [{"what": "model"}]) + repeat_cases(trial, first, [{"what": "rows"}])


def compute(settings: Settings = Settings(), run: Run = run_here) -> pd.DataFrame:
    """A row for each repetition, agent and position, and one for each of the rows in the first repetition."""
    return run(tasks(settings))


def draw(table: pd.DataFrame, settings: Settings = Settings()) -> Figure:
    """Models, rows and truth."""
    figure, [axes] = drawing.panels(height=3.6)
    for agent, rows in table[table.what == "rows"].groupby("agent"):
        axes.plot(rows.xi, rows.value, ".", color=AGENT_COLOURS[agent], ms=3, alpha=0.35)
    per_agent(axes, table[table.what == "model"], "xi", "value")
    axes.plot(settings.xi, curve(on_the_line(settings.xi)), color="black", lw=2, ls="--", label="truth")
    axes.set(xlabel="position ξ = a'x", ylabel="label y", xlim=(settings.xi_from, settings.xi_to), ylim=(-0.6, 1.6))
    drawing.legend([axes], loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def findings(table: pd.DataFrame, settings: Settings = Settings()) -> list[Finding]:
    """Who is right where, and which model is steepest."""
    models = table[table.what == "model"]
    return [_at_home(models, settings), _steepest(models, settings)]


def _at_home(models: pd.DataFrame, settings: Settings) -> Finding:
    error = (models.value - curve(on_the_line(models.xi))) ** 2
    best = [_best_near(models, error, xi, np.sqrt(2 * settings.covariance)) for xi in CENTRES @ DIRECTION]
    right = sum(one == agent for one, agent in zip(best, NAMES, strict=True))
    return Finding(
        "Each model is the best one about where its agent's rows are",
        "shape: five linear models, each close to the curve near its own rows",
        f"so for {right} of {len(NAMES)} agents",
        "Within one standard deviation of an agent's centre its model has the least mean squared error of all, for "
        "every agent.",
        right == len(NAMES),
    )


def _steepest(models: pd.DataFrame, settings: Settings) -> Finding:
    values = models.pivot(index=["repetition", "xi"], columns="agent", values="value").groupby("repetition")
    slopes = ((values.last() - values.first()) / (settings.xi_to - settings.xi_from)).mean()
    return Finding(
        "The steepest model is that of agent 4, centred where the curve is steepest",
        "shape: models nearly flat at both ends and steep in the middle",
        "slopes " + ", ".join(f"{slopes[agent]:.3f} ({agent})" for agent in NAMES),
        "The mean slope along xi of agent 4's model is the most negative, those of agents 1 and 5 the least.",
        bool(slopes.idxmin() == NAMES[3] and set(slopes.nlargest(2).index) == {NAMES[0], NAMES[4]}),
    )


def _best_near(models: pd.DataFrame, error: pd.Series, xi: float, reach: float) -> str:
    near = (models.xi - xi).abs() <= reach
    return str(error[near].groupby(models.agent[near]).mean().idxmin())
