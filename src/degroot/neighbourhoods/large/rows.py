"""Large sets of dense rows: where they lie, a sample of them and, where it pays, their clusters."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array
from degroot.neighbourhoods.codes import COSINE
from degroot.neighbourhoods.large.clusters import centres_of, layout_of
from degroot.neighbourhoods.large.cost_model import Trial
from degroot.neighbourhoods.large.index import BlockedIndex
from degroot.neighbourhoods.large.layout import Layout, in_sequence
from degroot.neighbourhoods.large.sample import RowSample, draw, extremes, sample_of

LARGE = 1 << 26  # bytes of rows
PAYS = 0.75  # of the cost without: more is not worth the trouble
CLUSTERS_PAY = 0.5  # of the cost behind a screen: they take long to make
EXPONENT = 100  # of 2: float32 takes rows within it, whatever they are multiplied with

Kept = Mapping[str, NDArray[Any]]


class LargeSet:
    """Rows (n, d), float32 or float64, that are read where they are.

    What takes a pass over all of them is in `kept`, or made and kept there.
    """

    def __init__(self, rows: Array, metric: int, kept: Kept) -> None:
        self.rows, self.metric = rows, metric
        self._kept = dict(kept)
        some = _ready(self._kept["sample"])
        self.sample = sample_of(some, metric, self._kept["extremes"])

    def kept(self) -> dict[str, NDArray[Any]]:
        """The arrays that take long to make."""
        return dict(self._kept)

    def in_sequence(self, size: int, kernel: int) -> BlockedIndex:
        """A search that visits every row."""
        d = self.sample.rows.shape[1]
        return self._index(size, kernel, in_sequence(len(self.rows), d), np.empty((0, d), np.float32))

    def pruned(self, size: int, kernel: int) -> BlockedIndex:
        """A search that passes over rows by clusters or behind a screen, if that pays."""
        if "order" not in self._kept:
            centres, basis = cheapest(self.sample, size, len(self.rows), self.metric)
            self._keep(centres, basis)
        return self._index(size, kernel, self._layout(), self._kept["basis"])

    def _keep(self, centres: Array, basis: NDArray[np.float32]) -> None:
        """Keep the screen, and the layout of the rows in clusters around the centres; none: in sequence."""
        n, d = len(self.rows), self.sample.rows.shape[1]
        layout = layout_of(self.rows, centres, self.sample, self.metric) if len(centres) else in_sequence(n, d)
        self._kept |= layout._asdict() | {"basis": basis}

    def _layout(self) -> Layout:
        return Layout(*(_ready(self._kept[name]) for name in Layout._fields))

    def _index(self, size: int, kernel: int, layout: Layout, basis: NDArray[np.float32]) -> BlockedIndex:
        screen = _ready(basis)
        return BlockedIndex(self.rows, size, self.metric, kernel, self.sample, layout, screen)


def cheapest(sample: RowSample, size: int, n: int, metric: int) -> tuple[Array, NDArray[np.float32]]:
    """The centres of clusters, or the directions of a screen, if a search looks at fewer rows with them."""
    trial = Trial(sample, size, n, metric)
    centres = centres_of(sample, n)
    cost, basis = trial.cheapest_screen()
    if trial.cost_of_clusters(centres) < min(PAYS, CLUSTERS_PAY * cost):
        return centres, basis[:0]
    return centres[:0], basis if cost < PAYS else basis[:0]


def large_set(rows: Any, metric: int, kept: Kept) -> LargeSet | None:
    """`rows` as a large set, if they are one."""
    kinds = (np.dtype(np.float32), np.dtype(np.float64))
    if not isinstance(rows, np.ndarray) or rows.nbytes <= LARGE or rows.dtype not in kinds:
        return None
    if not (rows.flags.c_contiguous and rows.flags.aligned):
        return None
    if not _fits(kept, rows, metric):
        kept = {"extremes": extremes(rows), "sample": draw(rows, metric)}
    exponent = int(np.frexp(float(np.abs(kept["extremes"]).max(initial=0.0)))[1])
    return LargeSet(rows, metric, kept) if abs(exponent) <= EXPONENT else None


def _fits(kept: Kept, rows: Array, metric: int) -> bool:
    """Whether what was kept can be of these rows."""
    n, d = rows.shape
    transformed = d + 1 if metric == COSINE else d
    if "extremes" not in kept or "sample" not in kept or kept["extremes"].shape != (2, d):
        return False
    return kept["sample"].shape[1] == transformed and ("order" not in kept or len(kept["order"]) in (0, n))


def _ready(array: NDArray[Any]) -> NDArray[Any]:
    """`array` in the one memory layout for which the kernels are compiled."""
    return np.require(array, None, ["C", "A", "W"])
