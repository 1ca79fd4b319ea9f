"""Tiles of 4 x 4 vectors: the steps of an elimination of eight matrices side by side.

Matrices of vectors are flat arrays of float64: entry (j, k) of one with rows of `stride` vectors is the vector at
number ``8 * (j * stride + k)``.
"""

from typing import Any

from degroot.compute.kernel import intrinsic, types
from degroot.compute.simd import (
    data_of,
    loop,
    number,
    plus_product,
    pointer,
    simd_inner_product,
    simd_reciprocal,
    spread_over,
)

TILE = 4  # rows and columns of a tile: 16 sums, which fit the registers


class _Matrix:
    """Code that reads and writes the vectors of a matrix."""

    def __init__(self, context: Any, builder: Any, kind: Any, array: Any, stride: Any) -> None:
        self.builder, self.stride = builder, stride
        self.start = builder.bitcast(data_of(context, builder, kind, array), pointer)

    def _place(self, row: Any, column: Any) -> Any:
        return self.builder.gep(self.start, [self.builder.add(self.builder.mul(row, self.stride), column)])

    def __getitem__(self, place: tuple[Any, Any]) -> Any:
        return self.builder.load(self._place(*place), align=8)

    def __setitem__(self, place: tuple[Any, Any], value: Any) -> None:
        self.builder.store(value, self._place(*place), align=8)


def _four(builder: Any, first: Any) -> list[Any]:
    return [builder.add(first, number(n)) for n in range(TILE)]


def _tile(masked: bool, times_block: bool) -> Any:
    """The tile function below that looks at `keep`, or not, and ends with a product, or not."""

    @intrinsic
    def tile(
        _context: Any, flow: Any, stride: Any, row: Any, column: Any, start: Any, trust: Any, n: Any, keep: Any
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            flow_, stride, row, column, start, trust_, n, keep_ = arguments
            flow = _Matrix(context, builder, signature.args[0], flow_, stride)
            keep = _Matrix(context, builder, signature.args[7], keep_, number(1))
            trust = data_of(context, builder, signature.args[5], trust_)
            rows, columns = _four(builder, row), _four(builder, column)

            def entry(j: Any, k: Any) -> Any:
                value = spread_over(builder, builder.load(builder.gep(trust, [builder.add(builder.mul(j, n), k)])))
                if not masked:
                    return value
                return builder.fmul(value, builder.fmul(keep[j, number(0)], keep[k, number(0)]))

            def add(e: Any, totals: list[Any]) -> list[Any]:
                left, right = [flow[j, e] for j in rows], [flow[e, k] for k in columns]
                pairs = [(x, y) for x in left for y in right]
                return [plus_product(builder, total, x, y) for total, (x, y) in zip(totals, pairs, strict=True)]

            sums = loop(builder, start, n, [entry(j, k) for j in rows for k in columns], add)
            result = [sums[TILE * a : TILE * (a + 1)] for a in range(TILE)]
            if times_block:
                block = [[flow[j, k] for j in columns] for k in columns]
                result = [[simd_inner_product(builder, line, across) for across in block] for line in result]
            for j, line in zip(rows, result, strict=True):
                for k, value in zip(columns, line, strict=True):
                    flow[j, k] = value
            return context.get_dummy_value()

        index = types.intp
        return types.none(flow, index, index, index, index, trust, index, keep), generate

    return tile


tile = _tile(masked=False, times_block=False)
"""``tile(flow, stride, row, column, start, trust, n, keep)``

For the 4 x 4 entries (j, k) from (`row`, `column`) on: ``flow[j, k] = trust[j, k] + sum(flow[j, e] * flow[e, k])``,
e from `start` to n. `flow` is a matrix of vectors, `trust` a flat n x n matrix of numbers, each of which stands for
eight; `keep` is not looked at."""

masked_tile = _tile(masked=True, times_block=False)
"""As `tile`, with ``keep[j] * keep[k] * trust[j, k]`` for the trust; `keep` holds n vectors."""

tile_times_block = _tile(masked=False, times_block=True)
"""As `tile`, then multiplied by the 4 x 4 vectors of `flow` from (`column`, `column`) on."""

masked_tile_times_block = _tile(masked=True, times_block=True)
"""As `masked_tile`, then multiplied by the 4 x 4 vectors of `flow` from (`column`, `column`) on."""


@intrinsic
def visits(_context: Any, flow: Any, _stride: Any, _first: Any, leaving: Any) -> Any:
    r"""``visits(flow, stride, first, leaving)``: replace the flows among four states by the time spent in each.

    The states from `first` on pass :math:`f_{jk}` to each other and :math:`l_j` to the outside. Entry (j, k) becomes
    the time spent in k by what enters at j, :math:`(\mathrm{diag}(l_j + \sum_{k \ne j} f_{jk}) - F)^{-1}`, found
    without a subtraction, so that every entry is right to the last digits. States without flows spend no time.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        flow_, stride, first, leaving_ = arguments
        flow = _Matrix(context, builder, signature.args[0], flow_, stride)
        leave = _Matrix(context, builder, signature.args[3], leaving_, number(1))
        states = _four(builder, first)
        f = [[flow[j, k] for k in states] for j in states]
        out = [leave[number(j), number(0)] for j in range(TILE)]
        stay: list[Any] = [None] * TILE  # time of one stay in k, once the states after k are eliminated
        into: list[Any] = [None] * TILE  # into[k][j] of it for what is at j < k
        for k in reversed(range(TILE)):
            total = out[k]
            for j in range(k):
                total = builder.fadd(total, f[k][j])
            stay[k] = simd_reciprocal(builder, total)
            into[k] = [builder.fmul(f[j][k], stay[k]) for j in range(k)]
            for i in range(k):
                out[i] = plus_product(builder, out[i], into[k][i], out[k])
                for j in range(k):
                    f[i][j] = plus_product(builder, f[i][j], into[k][i], f[k][j])
        time = [[stay[0]]]
        for k in range(1, TILE):
            back = [builder.fmul(f[k][j], stay[k]) for j in range(k)]
            column = [simd_inner_product(builder, line, into[k]) for line in time]
            row = [simd_inner_product(builder, back, [time[i][j] for i in range(k)]) for j in range(k)]
            corner = builder.fadd(stay[k], simd_inner_product(builder, back, column))
            time = [[*line, end] for line, end in zip(time, column, strict=True)] + [[*row, corner]]
        for j, line in zip(states, time, strict=True):
            for k, value in zip(states, line, strict=True):
                flow[j, k] = value
        return context.get_dummy_value()

    return types.none(flow, types.intp, types.intp, leaving), generate
