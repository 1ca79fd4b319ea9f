"""Calibration by organisation: how often intervals hold the outcome on rows of its own, and how wide they are."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.answers.display import Digits, View, Viewed, counted, one_line
from degroot.answers.frame import make_frame
from degroot.compute.compiled import Array

SHOWN = 20  # agents in the table


@dataclass(frozen=True, slots=True, repr=False)
class CalibrationReport(Viewed):
    """How often 90 % intervals hold the outcome, on rows of each of K agents that were left out.

    Intervals of the consensus are calibrated on the rows of all agents together: they hold as often as they say over
    all of these, and for single agents more or less often. Those of an agent's own view are calibrated on its rows, and
    tried here with thresholds from other folds of them. For several outputs all are taken together. For classes sets
    are tried, and sizes are numbers of classes.

    Examples
    --------
    >>> from degroot import Agent, Collective
    >>> random = np.random.default_rng(0)
    >>> rows = random.uniform(size=(200, 1))
    >>> labels = rows[:, 0] + 0.1 * random.normal(size=200)
    >>> agents = [Agent(lambda X: X[:, 0], rows, (1 + k) * labels, f"times {1 + k}") for k in range(2)]
    >>> report = Collective(agents).calibrate().calibration
    >>> report.names, report.rows
    (('times 1', 'times 2'), array([200, 200]))
    >>> report.at(0.5).coverage
    0.5
    """

    names: tuple[str, ...]
    coverage: float  # that intervals are made for
    rows: NDArray[np.intp]  # (K,) on which they were tried
    consensus: Array  # (K,) share of these rows that intervals of the consensus hold
    consensus_size: Array  # (K,) mean half-width of these intervals; for classes mean number of classes in sets
    own: Array  # (K,) the same of intervals of its own view; NaN where it has too few rows, or no view
    own_size: Array  # (K,)
    classes: tuple[str, ...] = ()
    measure: Callable[[float], "CalibrationReport"] | None = field(default=None, compare=False)

    @property
    def overall(self) -> float:
        """The share of all rows that intervals of the consensus hold."""
        return float(np.average(self.consensus, weights=self.rows))

    def at(self, coverage: float) -> "CalibrationReport":
        """The same for another coverage.

        Examples
        --------
        >>> from degroot import Agent, Collective
        >>> rows = np.arange(10.0)[:, None]
        >>> agents = [Agent(lambda X, k=k: k * X[:, 0], rows, 1.4 * rows[:, 0], f"times {k}") for k in (1, 2, 3)]
        >>> Collective(agents).calibrate().calibration.at(0.5).coverage
        0.5
        """
        return self if self.measure is None else self.measure(coverage)

    def to_frame(self, library: str = "pandas") -> Any:
        """All agents as a data frame of pandas or polars, a row for each.

        Examples
        --------
        >>> from degroot import Agent, Collective
        >>> rows = np.arange(10.0)[:, None]
        >>> agents = [Agent(lambda X, k=k: k * X[:, 0], rows, 1.4 * rows[:, 0], f"times {k}") for k in (1, 2, 3)]
        >>> Collective(agents).calibrate().calibration.to_frame().columns.tolist()
        ['organisation', 'rows', 'consensus', 'consensus_size', 'own', 'own_size']
        """
        columns = ("rows", "consensus", "consensus_size", "own", "own_size")
        return make_frame({"organisation": list(self.names)} | {name: getattr(self, name) for name in columns}, library)

    def __repr__(self) -> str:
        return self._view().text()

    def _view(self) -> View:
        what, size = ("sets", "classes") if self.classes else ("intervals", "half-width")
        title = f"{100 * self.coverage:.4g} % {what} on left-out rows of {counted(len(self.names), 'organisation')}"
        total = counted(int(self.rows.sum()), "row")
        lines = [f"consensus: {self.overall:.3f} of {total} are inside{_range(self, 'consensus')}"]
        if not np.isnan(self.own).all():
            lines.append(f"own views: {np.nanmean(self.own):.3f} on average over organisations{_range(self, 'own')}")
        head = ("organisation", "rows", "consensus", size, "own view", size)
        below = [f"and {len(self.names) - SHOWN} more"] * (len(self.names) > SHOWN)
        if np.isnan(self.own).any():
            below.append("-: too few rows of its own to try this coverage on, or no view of its own")
        return View(title, tuple(lines), (head, *_cells(self)), tuple(below))


def _range(report: CalibrationReport, name: str) -> str:
    """Between which agents it lies."""
    values = np.asarray(getattr(report, name))
    if len(values) < 2 or np.isnan(values).all():
        return ""
    low, high = int(np.nanargmin(values)), int(np.nanargmax(values))
    names = [one_line(report.names[k]) for k in (low, high)]
    return f", from {values[low]:.3f} ({names[0]}) to {values[high]:.3f} ({names[1]})"


def _cells(report: CalibrationReport) -> list[tuple[str, ...]]:
    """What the table says of each agent."""
    sizes = np.concatenate([report.consensus_size, report.own_size])
    digits = Digits.of(sizes.tolist())

    def share(value: float) -> str:
        return "-" if np.isnan(value) else f"{value:.3f}"

    columns = (report.consensus, report.consensus_size, report.own, report.own_size)
    return [
        (one_line(name), f"{rows:,}", share(held), digits.write(size), share(own), digits.write(own_size))
        for name, rows, held, size, own, own_size in zip(
            report.names[:SHOWN], report.rows.tolist(), *(column.tolist() for column in columns), strict=False
        )
    ]
