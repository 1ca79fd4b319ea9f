"""Influence as bars: how far the answer would move without each agent."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from degroot.answers.answer import Consensus
from degroot.compute.compiled import Array
from degroot.exceptions import InvalidInput
from degroot.plot.axes import COLOURS, GREY, axes, bare, called, name_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BARS = 20  # of many agents, those with the most influence


def influence(
    answer: Consensus, i: int | None = None, output: int | str | None = None, *, ax: "Axes | None" = None
) -> "Axes":
    """What each agent adds to the answer at the point `i`; without a point, how much it moves answers on average.

    At a point a bar to the right says that the answer would be lower without the agent. Over all points it is the mean
    size of the influence; for several outputs the root of the sum of squares.

    Examples
    --------
    >>> import numpy as np
    >>> from degroot import Agent, Collective, plot
    >>> rows = np.linspace(0.0, 10.0, 50)[:, None]
    >>> agents = [Agent(lambda X, k=k: k * X[:, 0], rows, 1.4 * rows[:, 0], f"agent {k}") for k in (1, 2, 3)]
    >>> ax = plot.influence(Collective(agents).consult(rows))
    >>> ax.get_xlabel()
    'mean size of the influence'
    """
    if answer.influence is None or not len(answer.influence):
        raise InvalidInput("`answer` must have the field influence, of at least one point; it has not.")
    sizes, label, title = _overall(answer) if i is None else _at(answer, i, output)
    order = np.argsort(-np.abs(sizes), kind="stable")[:BARS]
    ax = axes(ax, height=1.4 + 0.26 * max(len(order), 3))
    places = np.arange(len(order))
    ax.barh(places, sizes[order], 0.7, color=np.where(sizes[order] >= 0.0, COLOURS[0], COLOURS[5]))
    ax.axvline(0.0, color="black", lw=0.8)
    name_ticks(ax.yaxis, [answer.names[k] for k in order], BARS)
    ax.set(ylim=(len(order) - 0.5, -0.5), xlabel=label + _rest(sizes, order))
    ax.set_title(title, parse_math=False)
    ax.locator_params(axis="x", nbins=6)
    if len(answer.names) == 1:
        ax.text(0.5, 0.8, "nobody to leave out", transform=ax.transAxes, ha="center", va="center", color=GREY,
                backgroundcolor="white")  # fmt: skip
    bare(ax)
    return ax


def _overall(answer: Consensus) -> tuple[Array, str, str]:
    influence = np.asarray(answer.influence)
    sizes = np.abs(influence) if influence.ndim == 2 else np.sqrt((influence**2).sum(axis=-1))
    return np.nan_to_num(sizes).mean(axis=0), "mean size of the influence", f"Influence over {len(sizes):,} points"


def _at(answer: Consensus, i: int, output: int | str | None) -> tuple[Array, str, str]:
    told = answer.explain(i, output).facts
    sizes = np.array([agent["influence"] or 0.0 for agent in told["agents"]])
    return sizes, called(told, "value with everyone, minus value without"), f"Influence at point {told['point']}"


def _rest(sizes: Array, drawn: NDArray[np.intp]) -> str:
    """What is not drawn, in a line."""
    left = np.delete(np.abs(sizes), drawn)
    return f"\n(and {len(left)} more agents, of {left.max():.2g} at most)" if len(left) else ""
