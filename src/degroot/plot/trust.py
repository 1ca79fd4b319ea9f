"""Trust as a heat map: who trusts whom."""

from typing import TYPE_CHECKING, Any

import numpy as np

from degroot.answers.answer import Consensus
from degroot.answers.explanation.facts import place
from degroot.compute.compiled import Array
from degroot.consensus.sparse.weights import dense
from degroot.exceptions import InvalidInput
from degroot.plot.axes import ACROSS, DOWN, PALE, axes, name_ticks


def matrix(answer: Consensus, i: int | None) -> Array:
    """Trust (K, K), NaN where there is none."""
    if answer.trust is None or not len(answer.trust):
        raise InvalidInput("`answer` must have the field trust, of at least one point; it has not.")
    known = answer.trust if i is None else answer.trust[place(i, answer.points, "i", "points")][None]
    there = np.isfinite(known)
    count = there.sum(axis=0)
    total = np.where(there, known, 0.0).sum(axis=0)
    mean: Array = np.divide(total, count, out=np.full(count.shape, np.nan), where=count > 0)
    if answer.peers is None:
        return mean
    scored = dense(np.ones(answer.peers.shape), answer.peers) > 0.0
    return np.where(scored, dense(mean, answer.peers), np.nan)


def restrict_trust(known: Array, places: list[int]) -> Array:
    """The trust of some agents in each other, in shares that sum to 1."""
    some = np.nan_to_num(known[np.ix_(places, places)])
    sums = some.sum(axis=1, keepdims=True)
    return np.where(sums > 0.0, some / np.where(sums > 0.0, sums, 1.0), np.eye(len(places)))


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
