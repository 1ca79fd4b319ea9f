"""Figure 10: gain over M-avg against the heterogeneity of a feature, ridge regression."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from degroot.paper import figure9, heterogeneity, models, style
from degroot.paper.data import Data
from degroot.paper.experiment import Finding, Row, Run, Task, chosen, here, repeated
from degroot.paper.heterogeneity import NOISY, TITLES, at_the_end, growth

TITLE = "Figure 10: gain against feature heterogeneity, ridge regression"
ABOUT = (
    "As figure 9, with rows dealt in the order of a feature: shell weight for Abalone, access to highways for Boston,"
    " free memory for cpusmall. The features are given by number, 8, 9 and 11, which we count from 1: Abalone has "
    "only eight. Dashed: every agent scores models on a third of its rows that its own was not trained on."
)
OWN, APART = "own rows", "rows held back"
OWN_ROWS = (
    "Some rows stand alone: at p = 0.9 one of Boston's agents has a handful whose highway index is not 24. A model "
    "fits these by itself, and an agent that scores it on the same rows finds no error and takes all the weight. Rows"
    " held back from training show the error."
)
SAME_LABELS = (
    "Dealing by a feature leaves alone what label goes with a point: unlike in figure 9, agents do not become sure of "
    "themselves where all rows are dealt in order, and the gain is largest there."
)


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
    make, order = models.make("Ridge", penalty), data.X[:, feature - 1]
    return heterogeneity.along(data, make, settings, random, order, held_back)


def tasks(settings: Settings = Settings()) -> list[Task]:
    """Every data set with its penalty and feature, with agents who score models on their own rows or apart."""
    return [
        task
        for case, times in zip(_cases(settings), settings.times, strict=True)
        for task in repeated(trial, settings, [{**case, "scoring": scoring} for scoring in (OWN, APART)], times)
    ]


def compute(settings: Settings = Settings(), run: Run = here) -> pd.DataFrame:
    """As figure 9, with the feature and the rows for scoring."""
    return run(tasks(settings))


def draw(table: pd.DataFrame, settings: Settings = Settings()) -> Figure:
    """A panel for each data set."""
    figure, axes = style.panels(len(settings.data))
    for panel, case in zip(axes, _cases(settings), strict=True):
        title = f"{TITLES[case['data']]}, ridge ({case['penalty']:g})"
        heterogeneity.panel(panel, title, f"fraction $p$ dealt by feature {case['feature']}")
        heterogeneity.curve(panel, chosen(table, **case, scoring=OWN))
        heterogeneity.second_curve(panel, chosen(table, **case, scoring=APART), "DeGroot, scoring apart")
    heterogeneity.legend(figure, axes[0])
    return figure


def findings(table: pd.DataFrame, settings: Settings = Settings()) -> list[Finding]:
    """Growth on each data set, what happens at p = 1, and what scoring on rows apart from training changes."""
    found = {_name(case): chosen(table, **case, scoring=OWN) for case in _cases(settings)}
    losses = [_scoring(table, case) for case in _cases(settings) if len(found[_name(case)])]
    return [
        *(
            growth(part, f"{name}: gain over M-avg along p", NOISY.get(data, ""))
            for data, (name, part) in zip(settings.data, found.items(), strict=True)
        ),
        at_the_end(found, "Ridge: all rows dealt by a feature, p = 1", SAME_LABELS),
        *(loss for loss in losses if loss.note),
    ]


def _scoring(table: pd.DataFrame, case: Row) -> Finding:
    """The least median gain along p with each way of scoring."""
    own, apart = (
        chosen(table, **case, scoring=scoring).groupby("heterogeneity")["gain"].median() for scoring in (OWN, APART)
    )
    return Finding(
        f"{_name(case)}: the least median gain over all p", "not mentioned",
        f"{own.min():.1f} % at p = {own.idxmin():g}; with rows held back for scoring, {apart.min():.1f} %",
        "Not judged: the paper's agents score models on the rows that they trained on.", None,
        OWN_ROWS if own.min() < 0 < apart.min() else "",
    )  # fmt: skip


def _cases(settings: Settings) -> list[Row]:
    parts = zip(settings.data, settings.penalties, settings.by_feature, strict=True)
    return [{"data": data, "penalty": penalty, "feature": feature} for data, penalty, feature in parts]


def _name(case: Row) -> str:
    return f"{TITLES[case['data']]}, feature {case['feature']}"
