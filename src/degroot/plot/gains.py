"""Gains: by how much each organisation's error changes, beside what a better own model would bring."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from degroot.answers.gains import LEVEL, Gains
from degroot.compute.compiled import Array
from degroot.exceptions import InvalidInput
from degroot.plot.axes import COLOURS, DOWN, GREY, axes, bare, legend, name_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDEST = 100.0  # percent: what is worse by more stands at the edge, with its number
BESIDE = 0.28  # of a line: how far below the collective the control stands
BETTER, WORSE, CONTROL = COLOURS[0], COLOURS[5], COLOURS[6]


def gains(gains: Gains, *, ax: "Axes | None" = None) -> "Axes":
    """By how many percent the error of each organisation changes against its own model, the greatest gain on top.

    A dot is the collective's answer, with one standard error to each side, filled where the change is beyond chance. A
    small diamond is the control: the own model with a correction learned on its own rows, without any peer.

    Examples
    --------
    >>> import numpy as np
    >>> from degroot import Agent, Collective, plot
    >>> rows = np.linspace(0.0, 1.0, 60)[:, None]
    >>> agents = [Agent(lambda X, k=k: k * X[:, 0], rows, 1.5 * rows[:, 0], f"times {k}") for k in (1, 2)]
    >>> ax = plot.gains(Collective(agents).gains())
    >>> ax.get_xlabel()
    'change of the mean squared error against the own model, %, ± one standard error'
    """
    if not isinstance(gains, Gains):
        raise InvalidInput(f"`gains` must be what Collective.gains() gives; got {type(gains).__name__}.")
    known = np.flatnonzero(np.isfinite(gains.change))
    order = known[np.argsort(gains.change[known], kind="stable")]
    change, spread, control = (values[order] for values in (gains.change, gains.change_error, gains.control_change))
    clear = gains.p_value[order] < LEVEL
    ax = axes(ax, height=min(1.6 + 0.24 * max(len(order), 3), 11.0))
    ax.axvline(0.0, color="black", lw=0.8)
    handles, labels = list[Any](), list[str]()
    for dots, colour, filled, label in (
        ((change <= 0.0) & clear, BETTER, True, "gain, beyond chance"),
        ((change <= 0.0) & ~clear, BETTER, False, "gain"),
        ((change > 0.0) & ~clear, WORSE, False, "loss"),
        ((change > 0.0) & clear, WORSE, True, "loss, beyond chance"),
    ):
        if dots.any():
            handles.append(_draw_dots(ax, np.flatnonzero(dots), change, spread, colour, filled))
            labels.append(label)
    if len(order):
        places = np.arange(len(order)) + BESIDE
        handles.append(ax.scatter(np.minimum(control, WIDEST), places, s=14, marker="D", color=CONTROL, lw=0))
        legend(ax, handles, [*labels, "control"], None)
    else:
        ax.text(0.5, 0.5, "nobody was measured", transform=ax.transAxes, ha="center", va="center", color=GREY)
    name_ticks(ax.yaxis, [gains.names[k] for k in order], DOWN)
    ax.set_ylim(max(len(order), 1) - 0.5, -0.5)
    ax.set_xlabel(
        f"change of the {gains.measure} against the own model, %, ± one standard error{_rest(gains, len(order))}"
    )
    ax.set_title(gains.sentence.partition(" (")[0])
    ax.locator_params(axis="x", nbins=7)
    bare(ax)
    return ax


def _draw_dots(ax: "Axes", places: NDArray[np.intp], change: Array, spread: Array, colour: str, filled: bool) -> Any:
    """Dots with one standard error to each side; those that are too far to the right at the edge."""
    at, ends = np.minimum(change[places], WIDEST), np.nan_to_num(spread[places], posinf=0.0)
    low, high = (np.clip(change[places] + side * ends, -WIDEST, WIDEST) for side in (-1.0, 1.0))
    ax.hlines(places, low, high, color=colour, lw=1.4)
    for k in places[change[places] > WIDEST]:
        ax.annotate(f"{change[k]:+,.0f} %", (WIDEST, k), (6, 0), textcoords="offset points", va="center",
                    fontsize="x-small", color=colour)  # fmt: skip
    return ax.scatter(at, places, s=34, facecolor=colour if filled else "white", edgecolor=colour, zorder=3)


def _rest(gains: Gains, drawn: int) -> str:
    """Who is not drawn, in a line."""
    left = len(gains.names) - drawn
    return f"\n({left} could not be measured)" if left and drawn else ""
