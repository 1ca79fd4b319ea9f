"""Audits: over many points, who carries the answer, whom it could do without, and where it depends on one agent."""

from collections.abc import Sequence, Sized
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from degroot.answers.display import View, Viewed, one_line
from degroot.audit.losses import losses, losses_of_asker
from degroot.audit.plot import draw
from degroot.audit.regions import NEARLY_ALL, Region, find_regions
from degroot.compute.compiled import Array
from degroot.compute.progress import progress
from degroot.compute.tables import as_table, column_names, take
from degroot.exceptions import InvalidInput

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from degroot.collective import Collective

TRUST_BYTES = 1 << 25  # held at once
BEYOND = 1e3  # a loss so many times the error is not told in percent of it
TIED = 1e-9  # weights that differ by less, over the largest, lead together
FIELDS = ("value", "standard_error", "weights", "trust", "influence")
HEADER = ("agent", "weight", "leads", "influence", "of spread", "trusted", "alone", "loss without", "droppable")


@dataclass(frozen=True, slots=True, repr=False)
class Audit(Viewed):
    """What an audit of K agents over M points found. Print it for a table, draw it for a picture.

    For several outputs, the influence and the jackknife error at a point are the root of the sum of their squares. What
    takes leaving an agent out is NaN where nobody would be left. For an asker all is from its view: errors and losses
    are those on its own rows, left out in folds of whole units, and there is no trust.

    Examples
    --------
    >>> from degroot import Agent, Collective
    >>> rows = np.arange(10.0)[:, None]
    >>> agents = [Agent(lambda X, k=k: k * X[:, 0], rows, 1.4 * rows[:, 0], f"times {k}") for k in (1, 2, 3)]
    >>> audit = Collective(agents).audit(rows)
    >>> audit.weight.round(2), audit.droppable
    (array([0.66, 0.29, 0.04]), array([False, False, False]))
    """

    names: tuple[str, ...]
    points: int
    weight: Array  # (K,) mean weights; they sum to 1
    leads: Array  # (K,) share of the points at which its weight is the largest; ties are divided
    influence: Array  # (K,) how far, on average, the answer would move without it
    spread: float  # standard deviation of the answers over the points
    trust: Array | None  # (K, K) row i: agent i's mean trust in every model; None for an asker
    carriers: float  # on how many agents an answer rests: the mean of 1 / (sum of squared weights)
    stability: float  # mean jackknife error over agents
    rehearsed: int  # rows of the agents, each left out of its own neighbourhood; for an asker rows of its own
    error: float  # mean squared error of the collective on them
    loss: Array  # (K,) what is added to it without this agent
    loss_error: Array  # (K,) the standard error of that
    alone: NDArray[np.intp]  # (K,) number of points at which it has at least 0.9 of the weight
    regions: tuple[Region, ...]  # where such points are together
    asker: str | None = None  # for whom the answers are; None: the consensus
    own_error: float | None = None  # mean squared error of the asker's own model on the same rows

    @property
    def relative_influence(self) -> Array:
        """Influence over the spread of the answers, (K,); NaN if they are all the same."""
        return self.influence / self.spread if self.spread > 0.0 else np.full(len(self.names), np.nan)

    @property
    def trusted(self) -> Array:
        """How much the others trust each agent's model, on average, (K,); NaN for one agent, and for an asker."""
        others = len(self.names) - 1
        if self.trust is None or not others:
            return np.full(len(self.names), np.nan)
        trusted: Array = (self.trust.sum(axis=0) - self.trust.diagonal()) / others
        return trusted

    @property
    def droppable(self) -> NDArray[np.bool_]:
        """Whose leaving, alone, costs no more than one standard error, (K,)."""
        return np.asarray(self.loss <= self.loss_error)

    def rows(self) -> list[dict[str, Any]]:
        """One row for each agent, to make a data frame of.

        Examples
        --------
        >>> from degroot import Agent, Collective
        >>> rows = np.arange(10.0)[:, None]
        >>> agents = [Agent(lambda X, k=k: k * X[:, 0], rows, 1.4 * rows[:, 0], f"times {k}") for k in (1, 2, 3)]
        >>> Collective(agents).audit(rows).rows()[0]["agent"]
        'times 1'
        """
        columns: dict[str, Any] = {
            "agent": np.array(self.names, object), "weight": self.weight, "leads": self.leads,
            "influence": self.influence, "relative_influence": self.relative_influence, "trusted": self.trusted,
            "alone": self.alone, "loss": self.loss, "loss_error": self.loss_error, "droppable": self.droppable,
        }  # fmt: skip
        lists = [column.tolist() for column in columns.values()]
        return [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]

    def draw(self) -> "Figure":
        """A picture of weights, trust, losses and dependence; ``audit.draw().savefig(file)`` keeps it.

        For an asker influence stands in the place of trust.

        Examples
        --------
        >>> from degroot import Agent, Collective
        >>> rows = np.arange(10.0)[:, None]
        >>> agents = [Agent(lambda X, k=k: k * X[:, 0], rows, 1.4 * rows[:, 0], f"times {k}") for k in (1, 2, 3)]
        >>> len(Collective(agents).audit(rows).draw().axes)  # four panels, and a scale of colours
        5
        """
        return draw(self.rows(), self.trust, self.points, self.error)

    def __repr__(self) -> str:
        return str(self)

    def _view(self) -> View:
        title, *above = _tell_whole(self)
        return View(title, tuple(above), tuple(map(tuple, _cells(self))), tuple(_tell_regions(self)))

    def __str__(self) -> str:
        return "\n".join([*_tell_whole(self), "", *_align_columns(_cells(self)), "", *_tell_regions(self)])


def audit(collective: "Collective", X: Any, asker: str | None = None) -> Audit:
    """Look at a collective's answers for the points `X`, and at its errors on its agents' own rows.

    Parameters
    ----------
    collective : a collective
    X : (M, d)
        At least one point; the more, and the more like the questions to come, the better.
    asker : str, optional
        For whom: then answers are from its view, and errors are those on its own rows.

    Notes
    -----
    Of the agents' own rows, on which errors are measured, only sums over a few parts of them are pooled. With M points
    and K agents, what is held is M x K weights: trust is summed up as it comes.
    """
    X = as_table(X)
    M, K = X.shape[0], len(collective.names)
    if M == 0:
        raise InvalidInput("`X` must hold at least one point; it holds none.")
    if not (asker is None or isinstance(asker, str)):
        given = f"{len(asker)} names" if isinstance(asker, Sized) else repr(asker)
        raise InvalidInput(f"`asker` of an audit must be the name of one agent; got {given}.")
    view = None if asker is None else collective.view_of(asker)
    fields = FIELDS if view is None else [name for name in FIELDS if name != "trust"]
    weights, values = np.empty((M, K)), []
    influence, trust, stability = np.zeros(K), None if view is not None else np.zeros((K, K)), 0.0
    step = max(1, TRUST_BYTES // (8 * K * K))
    with progress("Auditing", -(-M // step)) as advance:
        for start in range(0, M, step):
            answer = collective.consult(take(X, slice(start, start + step)), fields, asker=asker)
            weights[start : start + step] = answer.weights
            values.append(_by_outputs(answer.value, 1))
            influence += _size(_by_outputs(answer.influence, 2)).sum(axis=0)
            stability += float(_size(_by_outputs(answer.standard_error, 1)).sum())
            if trust is not None:
                trust += np.asarray(answer.trust).sum(axis=0)
            advance()
    if view is None:
        cost = losses(collective.agents, collective.scorers, collective.option, collective.n_jobs)
    else:
        cost = losses_of_asker(view, correct=collective.correct)
    most = weights.max(axis=1, keepdims=True)
    leading = weights >= (1.0 - TIED) * most
    return Audit(
        names=collective.names,
        points=M,
        weight=weights.mean(axis=0),
        leads=(leading / leading.sum(axis=1, keepdims=True)).mean(axis=0),
        influence=influence / M,
        spread=_spread(np.concatenate(values)),
        trust=None if trust is None else trust / M,
        carriers=float((1.0 / (weights**2).sum(axis=1)).mean()),
        stability=stability / M,
        rehearsed=cost.rows,
        error=cost.error,
        loss=cost.loss,
        loss_error=cost.loss_error,
        alone=(weights >= NEARLY_ALL).sum(axis=0),
        regions=find_regions(X, weights, collective.names, column_names(X) or collective.feature_names),
        asker=asker,
        own_error=cost.own_error,
    )


def _by_outputs(field: Array | None, axes: int) -> Array:
    """A field of an answer with outputs as its last axis, also where there is one."""
    array = np.asarray(field)
    return array if array.ndim > axes else array[..., None]


def _size(array: Array) -> Array:
    size: Array = np.sqrt((array**2).sum(axis=-1))
    return size


def _spread(values: Array) -> float:
    apart = values - values[:1]  # equal values have no spread at all
    return float(np.sqrt(apart.var(axis=0).sum()))


def _tell_whole(audit: Audit) -> list[str]:
    """How much was looked at, and how the collective does as a whole."""
    K, stable = len(audit.names), f"; stability (jackknife over agents) {audit.stability:.3g}"
    asked, whose, own = "", "of the agents' own, each left out of its neighbourhood", ""
    if audit.asker is not None:
        name = one_line(audit.asker)
        asked, whose = f", asked by {name}", f"of {name}, left out in folds of whole units"
        own = f"; of its own model {audit.own_error:.4g}"
    return [
        f"{_format_count(K, 'agent')}, {_format_count(audit.points, 'point')}{asked}. "
        f"On average an answer rests on {_format_count(audit.carriers, 'agent', '.2f')}{stable if K > 1 else ''}.",
        f"Mean squared error on {_format_count(audit.rehearsed, 'row')} {whose}: {audit.error:.4g}{own}.",
    ]


def _cells(audit: Audit) -> list[list[str]]:
    """The table, its heading first; without trust where there is none."""
    rows, trusted = [list(HEADER), *_agent_cells(audit)], HEADER.index("trusted")
    return rows if audit.trust is not None else [row[:trusted] + row[trusted + 1 :] for row in rows]


def _agent_cells(audit: Audit) -> list[list[str]]:
    """What the table says of each agent."""
    return [
        [
            " ".join(row["agent"].split()),
            f"{row['weight']:.3f}",
            f"{row['leads']:.0%}",
            _format_number(row["influence"], ".3g"),
            _format_number(row["relative_influence"], ".1%"),
            _format_number(row["trusted"], ".3f"),
            f"{row['alone']}",
            "-" if np.isnan(row["loss"]) else loss,
            "-" if np.isnan(row["loss"]) else "yes" if row["droppable"] else "no",
        ]
        for row, loss in zip(audit.rows(), _tell_losses(audit), strict=True)
    ]


def _tell_losses(audit: Audit) -> list[str]:
    """Losses in percent of the error with everybody, unless that is next to nothing."""
    small = np.nanmax(np.abs(audit.loss), initial=0.0) < BEYOND * audit.error
    unit, sign = (audit.error / 100.0, " %") if small else (1.0, "")
    return [_with_chance(*each) + sign for each in np.column_stack([audit.loss, audit.loss_error]) / unit]


def _with_chance(value: float, chance: float) -> str:
    """A value and its standard error, of which two digits are told."""
    if not chance > 0.0:
        return f"{value:.3g} ± {_format_number(chance, '.2g')}"
    digits = min(max(1 - int(np.floor(np.log10(chance))), 0), 9)
    return f"{value:z.{digits}f} ± {chance:.{digits}f}"


def _format_count(count: float, noun: str, form: str = "") -> str:
    return f"{count:{form}} {noun}{'' if count == 1 else 's'}"


def _format_number(value: float, form: str) -> str:
    return "-" if np.isnan(value) else format(value, form)


def _align_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as lines: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    ]


def _tell_regions(audit: Audit) -> list[str]:
    count, much = int(audit.alone.sum()), f"depend on a single agent, with a weight of at least {NEARLY_ALL}"
    if count == 0:
        return [f"None of the points {much}."]
    if not audit.regions:
        return [f"{count} of {audit.points} points {much}; where they are has no short description."]
    told = (f"  {each.where}: {each.agent}, {each.weight:.2f} at {each.points} points" for each in audit.regions)
    return [f"{count} of {audit.points} points {much}. Regions:", *told]
