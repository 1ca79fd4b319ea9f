"""Figure 10: gain over M-avg against the heterogeneity of a feature, ridge regression."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from degroot.paper import drawing, gains, heterogeneity, models, protocol
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
from degroot.paper.figures import figure9
from degroot.paper.heterogeneity import at_the_end, growth

TITLE = "Figure 10: gain against feature heterogeneity, ridge regression"
ABOUT = (
    "As figure 9, with rows dealt in the order of a feature: shell weight for Abalone, access to highways for Boston,"
    " free memory for cpusmall. The features are given by number, 8, 9 and 11, which we count from 1: Abalone has "
    "only eight. Dashed: every agent scores models on a third of its rows that its own was not trained on."
)
OWN, APART = "own rows", "rows held back"


@dataclass(frozen=True, kw_only=True)
class Settings(figure9.Settings):
    """The paper's features, on the data sets and with the penalties of figure 9."""

    by_feature: tuple[int, ...] = (8, 9, 11)  # counted from 1
    held_back: float = 1 / 3  # the share of an agent's rows that it scores models on, in the second reading


def trial(
    settings: Settings, random: np.random.Generator, data: Data, penalty: float, feature: int, scoring: str
) -> Iterable[Row]:
    """The gain for each fraction."""
    held_back = {OWN: 0.0, APART: settings.held_back}[scoring]
    make, order = models.make("Ridge", penalty), protocol.feature(data.X, feature)
    return heterogeneity.along(data, make, settings, random, order, held_back)


def tasks(settings: Settings = Settings()) -> list[ExperimentTask]:
    """Every data set with its penalty and feature, with agents who score models on their own rows or apart."""
    return [
        task
        for case, times in zip(_cases(settings), settings.repetitions_each, strict=True)
        for task in repeat_cases(trial, settings, [{**case, "scoring": scoring} for scoring in (OWN, APART)], times)
    ]


def compute(settings: Settings = Settings(), run: Run = run_here) -> pd.DataFrame:
    """As figure 9, with the feature and the rows for scoring."""
    return run(tasks(settings))


def draw(table: pd.DataFrame, settings: Settings = Settings()) -> Figure:
    """A panel for each data set."""
    figure, axes = drawing.panels(len(settings.data))
    for panel, case in zip(axes, _cases(settings), strict=True):
        title = f"{KNOWN[case['data']].title}, ridge ({case['penalty']:g})"
        gains.panel(panel, title, f"fraction $p$ dealt by feature {case['feature']}")
        gains.curve(panel, select_rows(table, **case, scoring=OWN), "heterogeneity")
        gains.second_curve(panel, select_rows(table, **case, scoring=APART), "heterogeneity", "DeGroot, rows held back")
    gains.finish(figure, axes)
    return figure


def findings(table: pd.DataFrame, settings: Settings = Settings()) -> list[Finding]:
    """Growth on each data set, what becomes of the gain at p = 1, and what scoring on rows held back changes."""
    own, apart = (
        {_name(case): select_rows(table, **case, scoring=scoring) for case in _cases(settings)}
        for scoring in (OWN, APART)
    )
    return [
        *(growth(part, f"{name}: gain over M-avg along p") for name, part in own.items()),
        at_the_end(own, "Ridge: all rows dealt by a feature, p = 1"),
        *(_least(name, own[name], apart[name]) for name in own),
    ]


def _least(name: str, own: pd.DataFrame, apart: pd.DataFrame) -> Finding:
    """The least median gain along p, and what it is there with rows held back for scoring."""
    rule = "Not judged: the paper's agents score models on the rows that they trained on."
    finding = Finding(f"{name}: the least median gain along p", "not mentioned", "", rule, None, reading=APART)
    if not len(own) or not len(apart):
        return judge_finding(finding, apart)
    with_own, held_back = (table.groupby("heterogeneity")[["gain", "self_trust"]].median() for table in (own, apart))
    p = with_own["gain"].idxmin()
    trained, unseen = with_own.loc[p], held_back.loc[p]
    ours = f"{trained['gain']:.1f} % at p = {p:g}; with rows held back for scoring, {unseen['gain']:.1f} %"
    trust = (
        f"An agent's trust in its own model at p = {p:g} is {trained['self_trust']:.2f} where it scores models on the "
        f"rows that it trained on, {unseen['self_trust']:.2f} on rows held back: the former flatter it."
    )
    flattered = trained["gain"] < 0 < unseen["gain"] and trained["self_trust"] > unseen["self_trust"]
    return judge_finding(replace(finding, ours=ours, note=trust if flattered else ""), apart)


def _cases(settings: Settings) -> list[Row]:
    parts = zip(settings.data, settings.penalties, settings.by_feature, strict=True)
    return [{"data": data, "penalty": penalty, "feature": feature} for data, penalty, feature in parts]


def _name(case: Row) -> str:
    return f"{KNOWN[case['data']].title}, feature {case['feature']}"
