"""Drawing: bands, curves and intervals, in one colour for each method (Okabe and Ito's, safe for the colour-blind)."""

from collections.abc import Iterable
from typing import Any

import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from degroot.paper.problems.logistic import NAMES

COLOURS = {
    "DeGroot": "#0072B2",
    "M-avg": "#E69F00",
    "CV-static": "#009E73",
    "CV-adaptive": "#CC79A7",
    "tau-avg": "#D55E00",
    "MSE-avg": "#56B4E9",
    "best single": "#7F7F7F",
}
MARKERS = dict(zip(COLOURS, "osD^vPX", strict=True))
AGENTS = ("#332288", "#44AA99", "#DDCC77", "#CC6677", "#882255")  # Tol's muted palette: agents are not methods
LOOK: Any = {
    "font.size": 9, "axes.grid": True, "grid.alpha": 0.25, "axes.spines.top": False, "axes.spines.right": False,
    "legend.frameon": False, "lines.markersize": 4, "svg.fonttype": "path", "svg.hashsalt": "degroot",
}  # fmt: skip


def panels(columns: int = 1, rows: int = 1, *, height: float = 3.2, **settings: Any) -> tuple[Figure, list[Axes]]:
    """A figure as wide as the report, and its axes from left to right and top to bottom."""
    with rc_context(LOOK):
        figure = Figure(figsize=(8.4, height * rows), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False, **settings)
    return figure, list(axes.flat)


def band(axes: Axes, table: pd.DataFrame, x: str, y: str, method: str | None = None, **look: Any) -> None:
    """The median over repetitions of column `y` along column `x`, with the middle half of them shaded.

    It looks like the `method`, if one is given, and otherwise as told.
    """
    if method is not None:
        look = {"color": COLOURS[method], "marker": MARKERS[method], "label": method} | look
    quartiles = table.groupby(x)[y].quantile([0.25, 0.5, 0.75]).unstack()
    axes.fill_between(quartiles.index, quartiles[0.25], quartiles[0.75], color=look["color"], alpha=0.2, lw=0)
    axes.plot(quartiles.index, quartiles[0.5], **({"ms": LOOK["lines.markersize"]} | look))


def legend(axes: Iterable[Axes], **settings: Any) -> None:
    """A legend in each of the axes."""
    with rc_context(LOOK):
        for each in axes:
            each.legend(**settings)


def legend_below(figure: Figure, axes: Axes) -> None:
    """One legend below all panels, with what is in `axes`."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)


AGENT_MARKERS = dict(zip(NAMES, "osD^v", strict=True))
AGENT_COLOURS = dict(zip(NAMES, AGENTS, strict=True))


def per_agent(axes: Axes, table: pd.DataFrame, x: str, y: str) -> None:
    """For each agent the median over repetitions of column `y` along column `x`, with the middle half shaded."""
    for place, (name, rows) in enumerate(table.groupby("agent")):
        every = max(1, rows[x].nunique() // 10)
        apart = (place * every // len(AGENT_MARKERS), every)  # from the markers of the other agents
        band(axes, rows, x, y, color=AGENT_COLOURS[name], label=name, marker=AGENT_MARKERS[name], markevery=apart)


def draw_intervals(axes: Axes, rows: pd.DataFrame) -> None:
    """The truth, and the collective prediction plus and minus its standard error."""
    low, high = rows.value - rows.standard_error, rows.value + rows.standard_error
    axes.fill_between(rows.xi, low, high, color=COLOURS["DeGroot"], alpha=0.3, lw=0, label="± standard error")
    axes.plot(rows.xi, rows.value, color=COLOURS["DeGroot"], marker="o", ms=2.5, label="DeGroot")
    axes.plot(rows.xi, rows.truth, color="black", ls="--", label="truth")
    axes.set(xlabel="position ξ = a'x", ylabel="prediction", xlim=(rows.xi.min(), rows.xi.max()), ylim=(-0.6, 1.6))
