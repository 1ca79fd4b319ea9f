"""Summaries: what is told of each neighbourhood once its rows are known, and where it is written."""

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array
from degroot.compute.kernel import compiled, compiled_for, inlined
from degroot.compute.simd import LANES
from degroot.neighbourhoods.codes import COSINE, EUCLIDEAN, UNIFORM
from degroot.neighbourhoods.kernels import sums_of, weigh
from degroot.neighbourhoods.moments import addresses, edge_of, second_moments


class Summaries(NamedTuple):
    """What is asked about the neighbourhoods of m queries among n rows. Arrays that are not wanted are empty."""

    values: Array  # (n, columns) to be averaged, or residuals (n, outputs * models)
    outputs: int  # 0: means of the values; else second moments of the residuals, summed over so many outputs
    out: Array  # (m, places, columns), or packed moments (m, places, models (models + 1) / 2)
    place: int  # everything goes to [:, place]
    exclude_row: NDArray[np.intp]  # (m,) a row for each query that does not belong to its neighbourhood
    spread: Array  # (m, places) mean squared distance
    effective: Array  # (m, places) effective number of rows


SUMMARIES = "Summaries(f8[2] i8 f8[3] i8 i8[1] f8[2] f8[2])"  # their types, in signatures of kernels


class Index(Protocol):
    """One way to find neighbourhoods."""

    @property
    def path(self) -> str:
        """Its name."""

    def summarise(self, queries: Any, asked: Summaries) -> None:
        """What is `asked` about the nearest rows of each query (m, d)."""


class SummaryBuffers(NamedTuple):
    """Room for one neighbourhood."""

    gaps: Array  # as `measure` gives them
    weights: Array  # 1 as long as nothing else is written
    rows: NDArray[np.intp]  # addresses of residuals
    sums: Array  # of products
    edge: Array  # the last residuals


@compiled_for(f"i8 i8 {SUMMARIES}")
def reach(size: int, n: int, asked: Summaries) -> int:
    """How many of the n rows have to be found: one more than there are in a neighbourhood if a row may be left out."""
    return min(size + 1, n) if asked.exclude_row.size else size


@compiled
def room_for(size: int, asked: Summaries) -> SummaryBuffers:
    """Room for neighbourhoods of `size` rows."""
    values = asked.values
    stride = 0 if asked.outputs == 0 else (values.shape[1] // asked.outputs + LANES - 1) // LANES * LANES
    edge = edge_of(values) if asked.outputs else np.empty(0)
    return SummaryBuffers(
        np.empty(size + LANES), np.ones(size + LANES), np.empty(size + 1, np.intp), np.empty(stride * stride), edge
    )


@compiled
def must_measure(kernel: int, asked: Summaries) -> bool:
    """Whether `summarise` looks at the gaps."""
    return kernel != UNIFORM or asked.exclude_row.size > 0 or asked.spread.size > 0


@compiled
def _leave_out(chosen: Any, gaps: Any, row: int) -> int:
    """Move `row` to the end of `chosen`, or the farthest row if it is not there; how many are left.

    Of rows that are equally far the later is the farther one.
    """
    last: int = chosen.size - 1
    out = 0
    for i in range(last + 1):
        if chosen[i] == row:
            out = i
            break
        if gaps[i] > gaps[out] or (gaps[i] == gaps[out] and chosen[i] > chosen[out]):
            out = i
    chosen[out], chosen[last] = chosen[last], chosen[out]
    gaps[out], gaps[last] = gaps[last], gaps[out]
    return last


@compiled
def _average(chosen: Any, count: int, weights: Any, values: Any, out: Any, m: int, place: int) -> None:
    """The weighted mean of the values of the first `count` chosen rows into ``out[m, place]``."""
    columns = values.shape[1]
    total = 0.0
    for k in range(columns):
        out[m, place, k] = 0.0
    for i in range(count):
        row, weight = chosen[i], weights[i]
        total += weight
        for k in range(columns):
            out[m, place, k] += weight * values[row, k]
    for k in range(columns):
        out[m, place, k] /= total


@compiled
def _tell_nothing(m: int, asked: Summaries) -> None:
    """Of no row at all: none is effective, none is at any distance, and means and moments are 0."""
    asked.out[m, asked.place] = 0.0
    if asked.spread.size:
        asked.spread[m, asked.place] = np.inf
    if asked.effective.size:
        asked.effective[m, asked.place] = 0.0


@inlined
def summarise(chosen: Any, m: int, metric: int, kernel: int, asked: Summaries, room: SummaryBuffers) -> None:
    """Write what is asked about the neighbourhood of query m, the `chosen` rows, whose gaps are in `room`."""
    count = _leave_out(chosen, room.gaps, asked.exclude_row[m]) if asked.exclude_row.size else chosen.size
    if count == 0:
        _tell_nothing(m, asked)
        return
    if kernel != UNIFORM:
        weigh(room.gaps, count, metric, kernel, room.weights)
    if asked.outputs == 0:
        _average(chosen, count, room.weights, asked.values, asked.out, m, asked.place)
    if asked.outputs or asked.spread.size or asked.effective.size:
        _tell_moments(chosen, count, m, metric, asked, room)


@inlined
def _tell_moments(chosen: Any, count: int, m: int, metric: int, asked: Summaries, room: SummaryBuffers) -> None:
    """The second moments of residuals, the spread and the effective number, whichever are asked for."""
    gaps, place = room.gaps, asked.place
    if asked.spread.size and metric != EUCLIDEAN:
        unit = 0.5 if metric == COSINE else 1.0
        for i in range(count):
            gaps[i] = (unit * gaps[i]) * (unit * gaps[i])
    total, squares, distances = sums_of(room.weights, gaps, count)
    if asked.outputs:
        models = asked.values.shape[1] // asked.outputs
        addresses(asked.values, room.edge, chosen, count, room.rows)
        second_moments(
            room.rows, room.weights, count, asked.outputs, models, 1.0 / total, room.sums, asked.out, m, place
        )
    if asked.spread.size:
        asked.spread[m, place] = distances / total
    if asked.effective.size:
        asked.effective[m, place] = total * total / squares


@compiled_for(f"{SUMMARIES}")
def _summarise_all(asked: Summaries) -> None:
    every = np.arange(asked.values.shape[0])
    summarise(every, 0, EUCLIDEAN, UNIFORM, asked, room_for(every.size, asked))


def moments_of_all(asked: Summaries) -> Array:
    """The second moments of all rows, with equal weights, packed."""
    nothing, alone = np.empty((0, 0)), np.empty((1, 1, asked.out.shape[2]))
    _summarise_all(asked._replace(out=alone, place=0, spread=nothing, effective=nothing))
    moments: Array = alone[0, 0]
    return moments
