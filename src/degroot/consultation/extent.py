"""Extents: where the rows of agents lie, feature by feature, and which points are far outside all of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.agents.agent import Agent, Scorer
from degroot.answers.answer import Consensus
from degroot.answers.flags import FAR_FROM_ALL, Flag
from degroot.compute.compiled import Array, in_blocks
from degroot.compute.tables import is_sparse, take
from degroot.exceptions import InvalidInput
from degroot.neighbourhoods.large.rows import LARGE
from degroot.neighbourhoods.large.sample import MOST
from degroot.schema import SchemaSpace

ALL_AGENTS = "all agents"  # whom the flag is about
REASON = f"{FAR_FROM_ALL}: the point is far outside the rows of all agents"
EXTREMES = "extremes"  # of large sets, among what neighbourhoods keep
CELLS = 1 << 17  # of points, compared at once

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class RowRange:
    """Where the rows of one agent lie.

    Examples
    --------
    >>> rows = np.array([[0.0, 7.0], [2.0, 7.0]])
    >>> RowRange.of(rows).excludes(np.array([[3.9, 7.0], [4.1, 7.0], [1.0, 14.1]]))
    array([False,  True,  True])
    """

    low: Array  # (d,) least value of each feature
    high: Array  # (d,) largest

    @classmethod
    def of(cls, rows: Any) -> "RowRange":
        """Of rows (n, d), dense or sparse; values that are not there (NaN) do not count."""
        if is_sparse(rows):
            low, high = (np.asarray(each.toarray()).ravel() for each in (rows.nanmin(axis=0), rows.nanmax(axis=0)))
        else:
            low, high = np.fmin.reduce(rows, axis=0), np.fmax.reduce(rows, axis=0)
        return cls(np.asarray(low, np.float64), np.asarray(high, np.float64))

    def restrict(self, features: Mask) -> "RowRange":
        """The same, where nothing is outside in other features than these, (d,)."""
        return RowRange(np.where(features, self.low, -np.inf), np.where(features, self.high, np.inf))

    @property
    def bounds(self) -> tuple[Array, Array]:
        """Beyond which a point is far outside: the width of the range to either side of it, (d,) each.

        The width of a feature that is the same in all rows is taken as its size, but at least 1.
        """
        with np.errstate(over="ignore"):  # nothing is beyond a range that has no finite width
            width = self.high - self.low
            width = np.where(width == 0.0, np.maximum(np.abs(self.high), 1.0), width)
            return self.low - width, self.high + width

    def excludes(self, points: Any, n_jobs: int | None = None) -> Mask:
        """Whether points (M, d) are far outside in some feature, (M,)."""
        low, high = self.bounds
        if is_sparse(points):
            return _excludes_sparse(points.tocsr(), low, high)
        outside = np.empty(len(points), np.bool_)

        def block(start: int, stop: int) -> None:
            part = points[start:stop]
            outside[start:stop] = ((part < low) | (part > high)).any(axis=1)

        in_blocks(block, len(points), max(1, CELLS // max(1, len(low))), n_jobs)
        return outside


class Extents:
    """The ranges of all agents' rows, each found when a point first takes it.

    Parameters
    ----------
    locate : for each agent, gives a scorer, of which rows, space and what is kept of them are used
    """

    def __init__(self, locate: Sequence[Callable[[], Scorer]]) -> None:
        self._agents = [_Located(each) for each in locate]

    def find_far(self, X: Any, n_jobs: int | None = None) -> NDArray[np.intp]:
        """The numbers of the points `X` that are far outside the rows of every agent.

        Agents are gone through one by one, with the points that are far outside the rows of all before: of most points
        the first few will do. Where an agent cannot locate a point, nothing is known, and it is not called far.
        """
        far, located = np.arange(X.shape[0]), dict[int, Any]()
        for agent in self._agents:
            if not len(far):
                break
            try:
                space = id(agent.scorer.space)
                if space not in located:
                    located[space] = agent.scorer.transform(take(X, far))
                outside = agent.range.excludes(located[space], n_jobs)
            except InvalidInput:
                return far[:0]
            far, located = far[outside], {key: points[outside] for key, points in located.items()}
        return far


class _Located:
    """An agent's rows and their range, found on first use."""

    def __init__(self, locate: Callable[[], Scorer]) -> None:
        self._locate = locate

    @cached_property
    def scorer(self) -> Scorer:
        return self._locate()

    @cached_property
    def range(self) -> RowRange:
        return find_range(self.scorer)


def find_range(scorer: Scorer) -> RowRange:
    """Where an agent's rows lie; of a large set what is known, or by a sample: nobody reads gigabytes for a flag."""
    rows, known = scorer.rows, scorer.kept.get(EXTREMES)
    if known is not None and known.shape == (2, rows.shape[1]):
        found = RowRange(*np.asarray(known, np.float64))
    else:
        size = rows.data.nbytes if is_sparse(rows) else rows.nbytes
        if size > LARGE and rows.shape[0] > MOST:
            rows = rows[np.sort(np.random.default_rng(0).choice(rows.shape[0], MOST, replace=False))]
        found = RowRange.of(rows)
    return found.restrict(scorer.space.has_range) if isinstance(scorer.space, SchemaSpace) else found


def flag_far(answer: Consensus, far: NDArray[np.intp], agents: Sequence[Agent]) -> Consensus:
    """The answer with a flag at the points `far`, if there are any, and no narrow interval there.

    Nothing is known out there. An interval is widened to hold the labels of all agents, for an asker all of its own; a
    set holds all classes.
    """
    if not len(far):
        return answer
    changed: dict[str, Any] = {"flags": (*answer.flags, Flag(ALL_AGENTS, REASON, far))}
    if answer.sets is not None:
        changed["sets"] = answer.sets.copy()
        changed["sets"][far] = True
    if answer.lower is not None and answer.upper is not None:
        lower, upper = answer.lower.copy(), answer.upper.copy()
        for asker, points in _group_by_asker(answer.asker, far):
            low, high = label_range([agent.y for agent in agents if asker in (None, agent.name)])
            lower[points], upper[points] = np.minimum(lower[points], low), np.maximum(upper[points], high)
        changed |= {"lower": lower, "upper": upper}
    return replace(answer, **changed)


def label_range(labels: Sequence[Array]) -> tuple[Array, Array]:
    """The least and the largest of labels, (Q,) each; `labels` are (n,) or (n, Q) of each agent."""
    tables = [np.asarray(each).reshape(len(each), -1) for each in labels]
    return np.min([each.min(axis=0) for each in tables], axis=0), np.max([each.max(axis=0) for each in tables], axis=0)


def _group_by_asker(asker: Any, points: NDArray[np.intp]) -> list[tuple[str | None, NDArray[np.intp]]]:
    """The points of each asker; None: of nobody."""
    if asker is None or isinstance(asker, str):
        return [(asker, points)]
    askers = asker[points].tolist()
    return [(each, points[[other == each for other in askers]]) for each in dict.fromkeys(askers)]


def _excludes_sparse(points: Any, low: Array, high: Array) -> Mask:
    """As for dense points: entries that are stored one by one, and all others are 0."""
    if not points.has_canonical_format:
        points = points.copy()
        points.sum_duplicates()
    M, row = points.shape[0], np.repeat(np.arange(points.shape[0]), np.diff(points.indptr))
    value, column = points.data, points.indices
    beyond = (value < low[column]) | (value > high[column])
    empty = (low > 0.0) | (high < 0.0)  # features of which 0 is far outside
    stored = np.bincount(row[empty[column]], minlength=M)
    outside: Mask = (np.bincount(row[beyond], minlength=M) > 0) | (stored < empty.sum())
    return outside
