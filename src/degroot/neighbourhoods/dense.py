"""Dense rows: distances to every row, sixteen at a time, keeping only the few below a threshold.

Ranking needs only :math:`|x|^2 - 2 q'x`, one product with the squared norm as a further feature. It is computed in
float32 on centred and scaled rows; rows nearer to the boundary of the neighbourhood than rounding allows to tell are
measured again in float64, so the set is exact. The threshold comes from the first rows, which are a random sample.
"""

import math
from typing import Any

import numpy as np

from degroot.compute.compiled import Array
from degroot.compute.kernel import compiled, compiled_for
from degroot.neighbourhoods.candidates import choose, keep_found, keep_sample, slack_of
from degroot.neighbourhoods.codes import MANHATTAN
from degroot.neighbourhoods.distances import measure
from degroot.neighbourhoods.selection import search_all
from degroot.neighbourhoods.simd_distances import QUERIES, ROWS, WORD, difference, product
from degroot.neighbourhoods.summaries import SUMMARIES, Summaries, must_measure, reach, room_for, summarise
from degroot.neighbourhoods.thresholds import rank_in_sample, score_sample, threshold

SAMPLE = 2048  # rows from which the first threshold is taken
BLOCK = 64  # queries that share one pass over the rows
CHUNK = 32  # tiles that stay in the cache while the queries of a block pass over them
SHUFFLE_SEED = 0


class DenseIndex:
    """Rows (n, d), float32 or float64, ready for sums over the `size` nearest of them."""

    path = "dense"

    def __init__(self, rows: Array, size: int, metric: int, kernel: int) -> None:
        n, d = rows.shape
        self.rows, self.size, self.metric, self.kernel = rows, size, metric, kernel
        self.order = np.arange(n)
        if n > SAMPLE:
            self.order = np.random.default_rng(SHUFFLE_SEED).permutation(n)
        # the median, since a few rows far away must not take the others far from the centre: float32 would blur them
        self.centre = np.median(rows[self.order[:SAMPLE]].astype(np.float64), axis=0)
        centred = rows[self.order] - self.centre
        widest = float(np.abs(centred).max(initial=0.0))
        self.scale = 2.0 ** -math.ceil(math.log2(widest)) if widest > 0.0 else 1.0
        self.tiles = _tiles(centred * self.scale, norms=metric != MANHATTAN)
        self.rounding = (d + 8) * 2.0**-23  # twice the bound on d + 1 sums, a product and two conversions

    def summarise(self, queries: Array, asked: Summaries) -> None:
        """What is `asked` about the nearest rows of each query (m, d)."""
        _summarise(
            queries, self.rows, self.tiles, self.order, self.centre, self.scale, self.rounding, self.size, self.metric,
            self.kernel, asked,
        )  # fmt: skip


def _tiles(rows: Array, norms: bool) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Rows as (tiles, features, 16), the last feature the squared norm; missing rows are infinitely far."""
    n, d = rows.shape
    tiles = 4 * -(-n // (4 * ROWS))  # whole words of 64
    padded = np.zeros((tiles * ROWS, d + 1), np.float32)
    padded[:n, :d] = rows
    if norms:
        padded[:n, d] = np.einsum("ij,ij->i", rows, rows)
    padded[n:, d] = np.inf
    return np.ascontiguousarray(padded.reshape(tiles, ROWS, d + 1).transpose(0, 2, 1))


@compiled
def prepare(
    queries: Any, start: int, stop: int, centre: Any, scale: float, metric: int, ready: Any, lengths: Any
) -> None:
    """Queries start..stop, centred, scaled and in float32, into `ready`, and their norms in the metric."""
    d = centre.size
    factor = 1.0 if metric == MANHATTAN else -2.0
    for m in range(start, stop):
        total = 0.0
        for j in range(d):
            value = (np.float64(queries[m, j]) - centre[j]) * scale
            total += abs(value) if metric == MANHATTAN else value * value
            ready[m - start, j] = factor * value
        ready[m - start, d] = 0.0 if metric == MANHATTAN else 1.0
        lengths[m - start] = total if metric == MANHATTAN else math.sqrt(total)


@compiled
def scan(
    tiles: Any, first: int, last: int, place: int, ready: Any, group: int, limits: Any, floors: Any, lengths: Any,
    rounding: float, metric: int, size: int, scores: Any, found: Any, near: Any, places: Any, counts: Any,
) -> None:  # fmt: skip
    """Add the rows of tiles first..last that are below the limits of the 4 queries of a group to their candidates.

    `place` is where the first of these rows stands.
    """
    features = tiles.shape[1]
    query_at = group * features
    for start in range(first, last, WORD // ROWS):
        for t in range(WORD // ROWS):
            row_at = (start + t) * features * ROWS
            if metric == MANHATTAN:
                found[t] = difference(tiles, row_at, ready, query_at, features, limits, group, scores, t * ROWS, WORD)
            else:
                found[t] = product(tiles, row_at, ready, query_at, features, limits, group, scores, t * ROWS, WORD)
        keep_found(
            found, scores, place + (start - first) * ROWS, group, limits, floors, lengths, rounding, metric, size,
            near, places, counts,
        )  # fmt: skip


@compiled_for(
    f"f8[2] f4[2] f4[3] i8[1] f8[1] f8 f8 i8 i8 i8 {SUMMARIES}",
    f"f8[2] f8[2] f4[3] i8[1] f8[1] f8 f8 i8 i8 i8 {SUMMARIES}",
)
def _summarise(
    queries: Any, rows: Any, tiles: Any, order: Any, centre: Any, scale: float, rounding: float, size: int,
    metric: int, kernel: int, asked: Summaries,
) -> None:  # fmt: skip
    n, n_tiles, features = order.size, tiles.shape[0], tiles.shape[1]
    size = reach(size, n, asked)
    room, measured = room_for(size, asked), must_measure(kernel, asked)
    n_sample = min(n_tiles, SAMPLE // ROWS)
    rank = rank_in_sample(size, n, n_sample * ROWS, 3.0)
    width = (min(2 * size + 512, n_tiles * ROWS) // WORD + 2) * WORD  # candidates kept for each query
    block = min(BLOCK, (queries.shape[0] + QUERIES - 1) // QUERIES * QUERIES)
    flat = np.empty(QUERIES * n_sample * ROWS + WORD, np.float32)  # one word longer than is used, as in `scores`
    sample = flat[: QUERIES * n_sample * ROWS].reshape(QUERIES, n_sample * ROWS)
    minima = np.empty((1, (n_sample * ROWS // 16 + 63) // 64 * 64), np.float32)
    scores, found = np.empty((QUERIES + 1) * WORD, np.float32), np.empty(WORD // ROWS, np.uint64)
    near, places = np.empty((block, width), np.float32), np.empty((block, width), np.int32)
    counts, limits = np.zeros(block, np.int64), np.zeros(block, np.float32)
    ready, lengths, floors = np.zeros((block, features), np.float32), np.zeros(block), np.zeros(block, np.float32)
    chosen, band = np.empty(size, np.int64), np.empty(width, np.int64)

    for start in range(0, queries.shape[0], BLOCK):
        stop = min(start + BLOCK, queries.shape[0])
        prepare(queries, start, stop, centre, scale, metric, ready, lengths)
        for group in range(0, stop - start, QUERIES):
            score_sample(tiles, n_sample, ready, group, limits, metric, sample)
            for k in range(min(QUERIES, stop - start - group)):
                q = group + k
                nearest = 0.0 if metric == MANHATTAN else -lengths[q] * lengths[q]
                floors[q] = nearest - 2.0 * slack_of(nearest, lengths[q], rounding, metric)
                limits[q] = -np.inf
                counts[q] = 0
                if not lengths[q] < 1e9:  # float32 cannot tell the rows apart from so far away
                    continue
                limit = threshold(sample, k, minima, rank, floors[q])
                limits[q] = limit + 5.0 * slack_of(limit, lengths[q], rounding, metric)
                counts[q] = keep_sample(sample, flat, k, limits[q], near, places, q)
                if counts[q] == 0:
                    limits[q] = -np.inf
        for first in range(n_sample, n_tiles, CHUNK):
            last = min(first + CHUNK, n_tiles)
            for group in range(0, stop - start, QUERIES):
                scan(
                    tiles, first, last, first * ROWS, ready, group, limits, floors, lengths, rounding, metric,
                    size, scores, found, near, places, counts,
                )  # fmt: skip
        for q in range(stop - start):
            m = start + q
            if not choose(
                near, places, q, counts[q], floors[q], limits[q], lengths[q], rounding,
                queries, m, rows, order, metric, chosen, band,
            ):  # fmt: skip
                search_all(rows, queries, m, metric, chosen)
            if measured:
                measure(rows, chosen, size, queries, m, metric, room.gaps)
            summarise(chosen, m, metric, kernel, asked, room)
