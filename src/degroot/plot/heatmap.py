"""Trust as a heat map: who trusts whom."""

from typing import TYPE_CHECKING, Any

import numpy as np

from degroot.answers import Consensus
from degroot.explanations.facts import place
from degroot.plot.canvas import ACROSS, DOWN, PALE, axes, name_ticks
from degroot.plot.matrix import matrix
from degroot.points import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WRITTEN = 10  # agents up to whom the numbers are written into the cells
LEVEL = 8  # signs of a name that have room below a cell


def trust(answer: Consensus, i: int | None = None, *, ax: "Axes | None" = None) -> "Axes":
    """Who trusts whom at the point `i`, or on average over all points: a row for each agent that trusts.

    Cells where nobody has scored a model, or an agent was missing, stay grey.

    Examples
    --------
    >>> import numpy as np
    >>> from degroot import Agent, Collective, plot
    >>> rows = np.linspace(0.0, 10.0, 50)[:, None]
    >>> agents = [Agent(lambda X, k=k: k * X[:, 0], rows, rows[:, 0], f"agent {k}") for k in (1, 2, 3)]
    >>> ax = plot.trust(Collective(agents).consult(rows), 0)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('in the model of', 'trust of')
    """
    known, K, longest = matrix(answer, i), len(answer.names), max(map(len, answer.names))
    side = min(max(2.6 + 0.28 * K, 3.6), 9.0)
    ax = axes(ax, side + 1.2, side)
    ax.set_facecolor(PALE)
    most = float(np.nanmax(known, initial=0.0)) or 1.0
    image = ax.imshow(np.ma.masked_invalid(known), cmap="Blues", vmin=0.0, vmax=most, interpolation="nearest")
    figure: Any = ax.figure
    figure.colorbar(image, ax=ax, label="trust", shrink=0.85)
    name_ticks(ax.xaxis, answer.names, ACROSS, rotation=90 if K > 4 or longest > LEVEL else 0)
    name_ticks(ax.yaxis, answer.names, DOWN)
    ax.set(xlabel="in the model of", ylabel="trust of")
    ax.set_title("Mean trust" if i is None else f"Trust at point {place(i, answer.points, 'i', 'points')}")
    if K <= WRITTEN:
        _write(ax, known, most)
    return ax


def _write(ax: "Axes", known: Array, most: float) -> None:
    for (row, column), value in np.ndenumerate(known):
        if np.isfinite(value):
            colour = "white" if value > 0.6 * most else "black"
            ax.text(column, row, f"{value:.2f}", ha="center", va="center", color=colour, fontsize="small")
