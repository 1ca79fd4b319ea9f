"""Curves of the five agents of the synthetic problem, drawn alike in all figures."""

import pandas as pd
from matplotlib.axes import Axes

from degroot.paper.logistic import NAMES
from degroot.paper.style import AGENTS

MARKERS = dict(zip(NAMES, "osD^v", strict=True))
COLOURS = dict(zip(NAMES, AGENTS, strict=True))


def per_agent(axes: Axes, table: pd.DataFrame, x: str, y: str) -> None:
    """For each agent the median over repetitions of column `y` along column `x`, with the middle half shaded."""
    for place, (name, rows) in enumerate(table.groupby("agent")):
        quartiles = rows.groupby(x)[y].quantile([0.25, 0.5, 0.75]).unstack()
        axes.fill_between(quartiles.index, quartiles[0.25], quartiles[0.75], color=COLOURS[name], alpha=0.2, lw=0)
        every = max(1, len(quartiles) // 10)  # markers apart from those of the other agents
        axes.plot(
            quartiles.index, quartiles[0.5], color=COLOURS[name], label=name,
            marker=MARKERS[name], markevery=(place * every // len(MARKERS), every),
        )  # fmt: skip
