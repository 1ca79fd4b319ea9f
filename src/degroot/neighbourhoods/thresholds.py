"""Thresholds: a score below which a query's neighbourhood lies, from a random sample of the rows."""

import math
from typing import Any

import numpy as np

from degroot.compute.kernel import compiled
from degroot.neighbourhoods.codes import MANHATTAN
from degroot.neighbourhoods.selection import bracket, count_below
from degroot.neighbourhoods.simd_distances import ROWS, difference, product


@compiled
def score_sample(tiles: Any, n_tiles: int, ready: Any, group: int, limits: Any, metric: int, out: Any) -> None:
    """Scores of all rows of the first tiles for the 4 queries of a group, into `out` (4, rows)."""
    features, stride = tiles.shape[1], out.shape[1]
    query_at = group * features
    for tile in range(n_tiles):
        row_at, at = tile * features * ROWS, tile * ROWS
        if metric == MANHATTAN:
            difference(tiles, row_at, ready, query_at, features, limits, group, out, at, stride)
        else:
            product(tiles, row_at, ready, query_at, features, limits, group, out, at, stride)


@compiled
def _less(a: float, b: float) -> float:
    return a if a < b else b


@compiled
def _minima(scores: Any, k: int, groups: int, out: Any) -> None:
    """The least score of each of `groups` groups of 16 rows, a stride apart so that the loop vectorises."""
    for i in range(groups):
        low = scores[k, i]
        for r in range(1, 16):
            low = _less(low, scores[k, i + r * groups])
        out[0, i] = low


@compiled
def threshold(scores: Any, k: int, minima: Any, rank: int, low: Any) -> Any:
    """A score that at least `rank` of the rows of ``scores[k]`` do not exceed, and not many more.

    The `rank`-th smallest of the group minima is one, as every group below it holds a row below it.
    """
    groups = scores.shape[1] // 16
    values, start, words = scores, k * scores.shape[1], scores.shape[1] // 64
    if 2 * rank <= groups:
        _minima(scores, k, groups, minima)
        for i in range(groups, minima.shape[1]):
            minima[0, i] = np.inf
        values, start, words = minima, 0, minima.shape[1] // 64
    step = np.float32(scores[k, 0] - low)
    high = low + step
    while count_below(values, start, words, high) < rank:
        low = high
        step *= np.float32(2.0)
        high = low + step
    return bracket(values, start, words, low, high, rank, rank + rank // 16 + 1, np.float32(0.0))[1]


@compiled
def rank_in_sample(size: int, n: int, sample: int, deviations: float) -> int:
    """The rank in a sample of the rows that lies so many standard deviations above the `size`-th of all n rows."""
    if sample >= n:
        return size
    expected = size * sample / n
    return min(sample, int(expected + deviations * (math.sqrt(expected) + 1.0)))
