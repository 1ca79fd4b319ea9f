r"""Second moments of residuals: :math:`\sum_n k_n \sum_q r_{nqj} r_{nql} / \sum_n k_n` for every two models j, l.

Products are summed in tiles of 4 models by 8 (by 4 on the diagonal), as many sums as fit the registers, straight from
the rows of residuals. A tile may reach beyond the last model of a row: what it sums there is never looked at.
"""

from typing import Any

import numpy as np
from llvmlite import ir

from degroot.compute.kernel import compiled, intrinsic, types
from degroot.compute.simd import LANES, data_of, double, loop, number, plus_product, pointer, spread_over
from degroot.neighbourhoods.simd_distances import CACHE, fetch

TILE = 4  # models on one side of a tile
CHUNK = 64  # rows that stay in the cache while the tiles pass over them
EDGE = 8  # the last rows, after which there must be room for a tile to reach


def _tile(lanes: int, at_once: int) -> Any:
    """The tile function below for 4 models by `lanes`, with `at_once` rows in one step."""
    vector = ir.VectorType(double, lanes)
    nothing = ir.Constant(vector, [0.0] * lanes)

    @intrinsic
    def tile(
        _context: Any, rows: Any, weights: Any, _first: Any, _count: Any, _j: Any, _k: Any, out: Any, _out_at: Any,
        _stride: Any, _anew: Any,
    ) -> Any:  # fmt: skip
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            rows, weights, first, count, j, k, out, out_at, stride, anew = arguments
            row = builder.gep(data_of(context, builder, signature.args[0], rows), [first])
            weight = builder.gep(data_of(context, builder, signature.args[1], weights), [first])
            start = builder.gep(data_of(context, builder, signature.args[6], out), [out_at])
            places = [builder.gep(start, [builder.mul(stride, number(a))]) for a in range(TILE)]
            places = [builder.bitcast(place, vector.as_pointer()) for place in places]

            def add(step: Any, totals: list[Any]) -> list[Any]:
                sums = []
                for r in range(at_once):
                    i = builder.add(builder.mul(step, number(at_once)), number(r))
                    models = builder.inttoptr(builder.load(builder.gep(row, [i])), double.as_pointer())
                    x = builder.load(builder.bitcast(builder.gep(models, [k]), vector.as_pointer()), align=8)
                    x = builder.fmul(x, spread_over(builder, builder.load(builder.gep(weight, [i])), vector))
                    for a in range(TILE):
                        y = builder.load(builder.gep(models, [builder.add(j, number(a))]))
                        sums.append(plus_product(builder, totals[TILE * r + a], x, spread_over(builder, y, vector)))
                return sums

            before = [builder.select(anew, nothing, builder.load(place, align=8)) for place in places]
            steps = builder.sdiv(builder.add(count, number(at_once - 1)), number(at_once))
            sums = loop(builder, number(0), steps, before + [nothing] * (TILE * (at_once - 1)), add)
            for a, place in enumerate(places):
                total = sums[a]
                for r in range(1, at_once):
                    total = builder.fadd(total, sums[TILE * r + a])
                builder.store(total, place, align=8)
            return context.get_dummy_value()

        at = types.intp
        return types.none(rows, weights, at, at, at, at, out, at, at, types.boolean), generate

    return tile


_wide = _tile(LANES, at_once=1)
"""``_wide(rows, weights, first, count, j, k, out, out_at, stride, anew)``

Add weight * model a * model b, for the 4 models a from j and the 8 models b from k, over `count` rows of residuals from
number `first`, to ``out[out_at + (a - j) * stride + (b - k)]``; `anew`: to 0. Row n is at the address ``rows[n]``."""

_narrow = _tile(TILE, at_once=2)
"""As `_wide`, for 4 by 4 models. Rows are taken in pairs: a missing last one must have an address, and weight 0."""


@intrinsic
def _scaled(_context: Any, values: Any, _at: Any, factor: Any, out: Any, _out_at: Any) -> Any:
    """``_scaled(values, at, factor, out, out_at)``: eight numbers times `factor`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values, at, factor, out, out_at = arguments
        source = builder.gep(data_of(context, builder, signature.args[0], values), [at])
        target = builder.gep(data_of(context, builder, signature.args[3], out), [out_at])
        eight = builder.load(builder.bitcast(source, pointer), align=8)
        scaled = builder.fmul(eight, spread_over(builder, factor))
        builder.store(scaled, builder.bitcast(target, pointer), align=8)
        return context.get_dummy_value()

    return types.none(values, types.intp, types.float64, out, types.intp), generate


@compiled
def edge_of(residuals: Any) -> Any:
    """The last rows of `residuals` (n, columns), with room after them."""
    n, columns = residuals.shape
    edge = np.zeros(EDGE * columns + LANES)
    at = 0
    for i in range(max(0, n - EDGE), n):
        for k in range(columns):
            edge[at] = residuals[i, k]
            at += 1
    return edge


@compiled
def addresses(residuals: Any, edge: Any, chosen: Any, count: int, out: Any) -> None:
    """Where the residuals of the chosen rows are."""
    n, columns = residuals.shape
    bytes_each, safe = columns * residuals.itemsize, max(0, n - EDGE)
    start, after = residuals.ctypes.data, edge.ctypes.data - safe * bytes_each
    far = n * bytes_each > CACHE
    for i in range(count):
        out[i] = (start if chosen[i] < safe else after) + chosen[i] * bytes_each
        if far:
            for at in range(chosen[i] * columns, (chosen[i] + 1) * columns, LANES):
                fetch(residuals, at)
    out[count] = out[count - 1]


@compiled
def second_moments(
    rows: Any, weights: Any, count: int, outputs: int, models: int, factor: float, sums: Any, out: Any, m: int,
    place: int,
) -> None:  # fmt: skip
    """The moments times `factor` into ``out[m, place]``, packed: model j with l <= j at j (j + 1) / 2 + l.

    `rows` are the addresses of `count` rows of residuals (outputs, models), one more at the end; `sums` is scratch.
    """
    stride = (models + LANES - 1) // LANES * LANES
    weights[count] = 0.0
    for first in range(0, count, CHUNK):
        n = min(CHUNK, count - first)
        for q in range(outputs):
            anew, at = first + q == 0, q * models
            for j in range(0, models, TILE):
                for k in range(0, j, LANES):
                    _wide(rows, weights, first, n, at + j, at + k, sums, j * stride + k, stride, anew)
                if j % LANES == 0:
                    _narrow(rows, weights, first, n, at + j, at + j, sums, j * stride + j, stride, anew)
    _pack(sums, stride, models, factor, out, m, place)


@compiled
def _pack(sums: Any, stride: int, models: int, factor: float, out: Any, m: int, place: int) -> None:
    """The lower triangle of `sums` times `factor`. Eight are written at once; the next row overwrites the excess."""
    length = models * (models + 1) // 2
    start, at = (m * out.shape[1] + place) * length, 0
    for j in range(models):
        for k in range(0, j + 1, LANES):
            if at + k + LANES <= length:
                _scaled(sums, j * stride + k, factor, out, start + at + k)
            else:
                for last in range(k, j + 1):
                    out[m, place, at + last] = factor * sums[j * stride + last]
        at += j + 1
