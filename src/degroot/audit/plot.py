"""The picture of an audit: four panels, an agent a line."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from degroot.compute.compiled import Array
from degroot.exceptions import InvalidInput

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DOWN, ACROSS = 48, 32  # names on an axis, at most
LONGEST_NAME = 20
MAIN, SECOND, FAINT = "#1f5a94", "#e3973a", "#a9b4bf"


def draw(rows: Sequence[dict[str, Any]], trust: Array | None, points: int, error: float) -> "Figure":
    """Who carries the answer, who trusts whom, what is lost without each, and which points depend on one.

    Without trust: how far the answer would move without each.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as missing:
        raise InvalidInput("The picture needs matplotlib: pip install 'degroot[plot]'.") from missing

    lines = min(max(len(rows), 6), DOWN)
    figure = Figure(figsize=(12.0, 2 * (2.1 + 0.2 * lines)), layout="constrained")
    panels = figure.subplots(2, 2)
    _draw_weights(panels[0, 0], rows)
    if trust is None:
        _draw_influence(panels[0, 1], rows)
    else:
        _draw_trust(panels[0, 1], rows, trust)
    _draw_losses(panels[1, 0], rows, error)
    _draw_dependence(panels[1, 1], rows, points)
    return figure


def _draw_weights(axes: "Axes", rows: Sequence[dict[str, Any]]) -> None:
    places = np.arange(len(rows))
    axes.barh(places - 0.2, _values(rows, "weight"), 0.4, color=MAIN, label="mean weight")
    axes.barh(places + 0.2, _values(rows, "leads"), 0.4, color=SECOND, label="share of points it leads")
    _finish(axes, rows, "Who carries the answer")


def _draw_trust(axes: "Axes", rows: Sequence[dict[str, Any]], trust: Array) -> None:
    image = axes.imshow(trust, cmap="Blues", aspect="auto", interpolation="nearest")
    axes.figure.colorbar(image, ax=axes)
    places, labels = _labels(rows, ACROSS)
    axes.set_xticks(places, labels, parse_math=False, fontsize=8, rotation=90 if len(rows) > 4 else 0)
    axes.set(ylabel="trust of", xlabel="in the model of")
    if len(rows) <= 8:
        dark = 0.4 * trust.min() + 0.6 * trust.max()
        for (i, j), value in np.ndenumerate(trust):
            axes.text(j, i, f"{value:.2f}", ha="center", va="center", color="white" if value > dark else "black")
    _finish(axes, rows, "Who trusts whom: mean trust")


def _draw_influence(axes: "Axes", rows: Sequence[dict[str, Any]]) -> None:
    influence = np.nan_to_num(_values(rows, "influence"))
    axes.barh(np.arange(len(rows)), influence, 0.6, color=MAIN)
    axes.set_xlabel("mean distance")
    _finish(axes, rows, "How far the answer would move without each")


def _draw_losses(axes: "Axes", rows: Sequence[dict[str, Any]], error: float) -> None:
    loss, noise = _values(rows, "loss"), np.nan_to_num(_values(rows, "loss_error"))
    axes.axvline(0.0, color="black", lw=0.8)
    for droppable, colour, label in ((False, MAIN, "costs something"), (True, FAINT, "could be dropped")):
        some = np.array([row["droppable"] == droppable for row in rows]) & ~np.isnan(loss)
        if some.any():
            axes.errorbar(loss[some], np.flatnonzero(some), xerr=noise[some], fmt="o", ms=5, color=colour, label=label)
    if np.isnan(loss).all():
        _say(axes, "nobody to drop")
    axes.locator_params(axis="x", nbins=6)
    axes.set_xlabel(f"added to the mean squared error of {error:.4g}, ± one standard error")
    _finish(axes, rows, "What is lost without each")


def _draw_dependence(axes: "Axes", rows: Sequence[dict[str, Any]], points: int) -> None:
    shares = 100.0 * _values(rows, "alone") / points
    axes.barh(np.arange(len(rows)), shares, 0.6, color=MAIN)
    if not shares.any():
        _say(axes, "none")
    axes.set(xlabel=f"% of {points} points", xlim=(0.0, 1.05 * (shares.max() or 100.0)))
    _finish(axes, rows, "Points that depend on a single agent")


def _values(rows: Sequence[dict[str, Any]], key: str) -> Array:
    return np.array([row[key] for row in rows], np.float64)


def _say(axes: "Axes", words: str) -> None:
    axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center", va="center")


def _finish(axes: "Axes", rows: Sequence[dict[str, Any]], title: str) -> None:
    """A title, a legend below it if there is anything to tell apart, and an agent a line, the first on top."""
    several = len(axes.get_legend_handles_labels()[0]) > 0
    axes.set_title(title, pad=26 if several else 6)
    if several:
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False, fontsize=9)
    places, labels = _labels(rows, DOWN)
    axes.set_yticks(places, labels, parse_math=False, fontsize=8)
    axes.set_ylim(len(rows) - 0.5, -0.5)


def _labels(rows: Sequence[dict[str, Any]], most: int) -> tuple[list[int], list[str]]:
    """Names and their places: as many as can be read."""
    places = list(range(0, len(rows), -(-len(rows) // most)))
    names = [" ".join(rows[k]["agent"].split()) for k in places]
    return places, [name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…" for name in names]
