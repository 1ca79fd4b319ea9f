"""The neighbourhoods of one agent's rows: which path computes them is decided here, from the rows alone."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, hstack, issparse

from degroot.neighbourhoods.dense import DenseIndex
from degroot.neighbourhoods.selection import COSINE, KERNELS, MANHATTAN, METRICS, UNIFORM
from degroot.neighbourhoods.sparse import SparseIndex
from degroot.neighbourhoods.tree import LEAF, TreeIndex
from degroot.points import Array, for_kernels, in_blocks, threads

SPARSE_BELOW = 0.1  # share of stored entries below which the sparse search is the faster one
TRIAL = 32  # rows asked when a tree is tried
EXPONENT = 50  # of 2: rows beyond it are taken in other units, so that their squares stay in range
BLOCK = 1024  # queries a thread takes at once


class Index(Protocol):
    """One way to find neighbourhoods."""

    path: str

    def means(self, queries: Any, values: Array, out: Array, place: int) -> None:
        """Mean of `values` (n, columns) over the nearest rows of each query (m, d), into ``out[:, place]``."""


class Neighbourhoods:
    r"""Means over the `size` rows nearest to each query, without sorting or returning them.

    Parameters
    ----------
    rows : (n, d) float32 or float64, dense or sparse
    size : how many rows are a neighbourhood, at most n
    metric : ``"euclidean"``, ``"cosine"`` or ``"manhattan"``
    kernel : ``"uniform"``, or weights that fall with the distance over the farthest distance u: ``"tricube"``,
        :math:`(1 - u^3)^3`, or ``"gaussian"``, :math:`\exp(-u^2/2)`

    Among rows at the same distance the earlier one is taken. Under the cosine metric a row of zeros, which has no
    direction, is at distance 1 from every other row.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.array([[0.0], [1.0], [2.0], [10.0]])
    >>> Neighbourhoods(rows, size=2).means(np.array([[0.2], [9.0]]), values=rows)
    array([[0.5],
           [6. ]])
    """

    def __init__(self, rows: Any, size: int, metric: str = "euclidean", kernel: str = "uniform") -> None:
        self.n_rows, self.n_features = rows.shape
        self.size, self.metric, self.kernel = size, metric, kernel
        self.sparse = issparse(rows) and rows.nnz < SPARSE_BELOW * self.n_rows * self.n_features
        largest = float(np.abs(rows.data if issparse(rows) else rows).max(initial=0.0))
        exponent = int(np.frexp(largest)[1])
        self._shift = -exponent if abs(exponent) > EXPONENT else 0
        self._index = _choose(self._prepared(rows), size, METRICS[metric], KERNELS[kernel])

    @property
    def path(self) -> str:
        """The search that was chosen: ``"dense"``, ``"tree"``, ``"sparse"`` or ``"everything"``."""
        return self._index.path

    def means(self, queries: Any, values: ArrayLike) -> Array:
        """Weighted mean of `values` (n, columns) over the neighbourhood of each of `queries` (m, d): (m, columns)."""
        values = for_kernels(values)
        out = np.empty((queries.shape[0], 1, values.shape[1]))
        block = min(BLOCK, max(64, -(-len(out) // threads())))
        in_blocks(lambda start, stop: self.means_into(out[start:stop], 0, queries[start:stop], values), len(out), block)
        return out[:, 0]

    def means_into(self, out: Array, place: int, queries: Any, values: Array) -> None:
        """The same into ``out[:, place]``, of (m, places, columns), on one thread."""
        self._index.means(self._prepared(queries), values, out, place)

    def _prepared(self, rows: Any) -> Any:
        """Rows in the form that the search wants: for the cosine metric, unit rows."""
        if self.sparse:
            rows = csr_array(rows, dtype=np.float64, copy=True)
            rows.sum_duplicates()
            if self._shift:
                rows.data = _shifted(rows.data, self._shift)
        else:
            kind = np.float32 if rows.dtype == np.float32 else np.float64
            rows = for_kernels(rows.toarray() if issparse(rows) else rows, kind)
            if self._shift:
                rows = _shifted(rows, self._shift)
        return _directions(rows) if METRICS[self.metric] == COSINE else rows


class Everything:
    """All rows are everybody's neighbours, with equal weights: one mean serves every query."""

    path = "everything"

    def means(self, _queries: Any, values: Array, out: Array, place: int) -> None:
        """Mean of all `values` (n, columns), into ``out[:, place]``."""
        out[:, place] = values.mean(axis=0)


def _choose(rows: Any, size: int, metric: int, kernel: int) -> Index:
    if size == rows.shape[0] and kernel == UNIFORM:
        return Everything()
    if issparse(rows):
        return SparseIndex(rows, size, metric, kernel)
    return _tree_if_faster(rows, size, metric, kernel) or DenseIndex(rows, size, metric, kernel)


def _tree_if_faster(rows: Array, size: int, metric: int, kernel: int) -> TreeIndex | None:
    """A tree, if a trial says that it is faster than looking at every row.

    The trial counts the leaves that a search meets; it takes no times, so the same rows choose the same path. The
    microseconds were measured on one core: they matter only as ratios.
    """
    n, d = (int(k) for k in rows.shape)

    def cost(leaves: float) -> float:
        return leaves * (0.1 + 0.03 * d) + size * 0.1 * (1 + d / 5)

    limit = 0.4 + n * (0.00017 + 0.00002 * d) + 0.06 * size
    if size == n or cost(1 + size / LEAF) > limit:
        return None
    tree = TreeIndex(rows, size, metric, kernel)
    return tree if cost(_leaves_met(tree)) < limit else None


def _leaves_met(index: TreeIndex) -> float:
    """How many leaves of the tree reach into a neighbourhood, on average over some rows."""
    rows, power = index.rows, 1 if index.metric == MANHATTAN else 2
    starts = np.arange(0, len(rows), LEAF)
    ordered = rows[index.tree.indices]
    low, high = np.minimum.reduceat(ordered, starts), np.maximum.reduceat(ordered, starts)
    asked = rows[np.linspace(0, len(rows) - 1, TRIAL).astype(int)]
    radius, _ = index.tree.query(asked, k=[index.size + 1], p=power)
    met = 0
    for row, reach in zip(asked, radius[:, 0], strict=True):
        gap = np.maximum(low - row, 0.0) + np.maximum(row - high, 0.0)
        met += int(((gap**power).sum(axis=1) <= reach**power).sum())
    return met / len(asked)


def _shifted(values: Array, exponent: int) -> Array:
    """Values times a power of 2, exactly, up to infinity."""
    with np.errstate(over="ignore", under="ignore"):
        shifted: Array = np.ldexp(values.astype(np.float64), exponent)
    return shifted


def _directions(rows: Any) -> Any:
    """Unit rows, with one more feature that only rows of zeros have: it puts them at a right angle to all others."""
    if issparse(rows):
        lengths = np.sqrt(np.asarray(rows.power(2).sum(axis=1))).ravel()
        empty = csr_array((lengths == 0.0).astype(np.float64)[:, None])
        directions = rows.multiply(1.0 / np.where(lengths == 0.0, 1.0, lengths)[:, None])
        return csr_array(hstack([directions, empty], format="csr"))
    rows = rows.astype(np.float64)
    scale = np.abs(rows).max(axis=1, initial=0.0, keepdims=True)
    rows /= np.where(scale == 0.0, 1.0, scale)  # squares of tiny or huge rows stay in range
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.hstack([rows / np.where(lengths == 0.0, 1.0, lengths), (lengths == 0.0).astype(np.float64)])
