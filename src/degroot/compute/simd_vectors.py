"""Eight numbers at a time: the vector instructions behind the jackknife, written once for every processor.

Here a vector is a type of its own: compiled functions may `load`, `store`, add and multiply eight numbers as if they
were one.
"""

import operator
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir

from degroot.compute.compiled import Array
from degroot.compute.kernel import compiled, intrinsic, types
from degroot.compute.simd import (
    LANES,
    data_of,
    loop,
    number,
    plus_product,
    pointer,
    simd_reciprocal,
    single,
    spread_over,
    vector,
)

OPERATORS = {operator.add: "fadd", operator.sub: "fsub", operator.mul: "fmul", operator.truediv: "fdiv"}


@cache
def _eight() -> Any:
    """The type of a vector in kernels, which lives in a register, and its operators."""
    from numba.extending import intrinsic as numba_intrinsic
    from numba.extending import models, overload, register_model

    class Eight(types.Type):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(name="Eight")

    @register_model(Eight)
    class _Model(models.PrimitiveModel):  # type: ignore[misc]
        def __init__(self, manager: Any, kind: Any) -> None:
            super().__init__(manager, kind, vector)

    eight = Eight()

    def add_operator(sign: Callable[[Any, Any], Any], instruction: str) -> None:
        @numba_intrinsic  # type: ignore[untyped-decorator]
        def apply(_context: Any, _x: Any, _y: Any) -> Any:
            def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
                return getattr(builder, instruction)(*arguments, flags=("contract",))

            return eight(eight, eight), generate

        @overload(sign)  # type: ignore[untyped-decorator]
        def choose(x: Any, y: Any) -> Any:
            def both(x: Any, y: Any) -> Any:
                return apply(x, y)

            return both if isinstance(x, Eight) and isinstance(y, Eight) else None

    for sign, instruction in OPERATORS.items():
        add_operator(sign, instruction)
    return eight


@compiled
def vectors(count: int) -> Array:
    """Room for `count` vectors, none of which straddles two cache lines."""
    room = np.empty(LANES * (count + 1))
    start = -(room.ctypes.data // 8) % LANES
    return room[start : start + LANES * count]


@intrinsic
def load(_context: Any, array: Any, _at: Any) -> Any:
    """``load(array, at)``: the eight numbers from ``array[at]`` on."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.gep(data_of(context, builder, signature.args[0], arguments[0]), [arguments[1]])
        return builder.load(builder.bitcast(place, pointer), align=8)

    return _eight()(array, types.intp), generate


@intrinsic
def store(_context: Any, array: Any, _at: Any, _value: Any) -> Any:
    """``store(array, at, value)``: put the eight numbers of `value` at ``array[at]`` and on; float32 rounds them."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.gep(data_of(context, builder, signature.args[0], arguments[0]), [arguments[1]])
        value, kind = arguments[2], vector
        if array.dtype == types.float32:
            value, kind = builder.fptrunc(value, single), single
        builder.store(value, builder.bitcast(place, kind.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.none(array, types.intp, _eight()), generate


@intrinsic
def spread(_context: Any, number: Any) -> Any:
    """``spread(number)``: the same number eight times."""
    return _eight()(types.float64), lambda _context, builder, _signature, arguments: spread_over(builder, arguments[0])


@intrinsic
def reciprocal(_context: Any, _x: Any) -> Any:
    """``reciprocal(x)``: 1 / x, and 0 where x is 0."""
    return _eight()(_eight()), lambda _context, builder, _signature, arguments: simd_reciprocal(builder, arguments[0])


@intrinsic
def largest(_context: Any, _x: Any, _y: Any) -> Any:
    """``largest(x, y)``: the larger of two numbers, eight times; y where they do not compare."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", *arguments), *arguments)

    return _eight()(_eight(), _eight()), generate


def _product(from_zero: bool) -> Any:
    """The product function below that starts from 0, or from what is there."""

    @intrinsic
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
            lanes = single if kinds[0].dtype == types.float32 else vector
            numbers = builder.gep(data_of(context, builder, kinds[0], left), [left_at])
            right_row = builder.gep(data_of(context, builder, kinds[3], right), [right_at])
            start = builder.gep(data_of(context, builder, kinds[7], out), [out_at])
            offsets = [builder.mul(out_stride, number(r)) for r in range(LANES)]
            places = [builder.bitcast(builder.gep(start, [offset]), pointer) for offset in offsets]

            def add(p: Any, totals: list[Any]) -> list[Any]:
                row = builder.gep(numbers, [builder.mul(p, left_stride)])
                y = builder.gep(right_row, [builder.mul(p, right_stride)])
                y = builder.load(builder.bitcast(y, lanes.as_pointer()), align=4)
                x = [spread_over(builder, builder.load(builder.gep(row, [number(r)])), lanes) for r in range(LANES)]
                return [plus_product(builder, total, x[r], y) for r, total in enumerate(totals)]

            nothing = ir.Constant(lanes, [0.0] * LANES)
            totals = [nothing if from_zero else builder.load(place, align=8) for place in places]
            for place, total in zip(places, loop(builder, number(0), count, totals, add), strict=True):
                builder.store(total if lanes is vector else builder.fpext(total, vector), place, align=8)
            return context.get_dummy_value()

        at = types.intp
        return types.none(left, at, at, right, at, at, at, out, at, at), generate

    return product


product = _product(from_zero=True)
"""``product(left, left_at, left_stride, right, right_at, right_stride, count, out, out_at, out_stride)``

Eight vectors ``out[r]``, the sums of ``left[p, r] * right[p]`` over p up to `count`. Rows p of `left` are eight
numbers, those of `right` and `out` one vector; all are flat arrays, with places and strides counted in numbers. Where
`left` and `right` are float32, sums are too."""

add_product = _product(from_zero=False)
"""As `product`, added to what is in `out`."""
