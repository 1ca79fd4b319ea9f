"""Exact distances, in float64, from a query to some of the rows: four rows at a time, in a fixed order of sums."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir

from degroot.compute.kernel import compiled, intrinsic, types
from degroot.compute.simd import LANES, data_of, double, int32, int64, loop, number, spread_over, vector, zero
from degroot.compute.tables import is_sparse
from degroot.neighbourhoods.codes import MANHATTAN
from degroot.neighbourhoods.simd_distances import CACHE, fetch


def directions(rows: Any) -> Any:
    """Unit rows, with one more feature that only rows of zeros have: it puts them at a right angle to all others."""
    if is_sparse(rows):
        from scipy.sparse import csr_array, hstack

        lengths = np.sqrt(np.asarray(rows.power(2).sum(axis=1))).ravel()
        empty = csr_array((lengths == 0.0).astype(np.float64)[:, None])
        units = rows.multiply(1.0 / np.where(lengths == 0.0, 1.0, lengths)[:, None])
        return csr_array(hstack([units, empty], format="csr"))
    rows = rows.astype(np.float64)
    scale = np.abs(rows).max(axis=1, initial=0.0, keepdims=True)
    rows /= np.where(scale == 0.0, 1.0, scale)  # squares of tiny or huge rows stay in range
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.hstack([rows / np.where(lengths == 0.0, 1.0, lengths), (lengths == 0.0).astype(np.float64)])


@compiled
def direction_into(rows: Any, row: int, out: Any, place: int) -> None:
    """The direction of one of the rows (n, d), in float64, into ``out[place]``, which has d + 1 features."""
    d = rows.shape[1]
    scale = 0.0
    for j in range(d):
        scale = max(scale, abs(np.float64(rows[row, j])))
    by = 1.0 if scale == 0.0 else scale
    total = 0.0
    for j in range(d):
        out[place, j] = rows[row, j] / by
        total += out[place, j] * out[place, j]
    length = 1.0 if total == 0.0 else math.sqrt(total)
    for j in range(d):
        out[place, j] /= length
    out[place, d] = 1.0 if scale == 0.0 else 0.0


AT_ONCE = 4  # rows measured together
CHUNK = 64  # rows whose directions are taken at once
AHEAD = 8  # rows between the one that is measured and the one that is fetched

_four = ir.VectorType(double, AT_ONCE)


def _square(builder: Any, gap: Any) -> Any:
    return builder.fmul(gap, gap)


def _absolute(builder: Any, gap: Any) -> Any:
    """Without the sign bit."""
    bits = ir.VectorType(int64, gap.type.count)
    size = builder.and_(builder.bitcast(gap, bits), ir.Constant(bits, [2**63 - 1] * gap.type.count))
    return builder.bitcast(size, gap.type)


def _widened(builder: Any, x: Any, kind: Any) -> Any:
    """Numbers that may be float32 as float64."""
    return x if x.type == kind else builder.fpext(x, kind)


def _halved(builder: Any, x: Any, y: Any) -> Any:
    """The sums of neighbouring lanes of x, then of y."""
    n = x.type.count
    even, odd = (ir.Constant(ir.VectorType(int32, n), [2 * lane + k for lane in range(n)]) for k in (0, 1))
    return builder.fadd(builder.shuffle_vector(x, y, even), builder.shuffle_vector(x, y, odd))


def _four_rows(part: Callable[..., Any]) -> Any:
    """The function below whose sums are over ``part(row - query)``."""

    @intrinsic
    def four(
        _context: Any, rows: Any, a: Any, b: Any, c: Any, d: Any, queries: Any, query_at: Any, features: Any, out: Any,
        out_at: Any,
    ) -> Any:  # fmt: skip
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            rows, a, b, c, d, queries, query_at, features, out, out_at = arguments
            kinds = signature.args
            start = data_of(context, builder, kinds[0], rows)
            lines = [builder.gep(start, [at]) for at in (a, b, c, d)]
            query = builder.gep(data_of(context, builder, kinds[5], queries), [query_at])
            target = builder.gep(data_of(context, builder, kinds[8], out), [out_at])

            def eight(line: Any, j: Any) -> Any:
                place = builder.gep(line, [j])
                kind = ir.VectorType(place.type.pointee, LANES)
                return _widened(builder, builder.load(builder.bitcast(place, kind.as_pointer()), align=4), vector)

            def add_eight(block: Any, totals: list[Any]) -> list[Any]:
                j = builder.mul(block, number(LANES))
                q = eight(query, j)
                gaps = [builder.fsub(eight(line, j), q) for line in lines]
                return [builder.fadd(total, part(builder, gap)) for total, gap in zip(totals, gaps, strict=True)]

            def add_one(j: Any, totals: list[Any]) -> list[Any]:
                x = ir.Constant(ir.VectorType(start.type.pointee, AT_ONCE), ir.Undefined)
                for k, line in enumerate(lines):
                    x = builder.insert_element(x, builder.load(builder.gep(line, [j])), ir.Constant(int32, k))
                q = _widened(builder, builder.load(builder.gep(query, [j])), double)
                gap = builder.fsub(_widened(builder, x, _four), spread_over(builder, q, _four))
                return [builder.fadd(totals[0], part(builder, gap))]

            blocks = builder.sdiv(features, number(LANES))
            w, x, y, z = loop(builder, number(0), blocks, [zero] * AT_ONCE, add_eight)
            pairs = _halved(builder, _halved(builder, w, x), _halved(builder, y, z))
            whole = _halved(builder, pairs, pairs)  # the four totals, twice
            four = builder.shuffle_vector(whole, whole, ir.Constant(ir.VectorType(int32, AT_ONCE), [0, 1, 2, 3]))
            (total,) = loop(builder, builder.mul(blocks, number(LANES)), features, [four], add_one)
            builder.store(total, builder.bitcast(target, _four.as_pointer()), align=8)
            return context.get_dummy_value()

        at = types.intp
        return types.none(rows, at, at, at, at, queries, at, at, out, at), generate

    return four


_squares = _four_rows(_square)
"""``_squares(rows, a, b, c, d, queries, query_at, features, out, out_at)``

Squared distances of the rows that begin at a, b, c and d from the query at `query_at`, into ``out[out_at:]``. All
places are counted in elements of the flat array. Summed as numpy sums up to 128 numbers, so that rows which are equally
far by ``((x - q) ** 2).sum()`` are so here."""

_absolutes = _four_rows(_absolute)
"""As `_squares`, with sums of absolute differences."""


@compiled
def _measure_rows(rows: Any, chosen: Any, count: int, queries: Any, m: int, metric: int, gaps: Any) -> None:
    d, last = rows.shape[1], count - 1
    far = rows.size * rows.itemsize > CACHE
    line = 64 // rows.itemsize
    for i in range(0, count, AT_ONCE):
        if far:
            for k in range(i + AHEAD, i + AHEAD + AT_ONCE):
                start = chosen[min(k, last)] * d
                for at in range(start, start + d, line):
                    fetch(rows, at)
        a, b = chosen[i] * d, chosen[min(i + 1, last)] * d
        c, e = chosen[min(i + 2, last)] * d, chosen[min(i + 3, last)] * d
        if metric == MANHATTAN:
            _absolutes(rows, a, b, c, e, queries, m * d, d, gaps, i)
        else:
            _squares(rows, a, b, c, e, queries, m * d, d, gaps, i)


@compiled
def _measure_directions(rows: Any, chosen: Any, count: int, queries: Any, m: int, metric: int, gaps: Any) -> None:
    some, every = np.empty((CHUNK, queries.shape[1])), np.arange(CHUNK)
    for first in range(0, count, CHUNK):
        here = min(CHUNK, count - first)
        for i in range(here):
            direction_into(rows, chosen[first + i], some, i)
        _measure_rows(some, every, here, queries, m, metric, gaps[first:])


@compiled
def measure(rows: Any, chosen: Any, count: int, queries: Any, m: int, metric: int, gaps: Any) -> None:
    """The gaps between query m and the first `count` of the `chosen` rows, into `gaps`, which has room for 3 more.

    A gap is the square of the distance between Euclidean rows, which is twice the cosine distance between unit rows,
    and the distance itself for Manhattan. Where queries are directions and rows are not, which have a feature less, the
    directions of the chosen rows are taken first.
    """
    if queries.shape[1] > rows.shape[1]:
        _measure_directions(rows, chosen, count, queries, m, metric, gaps)
    else:
        _measure_rows(rows, chosen, count, queries, m, metric, gaps)
