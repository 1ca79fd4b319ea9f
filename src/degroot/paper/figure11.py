"""Figure 11: gain over M-avg against the number of agents."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from degroot import Agent, Collective
from degroot.paper import experiment, heterogeneity, models, protocol, style
from degroot.paper.data import Data
from degroot.paper.experiment import Finding, Row, Run, Task, chosen, here, judged, repeated
from degroot.paper.heterogeneity import TITLES
from degroot.paper.protocol import Array
from degroot.paper.schemes import gain

TITLE = "Figure 11: gain against the number of agents"
ABOUT = (
    "The rows are shared by 2 to 128 agents, half of them dealt in the order of the label; each looks at 1 % of its "
    "rows, at least 2. By how many percent DeGroot's error is below M-avg's: it should be ahead throughout. Two other"
    " readings: features scaled to [-1, 1], and 10 % of the rows as neighbours (the paper calls 1 to 10 % good)."
)
PAPER = "shape: DeGroot is ahead of M-avg from 2 to 128 agents"
RULE = "The median gain over the repetitions is above 0 for every number of agents."
PRINTED, SCALED, MORE = "as printed", "features scaled", "10 % neighbours"
ASTRAY = (
    "With so many agents, of 54 rows and 2 neighbours each, a few test points decide cpusmall's mean squared error: "
    "those whose run queue is far longer than any that most agents have seen. All models go astray there, and few get"
    " the weight. "
)


@dataclass(frozen=True, kw_only=True)
class Settings(experiment.Settings, protocol.Protocol):
    """The paper's data sets, models and numbers of agents, which take the place of the protocol's one number."""

    data: tuple[str, ...] = ("cpusmall", "abalone")
    models: tuple[str, ...] = ("Ridge", "Lasso")
    penalties: tuple[float, ...] = (1e-5, 1e-5)
    numbers: tuple[int, ...] = (2, 4, 8, 16, 32, 64, 128)


def trial(
    settings: Settings, random: np.random.Generator, data: Data, model: str, penalty: float, reading: str
) -> Iterator[Row]:
    """Errors and gains for each number of agents, on the same test rows."""
    seed, settings = int(random.integers(2**63)), _read(settings, reading)
    X = protocol.table(data, settings)
    for number in settings.numbers:
        rows = protocol.split(data, replace(settings, agents=number), np.random.default_rng(seed))
        trained = protocol.trained(models.make(model, penalty), X, data.y, rows.parts)
        agents = [Agent(_function(each.model), each.X, each.y, each.name) for each in trained]
        yield {"agents": number, **measured(agents, X[rows.test], data.y[rows.test], settings.neighbours)}


def measured(agents: list[Agent], X: Any, y: Array, neighbours: float) -> Row:
    """The errors of DeGroot and M-avg and the gain in percent, in the mean and in the median over test points.

    The worst point is that with DeGroot's largest squared error: its share in the sum of all, and among how many models
    the weight is shared there, the inverse of the sum of squared weights; and at the median point.
    """
    answer = Collective(agents, neighbours, n_jobs=1).consult(X, fields=["value", "beliefs", "weights"])
    sharing = 1 / (np.asarray(answer.weights) ** 2).sum(axis=1)
    degroot, m_avg = (np.asarray(answer.value) - y) ** 2, (np.asarray(answer.beliefs).mean(axis=1) - y) ** 2
    return {
        "mse": degroot.mean(),
        "m_avg": m_avg.mean(),
        "gain": gain(degroot.mean(), m_avg.mean()),
        "gain_in_median": gain(np.median(degroot), np.median(m_avg)),
        "worst_share": degroot.max() / degroot.sum(),
        "sharing_at_worst": sharing[degroot.argmax()],
        "sharing": np.median(sharing),
    }


def tasks(settings: Settings = Settings()) -> list[Task]:
    """Both data sets in each reading."""
    cases = [{**case, "reading": reading} for case in _cases(settings) for reading in (PRINTED, SCALED, MORE)]
    return repeated(trial, settings, cases)


def compute(settings: Settings = Settings(), run: Run = here) -> pd.DataFrame:
    """Data, model, penalty, reading, repetition, number of agents, and what is `measured`."""
    return run(tasks(settings))


def draw(table: pd.DataFrame, settings: Settings = Settings()) -> Figure:
    """A panel for each data set."""
    figure, axes = style.panels(len(settings.data))
    for panel, case in zip(axes, _cases(settings), strict=True):
        heterogeneity.panel(panel, _name(case), "number of agents $K$")
        heterogeneity.curve(panel, chosen(table, **case, reading=PRINTED), x="agents")
        for reading, look in ((SCALED, "--o"), (MORE, ":s")):
            heterogeneity.second_curve(
                panel, chosen(table, **case, reading=reading), f"DeGroot, {reading}", look, x="agents"
            )
        panel.set_xscale("log", base=2)
        panel.set_xticks(settings.numbers, [f"{number}" for number in settings.numbers])
    heterogeneity.legend(figure, axes[0])
    return figure


def findings(table: pd.DataFrame, settings: Settings = Settings()) -> list[Finding]:
    """Whether DeGroot is ahead throughout, on each data set and in each reading."""
    return [
        replace(
            _ahead(chosen(table, **case, reading=reading), _name(case)), reading="" if reading == PRINTED else reading
        )
        for case in _cases(settings)
        for reading in (PRINTED, SCALED, MORE)
    ]


def _ahead(table: pd.DataFrame, what: str) -> Finding:
    if not len(table):
        return judged(Finding(what, PAPER, "left out", RULE, None), table)
    gains = table.pivot(index="repetition", columns="agents", values="gain")
    medians, ahead = gains.median(), (gains > 0).sum()
    ours = (
        f"median gain {_range(medians)} %, least with {medians.idxmin()} agents; ahead in {ahead.min()} to "
        f"{ahead.max()} of {len(gains)} repetitions, least often with {ahead.idxmin()} agents"
    )
    agrees = bool((medians > 0).all())
    astray = not agrees and table["data"].iloc[0] == "cpusmall"
    return judged(Finding(what, PAPER, ours, RULE, agrees, (ASTRAY if astray else "") + _hidden(table)), table)


def _hidden(table: pd.DataFrame) -> str:
    """What the mean over test points hides."""
    last = table[table["agents"] == table["agents"].max()].median(numeric_only=True)
    typical = table.groupby("agents")["gain_in_median"].median()
    return (
        f"With {last['agents']:.0f} agents the worst test point makes {100 * last['worst_share']:.0f} % of DeGroot's "
        f"error; {last['sharing_at_worst']:.0f} models share the weight there, {last['sharing']:.0f} at the median "
        f"point. In the median squared error of the test points the gain is {_range(typical)} %."
    )


def _range(values: pd.Series) -> str:
    return f"{values.min():.1f} to {values.max():.1f}"


def _read(settings: Settings, reading: str) -> Settings:
    if reading == SCALED:
        return replace(settings, features="scaled")
    return replace(settings, neighbours=0.1) if reading == MORE else settings


def _cases(settings: Settings) -> list[Row]:
    parts = zip(settings.data, settings.models, settings.penalties, strict=True)
    return [{"data": data, "model": model, "penalty": penalty} for data, model, penalty in parts]


def _name(case: Row) -> str:
    return f"{TITLES[case['data']]}, {case['model'].lower()} ({case['penalty']:g})"


def _function(model: Any) -> Callable[[Any], Array]:
    """A linear model as a plain function: 128 agents ask 128 models, and checking rows again would take most of it."""

    def predict(X: Any) -> Array:
        answer: Array = X @ model.coef_ + model.intercept_
        return answer

    return predict
