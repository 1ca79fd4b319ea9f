"""Layouts: in which order, and in which parts, the rows of a large set are visited."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array
from degroot.compute.kernel import compiled
from degroot.compute.order import sort_with_keys
from degroot.neighbourhoods.codes import MANHATTAN
from degroot.neighbourhoods.simd_distances import QUERIES

PART = 512  # rows that are packed together and stay in the cache while the queries pass over them
SURE = 1.0 + 1e-6  # a bound must be exceeded by more than rounding


class Layout(NamedTuple):
    """Rows in parts. Where they are in clusters, a part holds rows about equally far from the centre of its cluster."""

    order: NDArray[np.int32]  # (n,) numbers of the rows, place by place; empty: rows stand by their numbers
    starts: NDArray[np.intp]  # (parts + 1,) the place where each part begins
    cluster: NDArray[np.int32]  # (parts,) to which it belongs; empty where there are no clusters
    low: Array  # (parts,) the least distance of its rows from the centre of their cluster
    high: Array  # (parts,) the greatest
    centres: Array  # (clusters, d)


LAYOUT = "Layout(i4[1] i8[1] i4[1] f8[1] f8[1] f8[2])"  # their types, in signatures of kernels


def in_sequence(n: int, d: int) -> Layout:
    """The layout of n rows that are visited one after the other."""
    starts = np.append(np.arange(0, n, PART), n).astype(np.intp)
    nobody = np.empty(0, np.int32)
    return Layout(nobody, starts, nobody, np.empty(0), np.empty(0), np.empty((0, d)))


def distances_to(centres: Array, queries: Array, metric: int) -> Array:
    """Distances (m, clusters) in the metric; of cosine, between directions."""
    from scipy.spatial.distance import cdist

    gaps: Array = cdist(queries, centres, "cityblock" if metric == MANHATTAN else "euclidean")
    return gaps


@compiled
def bound(layout: Layout, part: int, gap: float) -> float:
    """How near a row of the part can be to a query at distance `gap` from the centre of its cluster."""
    beyond: float = max(gap - layout.high[part], layout.low[part] - gap)
    return beyond


@compiled
def sequence(layout: Layout, gaps: Any, start: int, stop: int) -> Any:
    """The order in which parts are visited for the queries start..stop: those that are near to any of them first.

    `gaps` (m, clusters) are the distances of the queries from the centres.
    """
    parts = layout.starts.size - 1
    if layout.cluster.size == 0:
        return np.arange(parts)
    nearest, order = np.empty(parts), np.arange(parts)
    for p in range(parts):
        nearest[p] = np.inf
        for m in range(start, stop):
            nearest[p] = min(nearest[p], max(0.0, bound(layout, p, gaps[m, layout.cluster[p]])))
    sort_with_keys(nearest, order)
    return order


@compiled
def reach_of(limit: float, length: float, scale: float, metric: int) -> float:
    """The greatest distance, in the units of the rows, at which a row may have a score within the limit."""
    if limit == -np.inf:
        return -np.inf
    distance = limit if metric == MANHATTAN else np.sqrt(max(limit + length * length, 0.0))
    return SURE * distance / scale


@compiled
def is_needed(layout: Layout, part: int, gaps: Any, reaches: Any, start: int, group: int, stop: int) -> bool:
    """Whether any of the 4 queries of a group has to look at the part; `reaches` are the queries' own."""
    if layout.cluster.size == 0:
        return True
    cluster = layout.cluster[part]
    for q in range(group, min(group + QUERIES, stop - start)):
        if bound(layout, part, gaps[start + q, cluster]) <= reaches[q]:
            return True
    return False
