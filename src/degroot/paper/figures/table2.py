"""Table 2: the data sets, and what the printed settings make of the local models."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from degroot import Agent, Collective
from degroot.paper import drawing, experiment, models, protocol
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

TITLE = "Table 2: data sets and models"
ABOUT = (
    "The data sets as we load them, what the protocol of table 1 makes of them, and what the printed penalties and "
    "depths give in the local models: medians over agents and repetitions. Of the numbers in the "
    "paper's table we have those that cannot be right; they stand beside ours."
)
ROWS, COLUMNS, TEST, OF_AN_AGENT, NEIGHBOURS = "rows", "columns", "test rows", "rows of an agent", "neighbours"
ZEROS, LEAVES = "zero coefficients", "leaves"
HEADS = {
    ROWS: "rows", COLUMNS: "columns", TEST: "test\nrows", OF_AN_AGENT: "rows of\nan agent", NEIGHBOURS: "neighbours",
    ZEROS: "lasso:\nzero coef-\nficients", LEAVES: "tree:\nleaves",
}  # fmt: skip
PHRASES = {
    ROWS: "{} rows", COLUMNS: "{} columns", TEST: "{} rows for testing", OF_AN_AGENT: "{} rows of each agent",
    NEIGHBOURS: "{} neighbours", ZEROS: "lasso with {} of the coefficients zero", LEAVES: "trees of {} leaves",
}  # fmt: skip
SLIPS = {("abalone", ROWS): 4077, ("e2006", COLUMNS): 3308, ("boston", TEST): 500}  # as printed
NOTES = {
    ("abalone", ROWS): "The file at UCI and at LIBSVM has 4,177 rows.",
    ("e2006", COLUMNS): "3,308 is the number of rows of LIBSVM's file for testing. The data have 150,360 columns.",
    ("boston", TEST): "max(0.15 n, 500) would leave 6 rows for five agents; we take 0.15 n. See Readings for others.",
}


@dataclass(frozen=True, kw_only=True)
class Settings(experiment.Settings, protocol.Protocol):
    """The protocol of table 1."""


def trial(settings: Settings, random: np.random.Generator, data: Data) -> Iterator[Row]:
    """What the data set and the protocol come to, and medians over the agents of zero coefficients and of leaves."""
    X, rows = protocol.table(data, settings), protocol.split(data, settings, random)
    found: dict[str, float] = {ROWS: X.shape[0], COLUMNS: X.shape[1], TEST: len(rows.test)}
    setting = models.SETTINGS[data.name]
    for kind, quantity in (("Lasso", ZEROS), ("DTR", LEAVES)):
        if kind in setting:
            agents = protocol.train_agents(models.make(kind, setting[kind], random), X, data.y, rows.parts)
            found |= _of_agents(agents, settings)
            found[quantity] = float(np.median([_measured(agent.model) for agent in agents]))
    for quantity, value in found.items():
        yield {"quantity": quantity, "value": value}


def tasks(settings: Settings = Settings()) -> list[ExperimentTask]:
    """Every data set."""
    return repeat_cases(trial, settings, [{"data": name} for name in KNOWN])


def compute(settings: Settings = Settings(), run: Run = run_here) -> pd.DataFrame:
    """Data, repetition, whether the data are complete, quantity and value."""
    return run(tasks(settings))


def draw(table: pd.DataFrame, settings: Settings = Settings()) -> Figure:
    """The table itself, with the printed numbers that cannot be right beside ours."""
    figure, (axes,) = drawing.panels()
    axes.axis("off")
    drawn = axes.table(
        [[_cell(table, data, quantity) for quantity in HEADS] for data in KNOWN], cellLoc="center",
        rowLabels=[_label(table, data) for data in KNOWN], colLabels=list(HEADS.values()),
        bbox=Bbox.from_bounds(0, 0, 1, 1), edges="horizontal",
    )  # fmt: skip
    drawn.auto_set_font_size(False)
    for (row, column), cell in drawn.get_celld().items():
        cell.set(linewidth=0.5)
        cell.set_text_props(fontsize=9, weight="bold" if row == 0 or column < 0 else "normal")
        if "printed" in cell.get_text().get_text():
            cell.set_text_props(color=drawing.COLOURS["tau-avg"])
    return figure


def findings(table: pd.DataFrame, settings: Settings = Settings()) -> list[Finding]:
    """The printed numbers that cannot be right, and what the others come to."""
    return [
        *(_slip(table, data, quantity) for data, quantity in SLIPS if _complete(table, data)),
        Finding(
            "Hidden layers", "8 in the text, 7 or 9 in the table", "; ".join(_layers()),
            "Not judged: the paper contradicts itself.", None, "See Readings for what others give.",
        ),
        *(_summary(table, data) for data in KNOWN),
    ]  # fmt: skip


def _of_agents(agents: Sequence[Agent], settings: Settings) -> dict[str, float]:
    """The least number of rows, and of neighbours, that an agent has."""
    collective = Collective(agents, settings.neighbours, n_jobs=1)
    return {
        OF_AN_AGENT: min(agent.n_rows for agent in agents),
        NEIGHBOURS: min(near.size for near in collective.neighbourhoods),
    }


def _measured(model: Any) -> float:
    """The share of zero coefficients, or the number of leaves."""
    return float(np.mean(model.coef_ == 0)) if hasattr(model, "coef_") else float(model.get_n_leaves())


def _layers() -> Iterator[str]:
    for data, kinds in models.SETTINGS.items():
        if "NN" in kinds:
            yield f"{', '.join(f'{width}' for width in kinds['NN'].layers)} for {KNOWN[data].title}"


def _slip(table: pd.DataFrame, data: str, quantity: str) -> Finding:
    rows = select_rows(table, data=data, quantity=quantity)
    rule = "Not judged: the printed number is a slip of the paper."
    ours, what = f"{rows['value'].median():,.0f}" if len(rows) else "", f"{KNOWN[data].title}: {quantity}"
    return judge_finding(Finding(what, f"{SLIPS[data, quantity]:,}", ours, rule, None, NOTES[data, quantity]), rows)


def _summary(table: pd.DataFrame, data: str) -> Finding:
    values = {quantity: _value(table, data, quantity) for quantity in HEADS}
    known = {quantity: value for quantity, value in values.items() if value is not None}
    ours = ", ".join(PHRASES[quantity].format(_text(quantity, value)) for quantity, value in known.items())
    rule = "Not judged: we do not have the printed values."
    return judge_finding(
        Finding(f"{KNOWN[data].title} in all", "not known to us", ours, rule, None), select_rows(table, data=data)
    )


def _cell(table: pd.DataFrame, data: str, quantity: str) -> str:
    value, printed = _value(table, data, quantity), SLIPS.get((data, quantity))
    if value is None:
        return "-"
    beside = f"\nprinted {printed:,}" if printed is not None and _complete(table, data) else ""
    return _text(quantity, value) + beside


def _text(quantity: str, value: float) -> str:
    return f"{100 * value:.3g} %" if quantity == ZEROS else f"{value:,.0f}"


def _label(table: pd.DataFrame, data: str) -> str:
    mark = "\n(left out)" if not len(select_rows(table, data=data)) else "" if _complete(table, data) else "\n(subset)"
    return KNOWN[data].title + mark


def _complete(table: pd.DataFrame, data: str) -> bool:
    """Whether no rows are of a subset of the data."""
    return not len(select_rows(table, data=data, complete=False))


def _value(table: pd.DataFrame, data: str, quantity: str) -> float | None:
    values = select_rows(table, data=data, quantity=quantity)
    return float(values["value"].median()) if len(values) else None
