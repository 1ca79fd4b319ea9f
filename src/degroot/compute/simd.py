"""SIMD building blocks of kernels, such as inner products and comparisons, in LLVM's vector types.

numba compiles loops; whether it vectorises them is its own decision, and for short loops and scattered stores it
decides badly. What is stated in vector types the compiler turns into AVX-512, AVX2, SSE or NEON, whichever the machine
has.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir

LANES = 8  # numbers in a vector: one AVX-512 register

double, int32, int64 = ir.DoubleType(), ir.IntType(32), ir.IntType(64)
vector = ir.VectorType(double, LANES)
zero, one = ir.Constant(vector, [0.0] * LANES), ir.Constant(vector, [1.0] * LANES)
pointer = vector.as_pointer()
single = ir.VectorType(ir.FloatType(), LANES)  # half as precise, twice as fast


def data_of(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    """Where the numbers of an array begin."""
    return context.make_array(kind)(context, builder, array).data


def spread_over(builder: Any, value: Any, kind: ir.VectorType = vector) -> Any:
    """The same number in every lane."""
    nothing = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(nothing, value, ir.Constant(int32, 0))
    return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(int32, kind.count), [0] * kind.count))


def simd_reciprocal(builder: Any, x: Any) -> Any:
    """1 / x, and 0 where x is not positive."""
    return builder.select(builder.fcmp_ordered(">", x, zero), builder.fdiv(one, x), zero)


def plus_product(builder: Any, total: Any, x: Any, y: Any) -> Any:
    """total + x * y."""
    return builder.fadd(total, builder.fmul(x, y, flags=("contract",)), flags=("contract",))


def simd_inner_product(builder: Any, x: list[Any], y: list[Any]) -> Any:
    """The sum of products."""
    total = builder.fmul(x[0], y[0])
    for a, b in zip(x[1:], y[1:], strict=True):
        total = plus_product(builder, total, a, b)
    return total


def number(value: int) -> Any:
    """A whole number."""
    return ir.Constant(int64, value)


def loop(builder: Any, start: Any, stop: Any, totals: list[Any], add: Callable[..., list[Any]]) -> list[Any]:
    """Code for the loop ``for n in range(start, stop): totals = add(n, totals)``."""
    before = builder.block
    loop, done = builder.append_basic_block("loop"), builder.append_basic_block("done")
    builder.cbranch(builder.icmp_signed("<", start, stop), loop, done)
    builder.position_at_end(loop)
    n = builder.phi(int64)
    n.add_incoming(start, before)
    running = [builder.phi(total.type) for total in totals]
    sums = add(n, running)
    following = builder.add(n, number(1))
    n.add_incoming(following, loop)
    builder.cbranch(builder.icmp_signed("<", following, stop), loop, done)
    builder.position_at_end(done)
    finals = [builder.phi(total.type) for total in totals]
    for total, sum_, current, final in zip(totals, sums, running, finals, strict=True):
        current.add_incoming(total, before)
        current.add_incoming(sum_, loop)
        final.add_incoming(total, before)
        final.add_incoming(sum_, loop)
    return finals
