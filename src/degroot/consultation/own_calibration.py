"""Calibration on one agent's own rows: how far off its answers were when these rows were left out.

Nobody else's scores are taken on faith, so that coverage holds for each asker by itself.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.agents.agent import Scorer, round_range
from degroot.compute.compiled import Array, as_kernel_array, in_blocks
from degroot.exceptions import InvalidInput
from degroot.intervals import (
    Summary,
    class_scores,
    half_width,
    prediction_sets,
    rank_of,
    rows_needed,
    score,
    summary,
    threshold,
)
from degroot.neighbourhoods import Neighbourhoods
from degroot.rules.rules import STACKING_NEIGHBOURHOOD

BLOCK = 1024  # points that a thread takes at once
PULL = 20.0  # rows' worth of the overall error in the local one


class OwnCalibration:
    """What an asker's intervals and sets are made of.

    Parameters
    ----------
    scorer : the asker's scores
    sample : (m,)
        The rows that were left out in turn, in `folds` (m,).
    errors : (m, Q)
        Answers minus labels on them.
    """

    def __init__(self, scorer: Scorer, sample: NDArray[np.intp], folds: NDArray[np.intp], errors: Array) -> None:
        self.agent, self._metric, self._rows = scorer.agent, scorer.metric, scorer.rows[sample]
        self._sample, self._folds, self._errors = sample, folds, errors
        self.overall: Array = (errors**2).mean(axis=0)  # (Q,)

    @property
    def rows(self) -> int:
        """How many rows it rests on."""
        return len(self._sample)

    @cached_property
    def squares(self) -> "LocalMeans":
        """Squared errors near any point."""
        return LocalMeans(self._rows, self._errors**2, self._metric)

    def local(self, points: Any) -> Array:
        """The mean squared error near transformed `points`, (M, Q)."""
        return self.squares.shrunk(points, self.overall)

    @cached_property
    def scores(self) -> Array:
        """How far off the left-out answers are, (m,) for classes or (m, Q), as `degroot.intervals.score` says."""
        if self.agent.classes is not None:
            labels = self.agent.y[self._sample]
            return class_scores(labels + self._errors, labels)
        return score(self._errors, self._local_left_out, self.overall)

    @cached_property
    def _ordered(self) -> Array:
        return np.sort(self.scores, axis=0)

    @property
    def summary(self) -> Summary:
        """A summary of its scores."""
        return summary(self.scores)

    def intervals(self, value: Array, tolerance: Array, far: NDArray[np.bool_]) -> dict[str, Array | NDArray[np.bool_]]:
        """Bounds or sets for answers (M, Q) with a `tolerance` at the same points.

        At points that are `far`, (M,), nothing is known: there they hold all of the asker's labels too, up to round
        numbers, so that whoever sees them is not told the least and the greatest label.
        """
        if self.agent.classes is not None:
            return {"sets": prediction_sets(value, float(tolerance)) | far[:, None]}
        lower, upper = value - tolerance, value + tolerance
        if far.any():
            least, greatest = self._label_range
            lower = np.where(far[:, None], np.minimum(lower, least), lower)
            upper = np.where(far[:, None], np.maximum(upper, greatest), upper)
        return {"lower": lower, "upper": upper}

    def tolerance(self, points: Any, coverage: float, pooled: Sequence[Summary] = ()) -> Array:
        """Half-widths (M, Q) of intervals at transformed points; for classes the threshold of sets, ().

        `pooled`: others' scores, for want of own rows.
        """
        limit = self.threshold(coverage, pooled)
        return limit if self.agent.classes is not None else half_width(limit, self.local(points), self.overall)

    @cached_property
    def _label_range(self) -> tuple[Array, Array]:
        labels = self.agent.y.reshape(self.agent.n_rows, -1)
        return round_range(labels.min(axis=0), labels.max(axis=0))

    def threshold(self, coverage: float, pooled: Sequence[Summary] = ()) -> Array:
        """What a new score does not exceed with that probability; by others' scores too where its own are too few."""
        if self.rows >= rows_needed(coverage):
            return np.asarray(self._ordered[rank_of(self.rows, coverage) - 1])  # as `threshold` of all its scores
        if not pooled:
            raise InvalidInput(
                f"A coverage of {coverage:g} must be calibrated on at least {rows_needed(coverage)} rows; "
                f"{self.agent.name!r} has {self.rows}."
            )
        return threshold([self.summary, *pooled], coverage)

    def coverage_left_out(self, coverage: float) -> float:
        """How many of its own rows intervals of that coverage hold, with thresholds from the other folds."""
        held, known = 0, 0
        for fold in np.unique(self._folds):
            others = self.scores[self._folds != fold]
            if len(others) >= rows_needed(coverage):
                limit = threshold([summary(others, len(others))], coverage)
                inside = self.scores[self._folds == fold] <= limit
                held, known = held + int(inside.sum()), known + inside.size
        return held / known if known else np.nan

    def size_left_out(self, coverage: float) -> float:
        """The mean half-width of its intervals of that coverage at its own rows, over rows and outputs.

        For classes the mean number of classes in its sets. NaN where it has too few rows of its own.
        """
        if self.rows < rows_needed(coverage):
            return np.nan
        limit = self.threshold(coverage)
        if self.agent.classes is None:
            return float(half_width(limit, self._local_left_out, self.overall).mean())
        said = self.agent.y[self._sample] + self._errors
        return float(prediction_sets(said, float(limit)).sum(axis=1).mean())

    @cached_property
    def _local_left_out(self) -> Array:
        """Mean squared errors near the rows that were left out, by rows of other folds, (m, Q)."""
        found = np.tile(self.overall, (self.rows, 1))
        for fold in np.unique(self._folds):
            at, others = self._folds == fold, self._folds != fold
            if others.any():
                kept = LocalMeans(self._rows[others], self._errors[others] ** 2, self._metric)
                found[at] = kept.shrunk(self._rows[at], self.overall)
        return found


class LocalMeans:
    """Means of values (n, columns) over the rows near any point."""

    def __init__(self, rows: Any, values: Array, metric: str) -> None:
        size = STACKING_NEIGHBOURHOOD.size(len(values))
        self._near = Neighbourhoods(rows, size, metric, STACKING_NEIGHBOURHOOD.kernel)
        self._values = as_kernel_array(values)

    def at(self, points: Any) -> tuple[Array, Array]:
        """Means (M, columns) near `points` (M, d), and how many rows they amount to, (M, 1)."""
        M = points.shape[0]
        found, spread, effective = np.empty((M, 1, self._values.shape[1])), np.empty((M, 1)), np.empty((M, 1))

        def block(start: int, stop: int) -> None:
            part = slice(start, stop)
            self._near.means_into(found[part], 0, points[part], self._values, None, spread[part], effective[part])

        in_blocks(block, M, BLOCK)
        return found[:, 0], effective

    def shrunk(self, points: Any, overall: Array) -> Array:
        r"""The same with 20 rows' worth of the overall means, :math:`\frac{n_x e(x) + m o}{n_x + m}`."""
        near, effective = self.at(points)
        shrunk: Array = (effective * near + PULL * overall) / (effective + PULL)
        return shrunk
