"""Heterogeneity: what DeGroot gains over M-avg as the agents become more unlike each other."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from degroot import Agent, Collective
from degroot.paper import experiment, protocol, style
from degroot.paper.data import KNOWN, Data
from degroot.paper.experiment import Finding, Row, judged
from degroot.paper.protocol import MakeModel
from degroot.paper.schemes import gain, mean_squared

Array = NDArray[np.float64]

TITLES = {name: known.title for name, known in KNOWN.items()}
TABLE_1 = 0.5  # the fraction of table 1
MOST = 0.8  # growth is judged up to here: near 1 agents have little in common
FLOOR = -100.0  # percent, of the pictures

PAPER = "shape: the gain grows with heterogeneity"
RULE = (
    "The median gain at p = 0.5, the setting of table 1, is above that at p = 0, and the rank correlation of the "
    "median gain with p over 0 ≤ p ≤ 0.8 is above 0.5."
)
NOISY = {"boston": "Noisy: few rows for each agent and for testing, hence more repetitions."}
NOTHING_IN_COMMON = (
    "Dealt by label, the agents' rows disagree on what label goes with a point. Where all rows are dealt so, none of "
    "an agent's rows contradicts its own model, wherever the test point is: it trusts itself, and the weights no "
    "longer tell which model is right there. The one nearest to the label gets about 1 / K, as by chance. A limit of "
    "the method: agents must have some labels in common."
)


@dataclass(frozen=True, kw_only=True)
class Settings(experiment.Settings, protocol.Protocol):
    """The paper's protocol, with many fractions p of rows dealt in order in place of one."""

    fractions: tuple[float, ...] = tuple(k / 10 for k in range(11))


def along(
    data: Data, make: MakeModel, settings: Settings, random: np.random.Generator, order: Array | None = None,
    held_back: float = 0.0,
) -> Iterator[Row]:  # fmt: skip
    """Errors and gain for each fraction of the rows dealt in order, on the same test rows and from the same shuffle.

    Agents score models on all of their rows, or on a share of them that is held back from training.
    """
    seed = int(random.integers(2**63))
    X = protocol.table(data, settings)
    for fraction in settings.fractions:
        reading = replace(settings, fraction=fraction)
        rows = protocol.split(data, reading, np.random.default_rng(seed), order=order)
        agents = trained(make, X, data.y, rows.parts, held_back, np.random.default_rng(seed))
        yield {"heterogeneity": fraction, **measured(agents, X[rows.test], data.y[rows.test], settings.neighbours)}


def trained(
    make: MakeModel, X: Any, y: Array, parts: Sequence[protocol.Rows], held_back: float, random: np.random.Generator
) -> list[Agent]:
    """As the protocol trains agents, but that they score models on a share of their rows that theirs has not seen."""
    if held_back == 0:
        return protocol.trained(make, X, y, parts)
    cut = [np.split(random.permutation(part), [round(held_back * len(part))]) for part in parts]
    models = protocol.trained(make, X, y, [training for _, training in cut])
    return [Agent(agent.model, X[apart], y[apart], agent.name) for agent, (apart, _) in zip(models, cut, strict=True)]


def measured(agents: Sequence[Agent], X: Any, y: Array, neighbours: float) -> Row:
    """The errors of DeGroot and of M-avg on test points, the gain in percent, and two means over the points.

    The means are of an agent's trust in its own model, and of the consensus weight of the model that turns out nearest
    to the label; both are 1 / K where agents know nothing.
    """
    answer = Collective(agents, neighbours, n_jobs=1).consult(X, fields=["value", "weights", "beliefs", "trust"])
    beliefs, weights, trust = (np.asarray(field) for field in (answer.beliefs, answer.weights, answer.trust))
    nearest = np.abs(beliefs - y[:, None]).argmin(axis=1)
    mse, m_avg = mean_squared(answer.value, y), mean_squared(beliefs.mean(axis=1), y)
    return {
        "mse": mse,
        "m_avg": m_avg,
        "gain": gain(mse, m_avg),
        "self_trust": np.diagonal(trust, axis1=1, axis2=2).mean(),
        "weight_of_nearest": np.take_along_axis(weights, nearest[:, None], axis=1).mean(),
    }


def growth(table: pd.DataFrame, what: str, note: str = "", *, at: float = TABLE_1, most: float = MOST,
           rule: str = RULE, letter: str = "p") -> Finding:  # fmt: skip
    """Whether the gain grows: at `at` it is above that at the start, and up to `most` it rises more than it falls."""
    finding = Finding(what, PAPER, "left out", rule, None, note)
    if len(table):
        gains = table.pivot(index="repetition", columns="heterogeneity", values="gain")
        medians = gains.median()
        first, there = medians.index[0], min(medians.index, key=lambda level: abs(level - at))
        rank = _rank_correlation(medians[medians.index <= most])
        ours = (
            f"median gain {medians[first]:.1f} % at {letter} = {first:g}, {medians[there]:.1f} % at {letter} = "
            f"{there:g} (more in {(gains[there] > gains[first]).sum()} of {len(gains)} repetitions); rank correlation "
            f"{rank:.2f}"
        )
        finding = replace(finding, ours=ours, agrees=bool(medians[there] > medians[first] and rank > 0.5))
    return judged(finding, table)


def at_the_end(tables: Mapping[str, pd.DataFrame], what: str, note: str) -> Finding:
    """What happens where all rows are dealt in order: a finding beside the paper's."""
    last = {name: table[table["heterogeneity"] == 1] for name, table in tables.items() if len(table)}
    ours = [
        _at_the_end(TITLES.get(name, name), table.median(numeric_only=True))
        for name, table in last.items()
        if len(table)
    ]
    rule = "Not judged: the range of p in the paper's figures is not in our notes."
    return Finding(what, "not mentioned", "; ".join(ours) or "left out", rule, None, note)


def panel(axes: Axes, title: str, xlabel: str) -> None:
    """An empty panel for gains, with M-avg as the line at 0."""
    axes.set(title=title, xlabel=xlabel, ylabel="gain over M-avg (%)")
    axes.axhline(0, color=style.COLOURS["M-avg"], lw=1.5, label="M-avg")


def curve(axes: Axes, table: pd.DataFrame, label: str = "DeGroot", x: str = "heterogeneity") -> None:
    """The gain along a column `x`. What lies below -100 % is cut off and told in numbers."""
    if not len(table):
        axes.text(0.5, 0.5, "left out: no data", transform=axes.transAxes, ha="center")
        return
    style.band(axes, table, x, "gain", "DeGroot", label=label)
    medians = table.groupby(x)["gain"].median()
    if axes.get_ylim()[0] < FLOOR:
        axes.set_ylim(bottom=FLOOR)
    for level, below in medians[medians < FLOOR].items():
        axes.annotate(
            f"{below:.0f} %", (level, FLOOR), (-24, 3), textcoords="offset points", fontsize=8, ha="center",
            color=style.COLOURS["DeGroot"],
        )  # fmt: skip


def second_curve(axes: Axes, table: pd.DataFrame, label: str, look: str = "--o", x: str = "heterogeneity") -> None:
    """The medians of another reading, with open marks."""
    medians = table.groupby(x)["gain"].median() if len(table) else pd.Series(dtype=float)
    colour, size = style.COLOURS["DeGroot"], style.LOOK["lines.markersize"]
    axes.plot(medians.index, medians, look, color=colour, mfc="white", ms=size, label=label)


def legend(figure: Figure, axes: Axes) -> None:
    """One legend below all panels."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)


def _at_the_end(name: str, medians: pd.Series) -> str:
    return (
        f"{name}: median gain {medians['gain']:.1f} %, trust in one's own model {medians['self_trust']:.2f}, weight of "
        f"the model nearest to the label {medians['weight_of_nearest']:.2f}"
    )


def _rank_correlation(values: pd.Series) -> float:
    """Spearman's, of values with their place in the sequence."""
    return float(values.rank().corr(pd.Series(np.arange(len(values)), values.index)))
