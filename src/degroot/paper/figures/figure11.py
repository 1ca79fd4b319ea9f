"""Figure 11: gain over M-avg against the number of agents."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from degroot import Agent, Collective
from degroot.paper import drawing, experiment, gains, models, protocol
from degroot.paper.data.datasets import KNOWN, Data
from degroot.paper.experiment import (
    ExperimentTask,
    Finding,
    Row,
    Run,
    judge_finding,
    repeat_cases,
    run_here,
    select_rows,
)
from degroot.paper.protocol import Array
from degroot.paper.schemes import gain
from degroot.paper.statistics import unsettled

TITLE = "Figure 11: gain against the number of agents"
ABOUT = (
    "The rows are shared by 2 to 128 agents; each looks at 1 % of its rows, at least 2. By how many percent DeGroot's "
    "error is below M-avg's: it should be ahead throughout. Which fraction p of the rows is dealt in the order of "
    "the label is not known to us for this figure: it is p = 0.5, as in table 1. With open marks, other readings: "
    "features scaled to [-1, 1], as LIBSVM offers them too, and p = 0, all rows dealt at random."
)
PAPER = "shape: DeGroot is ahead of M-avg from 2 to 128 agents"
RULE = f"For every number of agents the gain is above 0 {gains.MOSTLY}."
AS_PRINTED, SCALED, AT_RANDOM = "as printed", "features scaled", "rows dealt at random"
READINGS: dict[str, Row] = {AS_PRINTED: {}, SCALED: {"features": "scaled"}, AT_RANDOM: {"fraction": 0.0}}


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
    seed, settings = int(random.integers(2**63)), replace(settings, **READINGS[reading])
    X = protocol.table(data, settings)
    for number in settings.numbers:
        rows = protocol.split(data, replace(settings, agents=number), np.random.default_rng(seed))
        trained = protocol.train_agents(models.make(model, penalty), X, data.y, rows.parts)
        agents = [Agent(_function(each.model), each.X, each.y, each.name) for each in trained]
        yield {"agents": number, **measured(agents, X[rows.test], data.y[rows.test], settings.neighbours)}


def measured(agents: list[Agent], X: Any, y: Array, neighbours: float) -> Row:
    """The errors of DeGroot and M-avg and the gain in percent, in the mean and in the median over test points.

    The worst point is that with DeGroot's largest squared error: its share in the sum of all, and among how many models
    the weight is shared there, the inverse of the sum of squared weights; and at the median point. Also the least
    number of rows and of neighbours that an agent has.
    """
    collective = Collective(agents, neighbours, n_jobs=1)
    answer = collective.consult(X, fields=["value", "beliefs", "weights"])
    sharing = 1 / (np.asarray(answer.weights) ** 2).sum(axis=1)
    degroot, m_avg = (np.asarray(answer.value) - y) ** 2, (np.asarray(answer.beliefs).mean(axis=1) - y) ** 2
    return {
        **gains.measure_gain(answer, y),
        "gain_in_median": gain(np.median(degroot), np.median(m_avg)),
        "worst_share": degroot.max() / degroot.sum(),
        "sharing_at_worst": sharing[degroot.argmax()],
        "sharing": np.median(sharing),
        "rows": min(agent.n_rows for agent in agents),
        "neighbours": min(near.size for near in collective.neighbourhoods),
    }


def tasks(settings: Settings = Settings()) -> list[ExperimentTask]:
    """Both data sets in each reading."""
    cases = [{**case, "reading": reading} for case in _cases(settings) for reading in READINGS]
    return repeat_cases(trial, settings, cases)


def compute(settings: Settings = Settings(), run: Run = run_here) -> pd.DataFrame:
    """Data, model, penalty, reading, repetition, number of agents, and what is `measured`."""
    return run(tasks(settings))


def draw(table: pd.DataFrame, settings: Settings = Settings()) -> Figure:
    """A panel for each data set."""
    figure, axes = drawing.panels(len(settings.data))
    for panel, case in zip(axes, _cases(settings), strict=True):
        gains.panel(panel, _name(case), "number of agents $K$")
        gains.curve(
            panel, select_rows(table, **case, reading=AS_PRINTED), "agents", f"DeGroot, p = {settings.fraction:g}"
        )
        gains.second_curve(panel, select_rows(table, **case, reading=SCALED), "agents", SCALED)
        gains.second_curve(panel, select_rows(table, **case, reading=AT_RANDOM), "agents", "p = 0", ":s")
        panel.set_xscale("log", base=2)
        panel.set_xticks(settings.numbers, [f"{number}" for number in settings.numbers])
    gains.finish(figure, axes)
    return figure


def findings(table: pd.DataFrame, settings: Settings = Settings()) -> list[Finding]:
    """Whether DeGroot is ahead throughout, on each data set and in each reading."""
    return [
        _ahead(select_rows(table, **case, reading=reading), _name(case), "" if reading == AS_PRINTED else reading)
        for case in _cases(settings)
        for reading in READINGS
    ]


def _ahead(table: pd.DataFrame, what: str, reading: str) -> Finding:
    finding = Finding(what, PAPER, "", RULE, None, reading=reading)
    if not len(table):
        return judge_finding(finding, table)
    found = table.pivot(index="repetition", columns="agents", values="gain")
    medians, ahead = found.median(), (found > 0).sum()
    ours = (
        f"median gain {_range(medians)} %, least with {medians.idxmin()} agents; ahead in {ahead.min()} to "
        f"{ahead.max()} of {len(found)} repetitions, least often with {ahead.idxmin()} agents"
    )
    verdicts = {number: gains.judge_sign(found[number]) for number in found}
    note = _note(table, verdicts, len(found))
    return judge_finding(replace(finding, ours=ours, agrees=_all(verdicts.values()), note=note), table)


def _all(verdicts: Iterable[bool | None]) -> bool | None:
    """Whether all are true: not if one is false, and not settled if one is not settled."""
    known = set(verdicts)
    return False if False in known else None if None in known else True


def _note(table: pd.DataFrame, verdicts: Mapping[int, bool | None], repetitions: int) -> str:
    """With how many agents it is behind or not settled, and what the mean over test points hides."""
    behind, neither = ([f"{number}" for number, each in verdicts.items() if each is kind] for kind in (False, None))
    if not behind and not neither:
        return ""
    typical = table.groupby("agents")["gain_in_median"].median()
    parts = (
        f"Behind with {', '.join(behind)} agents." if behind else "",
        f"Neither ahead nor behind for sure with {', '.join(neither)} agents. {unsettled(repetitions)}"
        if neither
        else "",
        "" if verdicts[max(verdicts)] else _with_most_agents(table),
        f"In the median squared error of the test points the gain is {_range(typical)} %.",
    )
    return " ".join(part for part in parts if part)


def _with_most_agents(table: pd.DataFrame) -> str:
    last = table[table["agents"] == table["agents"].max()].median(numeric_only=True)
    return (
        f"With {last['agents']:.0f} agents, of {last['rows']:.0f} rows and {last['neighbours']:.0f} neighbours each, "
        f"the worst test point makes {100 * last['worst_share']:.0f} % of DeGroot's error; "
        f"{last['sharing_at_worst']:.0f} models share the weight there, {last['sharing']:.0f} at the median point."
    )


def _range(values: pd.Series) -> str:
    return f"{values.min():.1f} to {values.max():.1f}"


def _cases(settings: Settings) -> list[Row]:
    parts = zip(settings.data, settings.models, settings.penalties, strict=True)
    return [{"data": data, "model": model, "penalty": penalty} for data, model, penalty in parts]


def _name(case: Row) -> str:
    return f"{KNOWN[case['data']].title}, {case['model'].lower()} ({case['penalty']:g})"


def _function(model: Any) -> Callable[[Any], Array]:
    """A linear model as a plain function: 128 agents ask 128 models, and checking rows again would take most of it."""

    def predict(X: Any) -> Array:
        answer: Array = X @ model.coef_ + model.intercept_
        return answer

    return predict
