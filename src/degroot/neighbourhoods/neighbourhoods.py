"""The neighbourhoods of one agent's rows: which path computes them is decided here, from the rows alone."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from degroot.compute.compiled import Array, as_kernel_array, in_blocks, threads
from degroot.compute.tables import is_sparse
from degroot.neighbourhoods.all_rows import Everything
from degroot.neighbourhoods.codes import COSINE, KERNELS, MANHATTAN, METRICS, UNIFORM
from degroot.neighbourhoods.dense import DenseIndex
from degroot.neighbourhoods.distances import directions
from degroot.neighbourhoods.kdtree import LEAF, TreeIndex
from degroot.neighbourhoods.large.index import BlockedIndex
from degroot.neighbourhoods.large.rows import Kept, LargeSet, large_set
from degroot.neighbourhoods.sparse import SparseIndex
from degroot.neighbourhoods.summaries import Index, Summaries

SPARSE_BELOW = 0.1  # share of stored entries below which the sparse search is the faster one
TRIAL = 32  # rows asked when a tree is tried
EXPONENT = 50  # of 2: rows beyond it are taken in other units, so that their squares stay in range
BLOCK = 1024  # queries a thread takes at once

Rows = NDArray[np.intp]  # numbers of rows

NO_ROWS, NOTHING = np.empty(0, np.intp), np.empty((0, 0))  # made once: for one point it takes as long as some rows


class Neighbourhoods:
    r"""Means and second moments over the `size` rows nearest to each query, without sorting or returning them.

    Parameters
    ----------
    rows : (n, d) float32 or float64, dense or sparse
    size : how many rows are a neighbourhood, at most n
    metric : ``"euclidean"``, ``"cosine"`` or ``"manhattan"``
    kernel : ``"uniform"``, or weights that fall with the distance over the farthest distance u: ``"tricube"``,
        :math:`(1 - u^3)^3`, or ``"gaussian"``, :math:`\exp(-u^2/2)`

    kept : what `kept` of neighbourhoods of the same rows, size and metric gave, so that it is not made again

    Dense rows of more than 64 MB, which may be mapped from a file, stay where they are and are not copied. Among rows
    at the same distance the earlier one is taken. Under the cosine metric a row of zeros, which has no
    direction, is at distance 1 from every other row.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.array([[0.0], [1.0], [2.0], [10.0]])
    >>> Neighbourhoods(rows, size=2).means(np.array([[0.2], [9.0]]), values=rows)
    array([[0.5],
           [6. ]])
    """

    def __init__(
        self, rows: Any, size: int, metric: str = "euclidean", kernel: str = "uniform", *, kept: Kept | None = None
    ) -> None:
        self.n_rows, self.n_features = rows.shape
        self.size, self.metric, self.kernel = size, metric, kernel
        self.sparse = is_sparse(rows) and rows.nnz < SPARSE_BELOW * self.n_rows * self.n_features
        self._shift = 0
        self._large = large_set(rows, METRICS[metric], kept or {})
        if self._large is not None:
            self._index: Index = _choose_large(self._large, size, KERNELS[kernel])
            return
        exponent = int(np.frexp(float(np.abs(rows.data if is_sparse(rows) else rows).max(initial=0.0)))[1])
        self._shift = -exponent if abs(exponent) > EXPONENT else 0
        self._index = _choose(self._prepared(rows, _kind_of(rows)), size, METRICS[metric], KERNELS[kernel])

    @property
    def path(self) -> str:
        """The search that was chosen.

        ``"dense"``, ``"tree"``, ``"sparse"`` or ``"everything"``; of large sets ``"blocked"`` or ``"clustered"``.
        """
        return self._index.path

    @property
    def at_once(self) -> int:
        """How many queries are best asked together: of a large set, so many that share one pass over the rows."""
        return self._index.search.at_once if isinstance(self._index, BlockedIndex) else 1

    def kept(self) -> dict[str, NDArray[Any]]:
        """The arrays that take long to make, by name; none where making them anew is quick."""
        return {} if self._large is None else self._large.kept()

    def means(self, queries: Any, values: ArrayLike, exclude_row: Rows | None = None) -> Array:
        """Weighted mean of `values` (n, columns) over the neighbourhood of each of `queries` (m, d): (m, columns).

        `exclude_row` is as in `means_into`.
        """
        values = as_kernel_array(values)
        out = np.empty((queries.shape[0], 1, values.shape[1]))

        def block(start: int, stop: int) -> None:
            without = None if exclude_row is None else exclude_row[start:stop]
            self.means_into(out[start:stop], 0, queries[start:stop], values, without)

        in_blocks(block, len(out), min(BLOCK, max(64, -(-len(out) // threads()))))
        return out[:, 0]

    def means_into(
        self,
        out: Array,
        place: int,
        queries: Any,
        values: Array,
        exclude_row: Rows | None = None,
        spread: Array | None = None,
        effective: Array | None = None,
    ) -> None:
        r"""The same into ``out[:, place]``, of (m, places, columns), on one thread.

        Parameters
        ----------
        exclude_row : (m,) numbers of rows, one for each query
            A neighbourhood is then the `size` nearest of the other rows, or all others where there are not so many.
        spread : (m, places)
            ``spread[:, place]`` becomes the mean squared distance, :math:`\sum_n k_n d_n^2 / \sum_n k_n`, with d the
            distance in the metric and in the units of the rows.
        effective : (m, places)
            ``effective[:, place]`` becomes the effective number of rows, :math:`(\sum_n k_n)^2 / \sum_n k_n^2`.

        If the only row is left out, no row is near: `effective` is 0, `spread` infinite, and means are 0.
        """
        wanted = _wanted(exclude_row, spread, effective)
        self._summarise(queries, Summaries(values, 0, out, place, *wanted))

    def moments_into(
        self,
        moments: Array,
        place: int,
        queries: Any,
        residuals: Array,
        exclude_row: Rows | None = None,
        spread: Array | None = None,
        effective: Array | None = None,
    ) -> None:
        r"""Weighted second moments of `residuals` (n, Q, K), summed over the Q outputs, into ``moments[:, place]``.

        `moments` is (m, places, K (K + 1) / 2), packed lower triangles: the entry of models j and l <= j,
        :math:`\sum_n k_n \sum_q r_{nqj} r_{nql} / \sum_n k_n` over the neighbourhood, is at j (j + 1) / 2 + l. All else
        is as in `means_into`.

        Examples
        --------
        >>> rows, residuals = np.array([[0.0], [1.0], [9.0]]), np.array([[[1.0, 2.0]], [[3.0, 4.0]], [[5.0, 6.0]]])
        >>> moments, spread = np.empty((1, 1, 3)), np.empty((1, 1))
        >>> near = Neighbourhoods(rows, size=2)
        >>> near.moments_into(moments, 0, rows[:1], residuals, spread=spread)
        >>> moments[0, 0], spread[0]
        (array([ 5.,  7., 10.]), array([0.5]))
        >>> near.moments_into(moments, 0, rows[:1], residuals, exclude_row=np.array([0]), spread=spread)
        >>> moments[0, 0], spread[0]
        (array([17., 21., 26.]), array([41.]))
        """
        n, outputs, models = residuals.shape
        wanted = _wanted(exclude_row, spread, effective)
        values = residuals.reshape(n, outputs * models)
        self._summarise(queries, Summaries(values, outputs, moments, place, *wanted))

    def _summarise(self, queries: Any, asked: Summaries) -> None:
        self._index.summarise(self._prepared(queries, np.float64), asked)
        if self._shift and asked.spread.size and METRICS[self.metric] != COSINE:
            asked.spread[:, asked.place] = _shifted(asked.spread[:, asked.place], -2 * self._shift)

    def _prepared(self, rows: Any, kind: type) -> Any:
        """Rows in the form that the search wants: for the cosine metric, unit rows."""
        if self.sparse:
            from scipy.sparse import csr_array

            rows = csr_array(rows, dtype=np.float64, copy=True)
            rows.sum_duplicates()
            if self._shift:
                rows.data = _shifted(rows.data, self._shift)
        else:
            rows = as_kernel_array(rows.toarray() if is_sparse(rows) else rows, kind)
            if self._shift:
                rows = _shifted(rows, self._shift)
        return directions(rows) if METRICS[self.metric] == COSINE else rows


def _kind_of(rows: Any) -> type:
    """The kind of numbers that rows are kept in."""
    return np.float32 if rows.dtype == np.float32 else np.float64


def _choose_large(large: LargeSet, size: int, kernel: int) -> Index:
    if size == len(large.rows) and kernel == UNIFORM:
        return Everything(large.rows, large.metric, large)
    return large.pruned(size, kernel)


def _choose(rows: Any, size: int, metric: int, kernel: int) -> Index:
    if size == rows.shape[0] and kernel == UNIFORM:
        return Everything(rows, metric)
    if is_sparse(rows):
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


def _wanted(exclude_row: Rows | None, spread: Array | None, effective: Array | None) -> tuple[Rows, Array, Array]:
    """Empty arrays for what is not wanted, so that kernels are compiled for one kind of arguments."""
    rows = NO_ROWS if exclude_row is None else np.require(exclude_row, np.intp, ["C", "A", "W"])
    return rows, NOTHING if spread is None else spread, NOTHING if effective is None else effective


def _shifted(values: Array, exponent: int) -> Array:
    """Values times a power of 2, exactly, up to infinity."""
    with np.errstate(over="ignore", under="ignore"):
        shifted: Array = np.ldexp(values.astype(np.float64), exponent)
    return shifted
