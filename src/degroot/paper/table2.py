"""Table 2: the data sets, and what the printed settings make of the local models."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from degroot.paper import experiment, models, protocol, style
from degroot.paper.data import Data
from degroot.paper.experiment import Finding, Row, Run, Task, chosen, here, repeated
from degroot.paper.heterogeneity import TITLES

TITLE = "Table 2: data sets and models"
ABOUT = (
    "The data sets as we load them, what the protocol of table 1 makes of them, and what the printed penalties and "
    "depths give in the local models: medians over agents and repetitions. The text of the paper's table is not in "
    "our notes, but for numbers in it that cannot be right; they stand beside ours."
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
SAME = "The printed number is the same."
NOTES = {
    ("abalone", ROWS): "A slip: the file at UCI and at LIBSVM has 4,177 rows.",
    (
        "e2006",
        COLUMNS,
    ): "A slip: 3,308 is the number of rows of LIBSVM's file for testing. The data have 150,360 columns.",
    ("boston", TEST): "max(0.15 n, 500) would leave 6 rows for five agents; we take 0.15 n. See Readings for others.",
}


@dataclass(frozen=True, kw_only=True)
class Settings(experiment.Settings, protocol.Protocol):
    """The protocol of table 1."""


def trial(settings: Settings, random: np.random.Generator, data: Data) -> Iterator[Row]:
    """What the data set and the protocol come to, and medians over the agents of zero coefficients and of leaves."""
    X, rows = protocol.table(data, settings), protocol.split(data, settings, random)
    found = _counts(data, rows, settings)
    setting = models.SETTINGS[data.name]
    for kind, quantity in (("Lasso", ZEROS), ("DTR", LEAVES)):
        if kind in setting:
            agents = protocol.trained(models.make(kind, setting[kind], random), X, data.y, rows.parts)
            found[quantity] = float(np.median([_measured(agent.model) for agent in agents]))
    for quantity, value in found.items():
        yield {"quantity": quantity, "value": value}


def tasks(settings: Settings = Settings()) -> list[Task]:
    """Every data set."""
    return repeated(trial, settings, [{"data": name} for name in TITLES])


def compute(settings: Settings = Settings(), run: Run = here) -> pd.DataFrame:
    """Data, repetition, whether the data are complete, quantity and value."""
    return run(tasks(settings))


def draw(table: pd.DataFrame, settings: Settings = Settings()) -> Figure:
    """The table itself, with the printed numbers that cannot be right beside ours."""
    figure, (axes,) = style.panels()
    figure.set_size_inches(8.4, 3.2)
    axes.axis("off")
    drawn = axes.table(
        [[_cell(table, data, quantity) for quantity in HEADS] for data in TITLES], cellLoc="center",
        rowLabels=[_label(table, data) for data in TITLES], colLabels=list(HEADS.values()),
        bbox=Bbox.from_bounds(0, 0, 1, 1), edges="horizontal",
    )  # fmt: skip
    drawn.auto_set_font_size(False)
    for (row, column), cell in drawn.get_celld().items():
        cell.set(linewidth=0.5)
        cell.set_text_props(fontsize=9, weight="bold" if row == 0 or column < 0 else "normal")
        if "printed" in cell.get_text().get_text():
            cell.set_text_props(color=style.COLOURS["tau-avg"])
    return figure


def findings(table: pd.DataFrame, settings: Settings = Settings()) -> list[Finding]:
    """The printed numbers that cannot be right, and what the others come to."""
    return [
        *(_slip(table, data, quantity, printed) for (data, quantity), printed in SLIPS.items()),
        Finding(
            "Hidden layers", "8 in the text, 7 or 9 in the table", "7 for Boston, 9 for E2006",
            "Not judged: the paper contradicts itself.", None, "See Readings for what others give.",
        ),
        *(_summary(table, data) for data in TITLES),
    ]  # fmt: skip


def _counts(data: Data, rows: protocol.Split, settings: Settings) -> dict[str, float]:
    part = min(len(part) for part in rows.parts)
    return {
        ROWS: data.X.shape[0],
        COLUMNS: data.X.shape[1],
        TEST: len(rows.test),
        OF_AN_AGENT: part,
        NEIGHBOURS: max(2, int(settings.neighbours * part)),
    }


def _measured(model: Any) -> float:
    """The share of zero coefficients, or the number of leaves."""
    return float(np.mean(model.coef_ == 0)) if hasattr(model, "coef_") else float(model.get_n_leaves())


def _slip(table: pd.DataFrame, data: str, quantity: str, printed: int) -> Finding:
    ours, what = _value(table, data, quantity), f"{TITLES[data]}: {quantity}"
    if ours is None:
        return Finding(what, f"{printed:,}", "left out", SAME, None, "The data set was not at hand.")
    subset = "" if _complete(table, data) else " (subset)"
    return Finding(what, f"{printed:,}", f"{ours:,.0f}{subset}", SAME, ours == printed, NOTES[data, quantity])


def _summary(table: pd.DataFrame, data: str) -> Finding:
    values = {quantity: _value(table, data, quantity) for quantity in HEADS}
    known = {quantity: value for quantity, value in values.items() if value is not None}
    ours = ", ".join(PHRASES[quantity].format(_text(quantity, value)) for quantity, value in known.items())
    note = "" if not ours or _complete(table, data) else "Computed on a subset of the data."
    rule = "Not judged: the printed numbers are not in our notes."
    return Finding(f"{TITLES[data]} in all", "not in our notes", ours or "left out", rule, None, note)


def _cell(table: pd.DataFrame, data: str, quantity: str) -> str:
    value, printed = _value(table, data, quantity), SLIPS.get((data, quantity))
    text = "-" if value is None else _text(quantity, value)
    return text if value is None or printed in (None, value) else f"{text}\nprinted {printed:,}"


def _text(quantity: str, value: float) -> str:
    return f"{100 * value:.3g} %" if quantity == ZEROS else f"{value:,.0f}"


def _label(table: pd.DataFrame, data: str) -> str:
    mark = "\n(left out)" if not len(chosen(table, data=data)) else "" if _complete(table, data) else "\n(subset)"
    return TITLES[data] + mark


def _complete(table: pd.DataFrame, data: str) -> bool:
    return bool(chosen(table, data=data)["complete"].all())


def _value(table: pd.DataFrame, data: str, quantity: str) -> float | None:
    values = chosen(table, data=data, quantity=quantity)
    return float(values["value"].median()) if len(values) else None
