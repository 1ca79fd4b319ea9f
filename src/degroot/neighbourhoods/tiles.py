"""Tiles: rows as they lie in memory, or in a file, become tiles of sixteen, a few hundred at a time.

Rows of any number stay where they are: what is packed fits a processor's cache, and is forgotten after its use.
"""

from typing import Any

import numpy as np
from llvmlite import ir

from degroot.compute.kernel import compiled, compiled_for, intrinsic, types
from degroot.compute.simd import data_of, int32, loop, number, plus_product, spread_over
from degroot.neighbourhoods.candidates import row_at
from degroot.neighbourhoods.codes import COSINE, MANHATTAN
from degroot.neighbourhoods.distances import direction_into
from degroot.neighbourhoods.simd_distances import ROWS, fetch

AHEAD = 2 * ROWS  # rows between the one that is packed and the one that is fetched

_float = ir.FloatType()
_sixteen = ir.VectorType(_float, ROWS)


def transposed(builder: Any, lines: list[Any]) -> list[Any]:
    """Sixteen vectors of sixteen as the columns of what they are the rows of: four times the perfect shuffle."""
    half = ROWS // 2
    kind = ir.VectorType(int32, ROWS)
    first, second = (
        ir.Constant(kind, [start + k // 2 + ROWS * (k % 2) for k in range(ROWS)]) for start in (0, half)
    )  # of two vectors, their first (second) halves in turn
    for _ in range(4):
        pairs = [(lines[i], lines[i + half]) for i in range(half)]
        lines = [builder.shuffle_vector(x, y, part) for x, y in pairs for part in (first, second)]
    return lines


@intrinsic
def _pack_square(_context: Any, rows: Any, starts: Any, _j: Any, centre: Any, scale: Any, tiles: Any, _at: Any) -> Any:
    """``_pack_square(rows, starts, j, centre, scale, tiles, at)``

    Features j to j + 16 of the 16 rows that begin at ``starts``, less `centre` and times `scale`, in float32, feature
    by feature into ``tiles[at:]``. Both are float64, of no more digits than the rows have. Places are counted in
    elements of the flat arrays.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, _, j, _, scale, _, at = arguments
        row, start, middle, target = (data_of(context, builder, signature.args[k], arguments[k]) for k in (0, 1, 3, 5))
        kind = ir.VectorType(row.type.pointee, ROWS)

        def load(place: Any) -> Any:
            vector = ir.VectorType(place.type.pointee, ROWS)
            return builder.load(builder.bitcast(place, vector.as_pointer()), align=4)

        def narrowed(x: Any) -> Any:
            return x if x.type == kind else builder.fptrunc(x, kind)

        centre_here = narrowed(load(builder.gep(middle, [j])))
        factor = narrowed(spread_over(builder, scale, ir.VectorType(ir.DoubleType(), ROWS)))
        lines = []
        for r in range(ROWS):
            place = builder.add(builder.load(builder.gep(start, [number(r)])), j)
            line = builder.fmul(builder.fsub(load(builder.gep(row, [place])), centre_here), factor)
            lines.append(line if kind == _sixteen else builder.fptrunc(line, _sixteen))
        for k, column in enumerate(transposed(builder, lines)):
            place = builder.gep(target, [builder.add(at, number(ROWS * k))])
            builder.store(column, builder.bitcast(place, _sixteen.as_pointer()), align=4)
        return context.get_dummy_value()

    at = types.intp
    return types.none(rows, starts, at, centre, types.float64, tiles, at), generate


@intrinsic
def add_norms(_context: Any, tiles: Any, _at: Any, _features: Any) -> Any:
    """``add_norms(tiles, at, features)``: the squared norms of 16 rows after the features of their tile."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        tiles, at, features = arguments
        start = builder.gep(data_of(context, builder, signature.args[0], tiles), [at])

        def place(j: Any) -> Any:
            return builder.bitcast(builder.gep(start, [builder.mul(j, number(ROWS))]), _sixteen.as_pointer())

        def add(j: Any, totals: list[Any]) -> list[Any]:
            x = builder.load(place(j), align=4)
            return [plus_product(builder, totals[0], x, x)]

        nothing = ir.Constant(_sixteen, [0.0] * ROWS)
        (norms,) = loop(builder, number(0), features, [nothing], add)
        builder.store(norms, place(features), align=4)
        return context.get_dummy_value()

    return types.none(tiles, types.intp, types.intp), generate


@compiled
def _pack_tile(
    rows: Any, starts: Any, features: int, centre: Any, scale: float, norms: bool, tiles: Any, at: int
) -> None:
    """The 16 rows that begin at `starts` into the tile at ``tiles[at]`` of the flat array."""
    flat = rows.reshape(rows.size)
    for j in range(0, features - ROWS + 1, ROWS):
        _pack_square(rows, starts, j, centre, scale, tiles, at + j * ROWS)
    if features >= ROWS:
        last = features - ROWS  # the last sixteen, some of them once more
        _pack_square(rows, starts, last, centre, scale, tiles, at + last * ROWS)
    else:
        into = tiles.reshape(tiles.size)
        for r in range(ROWS):
            for j in range(features):
                into[at + j * ROWS + r] = (flat[starts[r] + j] - centre[j]) * scale
    if norms:
        add_norms(tiles, at, features)


@compiled
def _fetch_row(rows: Any, row: int) -> None:
    start, line = row * rows.shape[1], 64 // rows.itemsize
    for at in range(start, start + rows.shape[1], line):
        fetch(rows, at)


@compiled_for("f4[2] i4[1] i8 i8 f8[1] f8 i8 f4[3]", "f8[2] i4[1] i8 i8 f8[1] f8 i8 f4[3]")
def pack(rows: Any, order: Any, first: int, last: int, centre: Any, scale: float, metric: int, tiles: Any) -> int:
    """The rows at places first..last as tiles (tiles, features + 1, 16), the last feature the squared norm.

    Whole words of 64 rows, of which missing ones are infinitely far: how many tiles that is.
    """
    features, d = tiles.shape[1] - 1, rows.shape[1]
    starts, units = np.empty(ROWS, np.intp), np.empty((ROWS if metric == COSINE else 0, features))
    n_tiles = 4 * ((last - first + 4 * ROWS - 1) // (4 * ROWS))
    for tile in range(n_tiles):
        at = tile * (features + 1) * ROWS
        for r in range(ROWS):
            place = first + tile * ROWS + r
            row = row_at(order, min(place, last - 1))
            if metric == COSINE:
                direction_into(rows, row, units, r)
                starts[r] = r * features
            else:
                starts[r] = row * d
            _fetch_row(rows, row_at(order, min(place + AHEAD, last - 1)))
        if metric == COSINE:
            _pack_tile(units, starts, features, centre, scale, True, tiles, at)
        else:
            _pack_tile(rows, starts, features, centre, scale, metric != MANHATTAN, tiles, at)
            if metric == MANHATTAN:
                tiles[tile, features] = 0.0
        for r in range(max(0, min(ROWS, last - first - tile * ROWS)), ROWS):
            tiles[tile, features, r] = np.inf
    return n_tiles
