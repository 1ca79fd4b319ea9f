"""Few features that matter: a k-d tree finds a small neighbourhood without looking at most of the rows."""

from typing import Any

import numpy as np

from degroot.compute.compiled import Array
from degroot.compute.kernel import compiled_for
from degroot.neighbourhoods.codes import MANHATTAN
from degroot.neighbourhoods.distances import measure
from degroot.neighbourhoods.selection import search_all
from degroot.neighbourhoods.summaries import SUMMARIES, Summaries, must_measure, reach, room_for, summarise

LEAF = 16


class TreeIndex:
    """Rows (n, d) in SciPy's k-d tree, ready for sums over the `size` nearest of them."""

    path = "tree"

    def __init__(self, rows: Array, size: int, metric: int, kernel: int) -> None:
        from scipy.spatial import KDTree  # here, since it takes long to import, and rows with many features need none

        self.rows, self.size, self.metric, self.kernel = rows, size, metric, kernel
        self.tree = KDTree(rows, leafsize=LEAF)
        self.rounding = (rows.shape[1] + 8) * 2.0**-52

    def summarise(self, queries: Array, asked: Summaries) -> None:
        """What is `asked` about the nearest rows of each query (m, d)."""
        n, order = len(self.rows), 1 if self.metric == MANHATTAN else 2
        size = reach(self.size, n, asked)
        distances, found = self.tree.query(queries, k=np.arange(1, min(size + 1, n) + 1), p=order)
        _summarise(queries, self.rows, found, distances, size, self.rounding, self.metric, self.kernel, asked)


@compiled_for(f"f8[2] f4[2] i8[2] f8[2] i8 f8 i8 i8 {SUMMARIES}", f"f8[2] f8[2] i8[2] f8[2] i8 f8 i8 i8 {SUMMARIES}")
def _summarise(
    queries: Any, rows: Any, found: Any, distances: Any, size: int, rounding: float, metric: int, kernel: int,
    asked: Summaries,
) -> None:  # fmt: skip
    chosen, room, measured = np.empty(size, np.int64), room_for(size, asked), must_measure(kernel, asked)
    for m in range(queries.shape[0]):
        within, beyond = distances[m, size - 1], distances[m, size] if size < rows.shape[0] else np.inf
        if not beyond - within > rounding * beyond:  # the tree may have taken any of the rows at the boundary, or none
            search_all(rows, queries, m, metric, chosen)
        else:
            for i in range(size):
                chosen[i] = found[m, i]
        if measured:
            measure(rows, chosen, size, queries, m, metric, room.gaps)
        summarise(chosen, m, metric, kernel, asked, room)
