"""Eight numbers at a time: the vector instructions behind the jackknife, written once for every processor.

numba compiles loops; whether it vectorises them is its own decision, and for eight short eliminations side by side it
decides badly. Here a vector is a type of its own: compiled functions may `load`, `store`, add and multiply eight
numbers as if they were one. LLVM turns that into AVX-512, AVX2, SSE or NEON, whichever the machine has.

Matrices of vectors are flat arrays of float64: entry (j, k) of one with rows of `stride` vectors is the vector at
number ``8 * (j * stride + k)``.
"""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, overload, register_model

from degroot.points import Array, compiled

LANES = 8  # numbers in a vector: one AVX-512 register
TILE = 4  # rows and columns of a tile: 16 sums, which fit the registers

_double, _int32, _int64 = ir.DoubleType(), ir.IntType(32), ir.IntType(64)
_vector = ir.VectorType(_double, LANES)
_zero, _one = ir.Constant(_vector, [0.0] * LANES), ir.Constant(_vector, [1.0] * LANES)
_pointer = _vector.as_pointer()


class _Eight(types.Type):  # type: ignore[misc]
    """The type of a vector in compiled functions."""

    def __init__(self) -> None:
        super().__init__(name="Eight")


_eight = _Eight()


@register_model(_Eight)
class _EightModel(models.PrimitiveModel):  # type: ignore[misc]
    """A vector lives in a register."""

    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _vector)


@compiled
def vectors(count: int) -> Array:
    """Room for `count` vectors, none of which straddles two cache lines."""
    room = np.empty(LANES * (count + 1))
    start = -(room.ctypes.data // 8) % LANES
    return room[start : start + LANES * count]


def _data(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    return context.make_array(kind)(context, builder, array).data


def _spread(builder: Any, number: Any) -> Any:
    nothing = ir.Constant(_vector, ir.Undefined)
    first = builder.insert_element(nothing, number, ir.Constant(_int32, 0))
    return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(_int32, LANES), [0] * LANES))


def _reciprocal(builder: Any, x: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", x, _zero), builder.fdiv(_one, x), _zero)


def _add_product(builder: Any, total: Any, x: Any, y: Any) -> Any:
    return builder.fadd(total, builder.fmul(x, y, flags=("contract",)), flags=("contract",))


def _dot(builder: Any, x: list[Any], y: list[Any]) -> Any:
    total = builder.fmul(x[0], y[0])
    for a, b in zip(x[1:], y[1:], strict=True):
        total = _add_product(builder, total, a, b)
    return total


@intrinsic  # type: ignore[untyped-decorator]
def load(_context: Any, array: Any, _at: Any) -> Any:
    """``load(array, at)``: the eight numbers from ``array[at]`` on."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.gep(_data(context, builder, signature.args[0], arguments[0]), [arguments[1]])
        return builder.load(builder.bitcast(place, _pointer), align=8)

    return _eight(array, types.intp), generate


@intrinsic  # type: ignore[untyped-decorator]
def store(_context: Any, array: Any, _at: Any, _value: Any) -> Any:
    """``store(array, at, value)``: put the eight numbers of `value` at ``array[at]`` and on."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.gep(_data(context, builder, signature.args[0], arguments[0]), [arguments[1]])
        builder.store(arguments[2], builder.bitcast(place, _pointer), align=8)
        return context.get_dummy_value()

    return types.none(array, types.intp, _eight), generate


@intrinsic  # type: ignore[untyped-decorator]
def spread(_context: Any, _number: Any) -> Any:
    """``spread(number)``: the same number eight times."""
    return _eight(types.float64), lambda _context, builder, _signature, arguments: _spread(builder, arguments[0])


@intrinsic  # type: ignore[untyped-decorator]
def reciprocal(_context: Any, _x: Any) -> Any:
    """``reciprocal(x)``: 1 / x, and 0 where x is 0."""
    return _eight(_eight), lambda _context, builder, _signature, arguments: _reciprocal(builder, arguments[0])


def _operation(sign: Callable[[Any, Any], Any], instruction: str) -> None:
    """Let compiled functions write ``x + y`` for vectors."""

    @intrinsic  # type: ignore[untyped-decorator]
    def apply(_context: Any, _x: Any, _y: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return getattr(builder, instruction)(*arguments, flags=("contract",))

        return _eight(_eight, _eight), generate

    @overload(sign)  # type: ignore[untyped-decorator]
    def _choose(x: Any, y: Any) -> Any:
        def both(x: Any, y: Any) -> Any:
            return apply(x, y)

        return both if isinstance(x, _Eight) and isinstance(y, _Eight) else None


_operation(operator.add, "fadd")
_operation(operator.sub, "fsub")
_operation(operator.mul, "fmul")
_operation(operator.truediv, "fdiv")


class _Matrix:
    """Code that reads and writes the vectors of a matrix."""

    def __init__(self, context: Any, builder: Any, kind: Any, array: Any, stride: Any) -> None:
        self.builder, self.stride = builder, stride
        self.start = builder.bitcast(_data(context, builder, kind, array), _pointer)

    def _place(self, row: Any, column: Any) -> Any:
        return self.builder.gep(self.start, [self.builder.add(self.builder.mul(row, self.stride), column)])

    def __getitem__(self, place: tuple[Any, Any]) -> Any:
        return self.builder.load(self._place(*place), align=8)

    def __setitem__(self, place: tuple[Any, Any], value: Any) -> None:
        self.builder.store(value, self._place(*place), align=8)


def _number(value: int) -> Any:
    return ir.Constant(_int64, value)


def _four(builder: Any, first: Any) -> list[Any]:
    return [builder.add(first, _number(n)) for n in range(TILE)]


def _sum(builder: Any, start: Any, stop: Any, totals: list[Any], add: Callable[..., list[Any]]) -> list[Any]:
    """Code for the loop ``for n in range(start, stop): totals = add(n, totals)``."""
    before = builder.block
    loop, done = builder.append_basic_block("loop"), builder.append_basic_block("done")
    builder.cbranch(builder.icmp_signed("<", start, stop), loop, done)
    builder.position_at_end(loop)
    n = builder.phi(_int64)
    n.add_incoming(start, before)
    running = [builder.phi(_vector) for _ in totals]
    sums = add(n, running)
    following = builder.add(n, _number(1))
    n.add_incoming(following, loop)
    builder.cbranch(builder.icmp_signed("<", following, stop), loop, done)
    builder.position_at_end(done)
    finals = [builder.phi(_vector) for _ in totals]
    for total, sum_, current, final in zip(totals, sums, running, finals, strict=True):
        current.add_incoming(total, before)
        current.add_incoming(sum_, loop)
        final.add_incoming(total, before)
        final.add_incoming(sum_, loop)
    return finals


def _tile(masked: bool, times_block: bool) -> Any:
    """The tile function below that looks at `keep`, or not, and ends with a product, or not."""

    @intrinsic  # type: ignore[untyped-decorator]
    def tile(
        _context: Any,
        flow: Any,
        stride: Any,
        row: Any,
        column: Any,
        start: Any,
        trust: Any,
        n: Any,
        keep: Any,
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            flow_, stride, row, column, start, trust_, n, keep_ = arguments
            flow = _Matrix(context, builder, signature.args[0], flow_, stride)
            keep = _Matrix(context, builder, signature.args[7], keep_, _number(1))
            trust = _data(context, builder, signature.args[5], trust_)
            rows, columns = _four(builder, row), _four(builder, column)

            def entry(j: Any, k: Any) -> Any:
                number = _spread(builder, builder.load(builder.gep(trust, [builder.add(builder.mul(j, n), k)])))
                if not masked:
                    return number
                return builder.fmul(number, builder.fmul(keep[j, _number(0)], keep[k, _number(0)]))

            def add(e: Any, totals: list[Any]) -> list[Any]:
                left, right = [flow[j, e] for j in rows], [flow[e, k] for k in columns]
                pairs = [(x, y) for x in left for y in right]
                return [_add_product(builder, total, x, y) for total, (x, y) in zip(totals, pairs, strict=True)]

            sums = _sum(builder, start, n, [entry(j, k) for j in rows for k in columns], add)
            result = [sums[TILE * a : TILE * (a + 1)] for a in range(TILE)]
            if times_block:
                block = [[flow[j, k] for j in columns] for k in columns]
                result = [[_dot(builder, line, across) for across in block] for line in result]
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


@intrinsic  # type: ignore[untyped-decorator]
def visits(_context: Any, flow: Any, _stride: Any, _first: Any, leaving: Any) -> Any:
    r"""``visits(flow, stride, first, leaving)``: replace the flows among four states by the time spent in each.

    The states from `first` on pass :math:`f_{jk}` to each other and :math:`l_j` to the outside. Entry (j, k) becomes
    the time spent in k by what enters at j, :math:`(\mathrm{diag}(l_j + \sum_{k \ne j} f_{jk}) - F)^{-1}`, found
    without a subtraction, so that every entry is right to the last digits. States without flows spend no time.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        flow_, stride, first, leaving_ = arguments
        flow = _Matrix(context, builder, signature.args[0], flow_, stride)
        leave = _Matrix(context, builder, signature.args[3], leaving_, _number(1))
        states = _four(builder, first)
        f = [[flow[j, k] for k in states] for j in states]
        out = [leave[_number(j), _number(0)] for j in range(TILE)]
        stay: list[Any] = [None] * TILE  # time of one stay in k, once the states after k are eliminated
        into: list[Any] = [None] * TILE  # into[k][j] of it for what is at j < k
        for k in reversed(range(TILE)):
            total = out[k]
            for j in range(k):
                total = builder.fadd(total, f[k][j])
            stay[k] = _reciprocal(builder, total)
            into[k] = [builder.fmul(f[j][k], stay[k]) for j in range(k)]
            for i in range(k):
                out[i] = _add_product(builder, out[i], into[k][i], out[k])
                for j in range(k):
                    f[i][j] = _add_product(builder, f[i][j], into[k][i], f[k][j])
        time = [[stay[0]]]
        for k in range(1, TILE):
            back = [builder.fmul(f[k][j], stay[k]) for j in range(k)]
            column = [_dot(builder, line, into[k]) for line in time]
            row = [_dot(builder, back, [time[i][j] for i in range(k)]) for j in range(k)]
            corner = builder.fadd(stay[k], _dot(builder, back, column))
            time = [[*line, end] for line, end in zip(time, column, strict=True)] + [[*row, corner]]
        for j, line in zip(states, time, strict=True):
            for k, value in zip(states, line, strict=True):
                flow[j, k] = value
        return context.get_dummy_value()

    return types.none(flow, types.intp, types.intp, leaving), generate


@intrinsic  # type: ignore[untyped-decorator]
def largest(_context: Any, _x: Any, _y: Any) -> Any:
    """``largest(x, y)``: the larger of two numbers, eight times; y where they do not compare."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", *arguments), *arguments)

    return _eight(_eight, _eight), generate


def _product(from_zero: bool) -> Any:
    """The product function below that starts from 0, or from what is there."""

    @intrinsic  # type: ignore[untyped-decorator]
    def product(
        _context: Any,
        left: Any,
        _left_at: Any,
        _left_stride: Any,
        right: Any,
        _right_at: Any,
        _right_stride: Any,
        _count: Any,
        out: Any,
        _out_at: Any,
        _out_stride: Any,
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            left, left_at, left_stride, right, right_at, right_stride, count, out, out_at, out_stride = arguments
            kinds = signature.args
            numbers = builder.gep(_data(context, builder, kinds[0], left), [left_at])
            vector = builder.gep(_data(context, builder, kinds[3], right), [right_at])
            start = builder.gep(_data(context, builder, kinds[7], out), [out_at])
            offsets = [builder.mul(out_stride, _number(r)) for r in range(LANES)]
            places = [builder.bitcast(builder.gep(start, [offset]), _pointer) for offset in offsets]

            def add(p: Any, totals: list[Any]) -> list[Any]:
                row = builder.gep(numbers, [builder.mul(p, left_stride)])
                y = builder.gep(vector, [builder.mul(p, right_stride)])
                y = builder.load(builder.bitcast(y, _pointer), align=8)
                x = [_spread(builder, builder.load(builder.gep(row, [_number(r)]))) for r in range(LANES)]
                return [_add_product(builder, total, x[r], y) for r, total in enumerate(totals)]

            totals = [_zero if from_zero else builder.load(place, align=8) for place in places]
            for place, total in zip(places, _sum(builder, _number(0), count, totals, add), strict=True):
                builder.store(total, place, align=8)
            return context.get_dummy_value()

        at = types.intp
        return types.none(left, at, at, right, at, at, at, out, at, at), generate

    return product


product = _product(from_zero=True)
"""``product(left, left_at, left_stride, right, right_at, right_stride, count, out, out_at, out_stride)``

Eight vectors ``out[r]``, the sums of ``left[p, r] * right[p]`` over p up to `count`. Rows p of `left` are eight
numbers, those of `right` and `out` one vector; all are flat arrays, with places and strides counted in numbers."""

add_product = _product(from_zero=False)
"""As `product`, added to what is in `out`."""
