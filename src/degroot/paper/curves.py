"""Curves of the five agents of the synthetic problem, drawn alike in all figures."""

import pandas as pd
from matplotlib.axes import Axes

from degroot.paper.logistic import NAMES
from degroot.paper.style import AGENTS, band

MARKERS = dict(zip(NAMES, "osD^v", strict=True))
COLOURS = dict(zip(NAMES, AGENTS, strict=True))


def per_agent(axes: Axes, table: pd.DataFrame, x: str, y: str) -> None:
    """For each agent the median over repetitions of column `y` along column `x`, with the middle half shaded."""
    for place, (name, rows) in enumerate(table.groupby("agent")):
        every = max(1, rows[x].nunique() // 10)
        apart = (place * every // len(MARKERS), every)  # from the markers of the other agents
        band(axes, rows, x, y, color=COLOURS[name], label=name, marker=MARKERS[name], markevery=apart)
