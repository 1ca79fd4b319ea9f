"""Few features that matter: a k-d tree finds a small neighbourhood without looking at most of the rows."""

from typing import Any

import numpy as np
from scipy.spatial import KDTree

from degroot.neighbourhoods.selection import MANHATTAN, UNIFORM, search_all, summarise
from degroot.points import Array, compiled

LEAF = 16


class TreeIndex:
    """Rows (n, d) in SciPy's k-d tree, ready for sums over the `size` nearest of them."""

    path = "tree"

    def __init__(self, rows: Array, size: int, metric: int, kernel: int) -> None:
        self.rows, self.size, self.metric, self.kernel = rows, size, metric, kernel
        self.tree = KDTree(rows, leafsize=LEAF)
        self.rounding = (rows.shape[1] + 8) * 2.0**-52

    def means(self, queries: Array, values: Array, out: Array, place: int) -> None:
        """Mean of `values` (n, columns) over the nearest rows of each query (m, d), into ``out[:, place]``."""
        order = 1 if self.metric == MANHATTAN else 2
        distances, found = self.tree.query(queries, k=np.arange(1, self.size + 2), p=order)
        _means(
            queries, self.rows, found, distances, self.size, self.rounding, self.metric, self.kernel, values, out,
            place,
        )  # fmt: skip


@compiled
def _means(
    queries: Any, rows: Any, found: Any, distances: Any, size: int, rounding: float, metric: int, kernel: int,
    values: Any, out: Any, place: int,
) -> None:  # fmt: skip
    chosen, weights = np.empty(size, np.int64), np.empty(0 if kernel == UNIFORM else size)
    for m in range(queries.shape[0]):
        within, beyond = distances[m, size - 1], distances[m, size]
        if not beyond - within > rounding * beyond:  # the tree may have taken any of the rows at the boundary, or none
            search_all(rows, queries, m, metric, chosen)
        else:
            for i in range(size):
                chosen[i] = found[m, i]
        summarise(chosen, rows, queries, m, metric, kernel, weights, values, out, place)
