"""Rounds: how beliefs meet when the agents pool."""

from typing import TYPE_CHECKING

import numpy as np

from degroot.answers.answer import Consensus
from degroot.answers.explanation.facts import present
from degroot.compute.compiled import Array
from degroot.consensus.dense import trace_pooling
from degroot.exceptions import InvalidInput
from degroot.plot.axes import COLOURS, GREY, axes, bare, called, legend
from degroot.plot.trust import matrix, restrict_trust

if TYPE_CHECKING:
    from matplotlib.axes import Axes

AGREED = 1e-3  # of how far apart the beliefs were at first


def rounds(answer: Consensus, i: int, output: int | str | None = None, *, ax: "Axes | None" = None) -> "Axes":
    """Every agent's belief about the point `i`, round by round, until they agree: at most 100 rounds.

    The answer needs `trust` and `beliefs`. Agents that were missing or left out are not drawn. Where the rule is not
    the paper's, pooling does not end at the answer, and the picture says so.

    Examples
    --------
    >>> import numpy as np
    >>> from degroot import Agent, Collective, plot
    >>> rows = np.linspace(0.0, 10.0, 50)[:, None]
    >>> agents = [Agent(lambda X, k=k: k * X[:, 0], rows, 1.4 * rows[:, 0], f"agent {k}") for k in (1, 2, 3)]
    >>> ax = plot.rounds(Collective(agents).consult(rows), 7)
    >>> ax.get_xlabel()
    'round'
    """
    told = answer.explain(i, output).facts
    agents = [agent for agent in present(told) if agent["belief"] is not None]
    places = [answer.names.index(agent["name"]) for agent in agents]
    if answer.trust is None or not places:
        raise InvalidInput("`answer` must have the fields trust and beliefs; it has not.")
    start = np.array([agent["belief"] for agent in agents])
    path = trace_pooling(restrict_trust(matrix(answer, told["point"]), places), start, AGREED)
    ax = axes(ax)
    _lines(ax, path, [agent["name"] for agent in agents], [agent["weight"] or 0.0 for agent in agents])
    _end(ax, path, told["value"])
    ax.set(xlabel="round", xlim=(0, max(len(path) - 1, 1)))
    ax.set_ylabel(called(told, "belief"), parse_math=False)
    ax.set_title(f"Pooling at point {told['point']}")
    ax.locator_params(axis="x", integer=True)
    bare(ax)
    return ax


def _lines(ax: "Axes", path: Array, names: list[str], weights: list[float]) -> None:
    """A line for each agent; of many, those with the largest weights have colours and names."""
    named = sorted(np.argsort([-weight for weight in weights], kind="stable")[: len(COLOURS)].tolist())
    steps, few = np.arange(len(path)), len(path) <= 30
    for k in set(range(len(names))) - set(named):
        ax.plot(steps, path[:, k], color=GREY, lw=0.6, alpha=0.5)
    handles = [
        ax.plot(steps, path[:, k], color=colour, lw=1.8, marker="o" if few else None, ms=3.5, clip_on=False)[0]
        for k, colour in zip(named, COLOURS, strict=False)
    ]
    left = len(names) - len(named)
    others = [ax.plot([], [], color=GREY, lw=0.6)[0]] if left else []
    legend(ax, [*handles, *others], [*(names[k] for k in named), *([f"{left} others"] if left else [])])


def _end(ax: "Axes", path: Array, value: float | None) -> None:
    """The answer as a line, and a word where pooling does not lead to it."""
    if value is None:
        return
    ax.axhline(value, color="black", ls=":", lw=1.0)
    beyond = max(abs(path[-1].min() - value), abs(path[-1].max() - value))
    agreed = np.ptp(path[-1]) <= AGREED * np.ptp(path[0])
    away = agreed and beyond > 0.01 * max(np.ptp(path[0]), abs(value - path[-1].mean()))
    words = "the answer, by another rule" if away else "the answer"
    ax.annotate(words, (1.0, value), xycoords=("axes fraction", "data"), xytext=(-4, 3), textcoords="offset points",
                ha="right", va="bottom", fontsize="small")  # fmt: skip
