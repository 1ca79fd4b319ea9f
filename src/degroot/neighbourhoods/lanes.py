"""Sixteen rows at a time: the vector instructions behind the search, written once for every processor.

numba compiles loops; whether it vectorises them is its own decision, and for these three it decides badly. So they are
stated in LLVM's vector types, which the compiler turns into AVX-512, AVX2, SSE or NEON, whichever the machine has.

A tile is 16 rows stored feature by feature, (features, 16) float32, so that one load brings one feature of 16 rows.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

ROWS = 16  # rows in a tile: one AVX-512 register
QUERIES = 4  # queries compared with a tile at once: 64 sums, which fit the registers of every processor named above

_float, _int32, _int64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)


def _vector(lanes: int, kind: ir.Type = _float) -> ir.VectorType:
    return ir.VectorType(kind, lanes)


def _integer(value: int) -> ir.Constant:
    return ir.Constant(_int64, value)


def _spread(builder: Any, number: Any, lanes: int) -> Any:
    """`number` in every lane."""
    nothing = ir.Constant(_vector(lanes), ir.Undefined)
    first = builder.insert_element(nothing, number, ir.Constant(_int32, 0))
    return builder.shuffle_vector(first, nothing, ir.Constant(_vector(lanes, _int32), [0] * lanes))


def _address(context: Any, builder: Any, kind: Any, array: Any, offset: Any) -> Any:
    return builder.gep(context.make_array(kind)(context, builder, array).data, [offset])


def _load(builder: Any, pointer: Any, lanes: int) -> Any:
    return builder.load(builder.bitcast(pointer, _vector(lanes).as_pointer()), align=4)


def _below_as_bits(builder: Any, values: Any, threshold: Any, lanes: int) -> Any:
    mask = builder.fcmp_ordered("<=", values, _spread(builder, threshold, lanes))
    return builder.zext(builder.bitcast(mask, ir.IntType(lanes)), _int64)


def _add_product(builder: Any, total: Any, rows: Any, query: Any) -> Any:
    return builder.fadd(total, builder.fmul(rows, query, flags=("contract",)), flags=("contract",))


def _add_difference(builder: Any, total: Any, rows: Any, query: Any) -> Any:
    bits, without_sign = _vector(ROWS, _int32), [0x7FFFFFFF] * ROWS
    gap = builder.bitcast(builder.fsub(rows, query), bits)
    return builder.fadd(total, builder.bitcast(builder.and_(gap, ir.Constant(bits, without_sign)), _vector(ROWS)))


def _tile(add: Callable[..., Any]) -> Any:
    """The tile function whose inner step is ``total = add(total, feature of 16 rows, feature of one query)``."""

    @intrinsic  # type: ignore[untyped-decorator]
    def tile(
        _context: Any,
        rows: Any,
        row_at: Any,
        queries: Any,
        query_at: Any,
        features: Any,
        thresholds: Any,
        threshold_at: Any,
        out: Any,
        out_at: Any,
        stride: Any,
    ) -> Any:
        index = types.intp
        signature = types.uint64(rows, index, queries, index, index, thresholds, index, out, index, index)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            rows, row_at, queries, query_at, features, thresholds, threshold_at, out, out_at, stride = arguments
            kinds = signature.args
            row = _address(context, builder, kinds[0], rows, row_at)
            query = _address(context, builder, kinds[2], queries, query_at)
            limit = _address(context, builder, kinds[5], thresholds, threshold_at)
            target = _address(context, builder, kinds[7], out, out_at)

            before = builder.block
            loop, done = builder.append_basic_block("features"), builder.append_basic_block("done")
            builder.branch(loop)
            builder.position_at_end(loop)
            j = builder.phi(_int64)
            j.add_incoming(_integer(0), before)
            totals = [builder.phi(_vector(ROWS)) for _ in range(QUERIES)]
            x = _load(builder, builder.gep(row, [builder.mul(j, _integer(ROWS))]), ROWS)
            sums = []
            for k, total in enumerate(totals):
                total.add_incoming(ir.Constant(_vector(ROWS), [0.0] * ROWS), before)
                q = builder.load(builder.gep(query, [builder.add(j, builder.mul(features, _integer(k)))]))
                sums.append(add(builder, total, x, _spread(builder, q, ROWS)))
                total.add_incoming(sums[k], loop)
            following = builder.add(j, _integer(1))
            j.add_incoming(following, loop)
            builder.cbranch(builder.icmp_signed("<", following, features), loop, done)

            builder.position_at_end(done)
            bits = _integer(0)
            for k, total in enumerate(sums):
                place = builder.gep(target, [builder.mul(stride, _integer(k))])
                builder.store(total, builder.bitcast(place, _vector(ROWS).as_pointer()), align=4)
                threshold = builder.load(builder.gep(limit, [_integer(k)]))
                found = _below_as_bits(builder, total, threshold, ROWS)
                bits = builder.or_(bits, builder.shl(found, _integer(ROWS * k)))
            return bits

        return signature, generate

    return tile


product = _tile(_add_product)
"""``product(rows, row_at, queries, query_at, features, thresholds, threshold_at, out, out_at, stride)``

Inner products of the 16 rows of the tile at ``rows[row_at]`` with the 4 queries that begin at ``queries[query_at]``.
Query k's go to ``out[out_at + k * stride]`` and on; bit 16 k + r of the result says that row r is at or below the
threshold of query k. All places are counted in elements of the flat array."""

difference = _tile(_add_difference)
"""As `product`, with sums of absolute differences."""


@intrinsic  # type: ignore[untyped-decorator]
def below(_context: Any, values: Any, _start: Any, _threshold: Any) -> Any:
    """``below(values, start, threshold)``: which of the 64 numbers from ``values[start]`` are at or below, as bits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values, start, threshold = arguments
        row = _load(builder, _address(context, builder, signature.args[0], values, start), 64)
        return _below_as_bits(builder, row, threshold, 64)

    return types.uint64(values, types.intp, types.float32), generate


@intrinsic  # type: ignore[untyped-decorator]
def lowest(_context: Any, _bits: Any) -> Any:
    """The place of the lowest bit that is set, 64 if none is."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


@intrinsic  # type: ignore[untyped-decorator]
def how_many(_context: Any, _bits: Any) -> Any:
    """How many bits are set."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), generate
