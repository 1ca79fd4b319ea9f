r"""Sparse rows: eight queries are laid out side by side, and one pass over the stored entries serves all of them.

Scores are the parts of the distances that differ between rows, :math:`|x|^2 - 2 q'x` or
:math:`\|x\|_1 + \sum_j (|x_j - q_j| - |x_j| - |q_j|)`, in float64. As in the dense search, rows too near to the
boundary to be told apart are measured again, entry by entry.
"""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from degroot.compute.kernel import compiled, compiled_for
from degroot.neighbourhoods.codes import MANHATTAN
from degroot.neighbourhoods.selection import settle
from degroot.neighbourhoods.summaries import SUMMARIES, Summaries, must_measure, reach, room_for, summarise

if TYPE_CHECKING:
    from scipy.sparse import csr_array

LANES = 8  # queries side by side


class SparseIndex:
    """Rows (n, d) in compressed sparse row form, ready for sums over the `size` nearest of them."""

    path = "sparse"

    def __init__(self, rows: "csr_array", size: int, metric: int, kernel: int) -> None:
        self.rows, self.size, self.metric, self.kernel = rows, size, metric, kernel
        power = abs(rows) if metric == MANHATTAN else rows.power(2)
        self.norms = np.asarray(power.sum(axis=1), dtype=np.float64).ravel()
        self.rounding = (int(np.diff(rows.indptr).max(initial=0)) + 8) * 2.0**-51

    def summarise(self, queries: "csr_array", asked: Summaries) -> None:
        """What is `asked` about the nearest rows of each query (m, d)."""
        rows = self.rows
        _summarise(
            queries.indptr, queries.indices, queries.data, rows.indptr, rows.indices, rows.data, rows.shape[1],
            self.norms, self.rounding, self.size, self.metric, self.kernel, asked,
        )  # fmt: skip


@compiled
def _distance(
    indptr: Any, indices: Any, data: Any, i: int, q_indptr: Any, q_indices: Any, q_data: Any, m: int, metric: int
) -> float:
    """Exact in float64, over the entries stored in either row; squared unless Manhattan."""
    at, end = indptr[i], indptr[i + 1]
    q_at, q_end = q_indptr[m], q_indptr[m + 1]
    total = 0.0
    while at < end or q_at < q_end:
        gap = 0.0
        column = min(indices[at] if at < end else q_indices[q_at], q_indices[q_at] if q_at < q_end else indices[at])
        if at < end and indices[at] == column:
            gap += data[at]
            at += 1
        if q_at < q_end and q_indices[q_at] == column:
            gap -= q_data[q_at]
            q_at += 1
        total += abs(gap) if metric == MANHATTAN else gap * gap
    return total


@compiled
def _scores(indptr: Any, indices: Any, data: Any, norms: Any, metric: int, table: Any, scores: Any) -> None:
    """Scores (n, 8) of every row against the eight queries in the columns of `table` (d, 8)."""
    for i in range(norms.size):
        s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
        for at in range(indptr[i], indptr[i + 1]):
            x, j = data[at], indices[at]
            q0, q1, q2, q3 = table[j, 0], table[j, 1], table[j, 2], table[j, 3]
            q4, q5, q6, q7 = table[j, 4], table[j, 5], table[j, 6], table[j, 7]
            if metric == MANHATTAN:
                s0 += abs(x - q0) - abs(x) - abs(q0)
                s1 += abs(x - q1) - abs(x) - abs(q1)
                s2 += abs(x - q2) - abs(x) - abs(q2)
                s3 += abs(x - q3) - abs(x) - abs(q3)
                s4 += abs(x - q4) - abs(x) - abs(q4)
                s5 += abs(x - q5) - abs(x) - abs(q5)
                s6 += abs(x - q6) - abs(x) - abs(q6)
                s7 += abs(x - q7) - abs(x) - abs(q7)
            else:
                x *= -2.0
                s0 += x * q0
                s1 += x * q1
                s2 += x * q2
                s3 += x * q3
                s4 += x * q4
                s5 += x * q5
                s6 += x * q6
                s7 += x * q7
        scores[i, 0], scores[i, 1], scores[i, 2], scores[i, 3] = s0, s1, s2, s3
        scores[i, 4], scores[i, 5], scores[i, 6], scores[i, 7] = s4, s5, s6, s7
        for lane in range(LANES):
            scores[i, lane] += norms[i]


@compiled
def _slack(score: float, norm: float, rounding: float, metric: int) -> float:
    """How far a score may be from the exact one; `norm` is that of the query, squared unless Manhattan."""
    if metric == MANHATTAN:
        return rounding * 3.0 * (2.0 * norm + max(score + norm, 0.0))
    length = math.sqrt(norm)
    reach = length + math.sqrt(max(score + norm, 0.0))
    return rounding * reach * (reach + 2.0 * length)


@compiled_for(
    f"i4[1] i4[1] f8[1] i4[1] i4[1] f8[1] i8 f8[1] f8 i8 i8 i8 {SUMMARIES}",
    f"i8[1] i8[1] f8[1] i8[1] i8[1] f8[1] i8 f8[1] f8 i8 i8 i8 {SUMMARIES}",
)
def _summarise(
    q_indptr: Any, q_indices: Any, q_data: Any, indptr: Any, indices: Any, data: Any, d: int,
    norms: Any, rounding: float, size: int, metric: int, kernel: int, asked: Summaries,
) -> None:  # fmt: skip
    n = norms.size
    size = reach(size, n, asked)
    room, measured = room_for(size, asked), must_measure(kernel, asked)
    table, scores = np.zeros((d, LANES)), np.empty((n, LANES))
    column, rows = np.empty(n), np.empty(n, np.int64)
    gaps, band = np.empty(n), np.empty(n, np.int64)
    chosen = np.empty(size, np.int64)
    for start in range(0, q_indptr.size - 1, LANES):
        stop = min(start + LANES, q_indptr.size - 1)
        for m in range(start, stop):
            for at in range(q_indptr[m], q_indptr[m + 1]):
                table[q_indices[at], m - start] = q_data[at]
        _scores(indptr, indices, data, norms, metric, table, scores)
        for m in range(start, stop):
            norm = 0.0
            for at in range(q_indptr[m], q_indptr[m + 1]):
                table[q_indices[at], m - start] = 0.0
                norm += abs(q_data[at]) if metric == MANHATTAN else q_data[at] * q_data[at]
            for i in range(n):
                column[i], rows[i] = scores[i, m - start], i
            settle(column, rows, n, size, chosen, 0)
            boundary = column[size - 1]
            slack = 2.0 * _slack(boundary, norm, rounding, metric)
            sure = unsure = 0
            for i in range(n):
                if column[i] < boundary - slack:
                    chosen[sure] = rows[i]
                    sure += 1
                elif column[i] <= boundary + slack:
                    band[unsure] = rows[i]
                    gaps[unsure] = _distance(indptr, indices, data, rows[i], q_indptr, q_indices, q_data, m, metric)
                    unsure += 1
            settle(gaps, band, unsure, size - sure, chosen, sure)
            if measured:
                for i in range(size):
                    room.gaps[i] = _distance(
                        indptr, indices, data, chosen[i], q_indptr, q_indices, q_data, m, metric
                    )  # fmt: skip
            summarise(chosen, m, metric, kernel, asked, room)
