"""Sixteen rows at a time: the vector instructions behind the search, written once for every processor.

A tile is 16 rows stored feature by feature, (features, 16) float32, so that one load brings one feature of 16 rows.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from degroot.compute.kernel import intrinsic, types
from degroot.compute.simd import data_of, int32, int64, loop, number, plus_product, spread_over

ROWS = 16  # rows in a tile: one AVX-512 register
QUERIES = 4  # queries compared with a tile at once: 64 sums, which fit the registers of AVX2 and NEON too
WORD = 64  # rows whose fate is told by the bits of one number
CACHE = 1 << 19  # bytes: rows that take more are worth a `fetch` before they are needed

_float = ir.FloatType()
_rows = ir.VectorType(_float, ROWS)
_word = ir.VectorType(_float, 64)


def _address(context: Any, builder: Any, kind: Any, array: Any, offset: Any) -> Any:
    return builder.gep(data_of(context, builder, kind, array), [offset])


def _load(builder: Any, place: Any, kind: ir.VectorType) -> Any:
    return builder.load(builder.bitcast(place, kind.as_pointer()), align=4)


def _below_as_bits(builder: Any, values: Any, threshold: Any) -> Any:
    mask = builder.fcmp_ordered("<=", values, spread_over(builder, threshold, values.type))
    return builder.zext(builder.bitcast(mask, ir.IntType(values.type.count)), int64)


def _plus_difference(builder: Any, total: Any, rows: Any, query: Any) -> Any:
    """total + abs(rows - query): without the sign bit."""
    bits = ir.VectorType(int32, ROWS)
    gap = builder.bitcast(builder.fsub(rows, query), bits)
    size = builder.bitcast(builder.and_(gap, ir.Constant(bits, [0x7FFFFFFF] * ROWS)), _rows)
    return builder.fadd(total, size)


def _tile(plus: Callable[..., Any]) -> Any:
    """The tile function whose inner step is ``total = plus(total, feature of 16 rows, feature of one query)``."""

    @intrinsic
    def tile(
        _context: Any,
        rows: Any,
        _row_at: Any,
        queries: Any,
        _query_at: Any,
        _features: Any,
        thresholds: Any,
        _threshold_at: Any,
        out: Any,
        _out_at: Any,
        _stride: Any,
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            rows, row_at, queries, query_at, features, thresholds, threshold_at, out, out_at, stride = arguments
            kinds = signature.args
            row = _address(context, builder, kinds[0], rows, row_at)
            query = _address(context, builder, kinds[2], queries, query_at)
            limit = _address(context, builder, kinds[5], thresholds, threshold_at)
            target = _address(context, builder, kinds[7], out, out_at)

            def add(j: Any, totals: list[Any]) -> list[Any]:
                x = _load(builder, builder.gep(row, [builder.mul(j, number(ROWS))]), _rows)
                places = [builder.add(j, builder.mul(features, number(k))) for k in range(QUERIES)]
                q = [spread_over(builder, builder.load(builder.gep(query, [place])), _rows) for place in places]
                return [plus(builder, total, x, q[k]) for k, total in enumerate(totals)]

            nothing = ir.Constant(_rows, [0.0] * ROWS)
            bits = number(0)
            for k, score in enumerate(loop(builder, number(0), features, [nothing] * QUERIES, add)):
                place = builder.gep(target, [builder.mul(stride, number(k))])
                builder.store(score, builder.bitcast(place, _rows.as_pointer()), align=4)
                found = _below_as_bits(builder, score, builder.load(builder.gep(limit, [number(k)])))
                bits = builder.or_(bits, builder.shl(found, number(ROWS * k)))
            return bits

        at = types.intp
        return types.uint64(rows, at, queries, at, at, thresholds, at, out, at, at), generate

    return tile


product = _tile(plus_product)
"""``product(rows, row_at, queries, query_at, features, thresholds, threshold_at, out, out_at, stride)``

Inner products of the 16 rows of the tile at ``rows[row_at]`` with the 4 queries that begin at ``queries[query_at]``.
Query k's go to ``out[out_at + k * stride]`` and on; bit 16 k + r of the result says that row r is at or below the
threshold of query k. All places are counted in elements of the flat array."""

difference = _tile(_plus_difference)
"""As `product`, with sums of absolute differences."""


@intrinsic
def below(_context: Any, values: Any, _start: Any, _threshold: Any) -> Any:
    """``below(values, start, threshold)``: which of the 64 numbers from ``values[start]`` are at or below, as bits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values, start, threshold = arguments
        word = _load(builder, _address(context, builder, signature.args[0], values, start), _word)
        return _below_as_bits(builder, word, threshold)

    return types.uint64(values, types.intp, types.float32), generate


@intrinsic
def lowest(_context: Any, _bits: Any) -> Any:
    """The place of the lowest bit that is set, 64 if none is."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


@intrinsic
def how_many(_context: Any, _bits: Any) -> Any:
    """How many bits are set."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), generate


@intrinsic
def fetch(_context: Any, values: Any, _at: Any) -> Any:
    """``fetch(values, at)``: call what is stored around ``values[at]`` into the cache, and do not wait for it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.bitcast(_address(context, builder, signature.args[0], *arguments), ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [place.type, int32, int32, int32])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind)
        to_read, soon, data = (ir.Constant(int32, choice) for choice in (0, 3, 1))
        builder.call(prefetch, [place, to_read, soon, data])
        return context.get_dummy_value()

    return types.none(values, types.intp), generate
