"""Smoothing kernels: how much each row of a neighbourhood counts, by its distance over the farthest distance."""

import math
from typing import Any

from llvmlite import ir

from degroot.compute.kernel import compiled, intrinsic, types
from degroot.compute.simd import LANES, data_of, int32, loop, number, plus_product, pointer, zero
from degroot.neighbourhoods.codes import EUCLIDEAN, TRICUBE

EQUALLY_FAR = 1.0 - 1e-9  # of the farthest distance: beyond it the difference may be rounding


def _over_lanes(builder: Any, x: Any, step: Any) -> Any:
    """``step`` of all lanes."""
    lanes = [builder.extract_element(x, ir.Constant(int32, lane)) for lane in range(LANES)]
    while len(lanes) > 1:
        lanes = [step(a, b) for a, b in zip(lanes[::2], lanes[1::2], strict=True)]
    return lanes[0]


def _eight(builder: Any, array: Any, block: Any) -> Any:
    place = builder.gep(array, [builder.mul(block, number(LANES))])
    return builder.load(builder.bitcast(place, pointer), align=8)


@intrinsic
def _largest(_context: Any, values: Any, _count: Any) -> Any:
    """``_largest(values, count)``: the largest of the first `count` numbers, none of which is negative."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        start, count = data_of(context, builder, signature.args[0], arguments[0]), arguments[1]

        def more(a: Any, b: Any) -> Any:
            return builder.select(builder.fcmp_ordered(">", a, b), a, b)

        def more_of_eight(block: Any, totals: list[Any]) -> list[Any]:
            return [more(_eight(builder, start, block), totals[0])]

        def more_of_one(i: Any, totals: list[Any]) -> list[Any]:
            return [more(builder.load(builder.gep(start, [i])), totals[0])]

        blocks = builder.sdiv(count, number(LANES))
        (lanes,) = loop(builder, number(0), blocks, [zero], more_of_eight)
        first = _over_lanes(builder, lanes, more)
        return loop(builder, builder.mul(blocks, number(LANES)), count, [first], more_of_one)[0]

    return types.float64(values, types.intp), generate


@intrinsic
def sums_of(_context: Any, weights: Any, values: Any, _count: Any) -> Any:
    r"""``sums_of(weights, values, count)``: :math:`\sum w, \sum w^2, \sum w v` over the first `count` numbers."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        weight, value = (data_of(context, builder, signature.args[k], arguments[k]) for k in (0, 1))
        count = arguments[2]

        def add(w: Any, v: Any, totals: list[Any]) -> list[Any]:
            return [
                builder.fadd(totals[0], w),
                plus_product(builder, totals[1], w, w),
                plus_product(builder, totals[2], w, v),
            ]

        def add_eight(block: Any, totals: list[Any]) -> list[Any]:
            return add(_eight(builder, weight, block), _eight(builder, value, block), totals)

        def add_one(i: Any, totals: list[Any]) -> list[Any]:
            return add(builder.load(builder.gep(weight, [i])), builder.load(builder.gep(value, [i])), totals)

        blocks = builder.sdiv(count, number(LANES))
        lanes = loop(builder, number(0), blocks, [zero] * 3, add_eight)
        totals = [_over_lanes(builder, x, builder.fadd) for x in lanes]
        totals = loop(builder, builder.mul(blocks, number(LANES)), count, totals, add_one)
        return context.make_tuple(builder, signature.return_type, totals)

    return types.UniTuple(types.float64, 3)(weights, values, types.intp), generate


@compiled
def _tricube(weights: Any, count: int, farthest: float) -> None:
    for i in range(count):
        u = 1.0 if weights[i] >= EQUALLY_FAR * farthest else weights[i] / farthest
        rest = 1.0 - u * u * u
        weights[i] = rest * rest * rest


@compiled
def _gaussian(weights: Any, count: int, farthest: float) -> None:
    for i in range(count):
        u = 1.0 if weights[i] >= EQUALLY_FAR * farthest else weights[i] / farthest
        weights[i] = math.exp(-0.5 * u * u)


@compiled
def weigh(gaps: Any, count: int, metric: int, kernel: int, weights: Any) -> None:
    r"""The weights of the first `count` rows, :math:`k(u)`, with u the distance over the farthest distance.

    tricube :math:`(1 - u^3)^3`, gaussian :math:`\exp(-u^2 / 2)`. Where all would be 0 (all equally far), all are 1.
    """
    farthest = _largest(gaps, count)
    if metric == EUCLIDEAN:
        farthest = math.sqrt(farthest)
        for i in range(count):
            weights[i] = math.sqrt(gaps[i])
    else:
        for i in range(count):
            weights[i] = gaps[i]
    if farthest > 0.0:
        if kernel == TRICUBE:
            _tricube(weights, count, farthest)
        else:
            _gaussian(weights, count, farthest)
    if farthest == 0.0 or _largest(weights, count) == 0.0:
        for i in range(count):
            weights[i] = 1.0
