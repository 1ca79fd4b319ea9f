r"""Projection bounds: the distance in a few directions is never greater than the distance, and quicker to compute.

With the rows of B orthonormal :math:`|B(x - q)| \le |x - q|`. B are the directions in which the rows differ most, by
their principal components. Only rows that are near in these are looked at in all features.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from degroot.compute.compiled import Array
from degroot.compute.kernel import compiled, intrinsic, types
from degroot.compute.simd import data_of, int32, loop, number, plus_product
from degroot.neighbourhoods.candidates import compact
from degroot.neighbourhoods.simd_distances import QUERIES, ROWS, WORD, how_many, lowest, product
from degroot.neighbourhoods.tiles import add_norms, transposed

SKEW = 1e-5  # how far the directions may be from orthonormal

_float = ir.FloatType()
_sixteen = ir.VectorType(_float, ROWS)


class Screened(NamedTuple):
    """Queries as a screen sees them."""

    ready: NDArray[np.float32]  # (queries, directions + 1)
    lines: NDArray[np.float32]  # (queries, 16 blocks) all their features, for products with single rows
    depths: Array  # (queries,) their squared norms in the directions
    limits: NDArray[np.float32]  # (queries,) no neighbour's score in the directions is above


def _vector_at(builder: Any, start: Any, place: Any) -> Any:
    return builder.bitcast(builder.gep(start, [place]), _sixteen.as_pointer())


@intrinsic
def _unpack_square(_context: Any, tiles: Any, _at: Any, lines: Any, _line_at: Any, _stride: Any) -> Any:
    """``_unpack_square(tiles, at, lines, line_at, stride)``: 16 features of the 16 rows of a tile, row by row again."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, at, _, line_at, stride = arguments
        source = data_of(context, builder, signature.args[0], arguments[0])
        target = data_of(context, builder, signature.args[2], arguments[2])
        columns = [
            builder.load(_vector_at(builder, source, builder.add(at, number(ROWS * k))), align=4) for k in range(ROWS)
        ]
        for r, line in enumerate(transposed(builder, columns)):
            place = builder.add(line_at, builder.mul(stride, number(r)))
            builder.store(line, _vector_at(builder, target, place), align=4)
        return context.get_dummy_value()

    at = types.intp
    return types.none(tiles, at, lines, at, at), generate


@intrinsic
def _product_of_lines(_context: Any, rows: Any, _row_at: Any, _features: Any, queries: Any, _query_at: Any) -> Any:
    """``_product_of_lines(rows, row_at, features, queries, query_at)``: of one row and one query.

    The last block of 16 features of the row overlaps the one before; there the query has zeros.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, row_at, features, _, query_at = arguments
        row = builder.gep(data_of(context, builder, signature.args[0], arguments[0]), [row_at])
        query = builder.gep(data_of(context, builder, signature.args[3], arguments[3]), [query_at])

        def add(total: Any, row_place: Any, query_place: Any) -> Any:
            x, q = (
                builder.load(_vector_at(builder, start, place), align=4)
                for start, place in ((row, row_place), (query, query_place))
            )
            return plus_product(builder, total, x, q)

        def add_block(b: Any, totals: list[Any]) -> list[Any]:
            place = builder.mul(b, number(ROWS))
            return [add(totals[0], place, place)]

        blocks = builder.sdiv(features, number(ROWS))
        (total,) = loop(builder, number(0), blocks, [ir.Constant(_sixteen, [0.0] * ROWS)], add_block)
        total = add(total, builder.sub(features, number(ROWS)), builder.mul(blocks, number(ROWS)))
        half = ROWS // 2
        while half:
            mask = ir.Constant(ir.VectorType(int32, half), list(range(half, 2 * half)))
            first = ir.Constant(ir.VectorType(int32, half), list(range(half)))
            low, high = (builder.shuffle_vector(total, total, part) for part in (first, mask))
            total = builder.fadd(low, high)
            half //= 2
        return builder.extract_element(total, ir.Constant(int32, 0))

    at = types.intp
    return types.float32(rows, at, at, queries, at), generate


@compiled
def lines_of(tiles: Any, n_tiles: int, lines: Any) -> None:
    """The rows of the first tiles row by row, into `lines` (rows, features)."""
    features = tiles.shape[1]
    for tile in range(n_tiles):
        at, line_at = tile * features * ROWS, tile * ROWS * features
        for j in range(0, features - ROWS + 1, ROWS):
            _unpack_square(tiles, at + j * ROWS, lines, line_at + j, features)
        last = features - ROWS
        _unpack_square(tiles, at + last * ROWS, lines, line_at + last, features)


@compiled
def project(tiles: Any, n_tiles: int, basis: Any, out: Any) -> None:
    """The first tiles in the directions of the basis, (tiles, directions + 1, 16), the last the squared norm."""
    count, d = basis.shape
    nobody = np.full(QUERIES, -np.inf, np.float32)
    for tile in range(n_tiles):
        at = tile * (count + 1) * ROWS
        for j in range(0, count, QUERIES):
            product(tiles, tile * tiles.shape[1] * ROWS, basis, j * d, d, nobody, 0, out, at + j * ROWS, ROWS)
        add_norms(out, at, count)
        for r in range(ROWS):
            if tiles[tile, d, r] == np.inf:  # a row that is missing
                out[tile, count, r] = np.inf


@compiled
def prepare_screened(ready: Any, count: int, basis: Any, into: Screened) -> None:
    """The first `count` queries, which are `ready` for products in all features, as a screen sees them."""
    directions, d = basis.shape
    features, whole = ready.shape[1], ready.shape[1] // ROWS * ROWS
    for q in range(count):
        into.depths[q] = 0.0
        for j in range(directions):
            total = 0.0
            for i in range(d):
                total += np.float64(basis[j, i]) * np.float64(ready[q, i])
            into.ready[q, j] = total
            into.depths[q] += 0.25 * total * total  # ready queries are times -2
        into.ready[q, directions] = 1.0
        into.lines[q] = 0.0
        for j in range(whole):
            into.lines[q, j] = ready[q, j]
        for j in range(whole, features):
            into.lines[q, whole + ROWS - features + j] = ready[q, j]


@compiled
def screen_limit(limit: float, length: float, depth: float, rounding: float, directions: int) -> float:
    """The greatest score in the directions of a row whose score in all features is within the limit."""
    if limit == -np.inf:
        return -np.inf
    distance = math.sqrt(max(limit + length * length, 0.0))
    farthest = distance + length  # how long a row can be
    error = math.sqrt(directions) * rounding * (farthest + length)  # of rows and queries in the directions
    slack = error * (2.0 * distance + error) + rounding * farthest * (farthest + 2.0 * length)
    return (1.0 + SKEW) * distance * distance - depth + slack


@compiled
def pass_screen(coarse: Any, n_tiles: int, screened: Screened, group: int, scores: Any, passed: Any) -> int:
    """Which rows of the tiles and queries of a group a screen lets pass, as numbers of pairs; how many.

    Pair 64 t + 16 k + r is of row r of tile t and query k of the group. Mostly there are few in a tile: two are written
    whether there are or not, which is faster than to look.
    """
    features, count = coarse.shape[1], 0
    for tile in range(n_tiles):
        bits = product(
            coarse, tile * features * ROWS, screened.ready, group * features, features, screened.limits, group, scores,
            0, ROWS,
        )  # fmt: skip
        found = how_many(bits)
        for k in range(2):
            passed[count + k] = tile * WORD + lowest(bits)
            bits &= bits - np.uint64(1)
        at = count + 2
        while bits:
            passed[at] = tile * WORD + lowest(bits)
            bits &= bits - np.uint64(1)
            at += 1
        count += found
    return count


@compiled
def look_at(
    passed: Any, count: int, lines: Any, place: int, screened: Screened, group: int, limits: Any, floors: Any,
    lengths: Any, rounding: float, metric: int, size: int, near: Any, places: Any, counts: Any,
) -> None:  # fmt: skip
    """Add the rows of the pairs that passed, the first row at `place`, to the candidates of the queries of a group."""
    features, length = lines.shape[1], screened.lines.shape[1]
    for i in range(count):
        tile, pair = passed[i] // WORD, passed[i] % WORD
        row, q = tile * ROWS + pair % ROWS, group + pair // ROWS
        score = _product_of_lines(lines, row * features, features, screened.lines, q * length)
        near[q, counts[q]] = score
        places[q, counts[q]] = place + row
        counts[q] += score <= limits[q]
        if counts[q] > near.shape[1] - WORD:
            compact(near, places, counts, limits, q, size, floors[q], lengths[q], rounding, metric)
