r"""Large sets of dense rows, in memory or in a file: they stay where they are, and are never copied.

Hundreds of queries share one pass over the rows, which are packed into tiles a few at a time, as `DenseIndex` holds
all of them. The threshold comes from a random sample. Where rows lie in clusters, parts that are too far from a query
are passed over, since :math:`|q - x| \ge |\,|q - c| - |x - c|\,|`. Which rows are near is the same on every path.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array, threads
from degroot.compute.kernel import compiled, compiled_for
from degroot.neighbourhoods.candidates import choose, slack_of
from degroot.neighbourhoods.codes import MANHATTAN
from degroot.neighbourhoods.dense import prepare, scan
from degroot.neighbourhoods.distances import measure
from degroot.neighbourhoods.large.layout import LAYOUT, PART, Layout, distances_to, is_needed, reach_of, sequence
from degroot.neighbourhoods.large.projection_bound import (
    Screened,
    lines_of,
    look_at,
    pass_screen,
    prepare_screened,
    project,
    screen_limit,
)
from degroot.neighbourhoods.large.sample import UNITS, RowSample, Units
from degroot.neighbourhoods.selection import put_in_order, search_all
from degroot.neighbourhoods.simd_distances import QUERIES, ROWS, WORD
from degroot.neighbourhoods.summaries import SUMMARIES, Summaries, must_measure, reach, room_for, summarise
from degroot.neighbourhoods.thresholds import rank_in_sample, score_sample, threshold
from degroot.neighbourhoods.tiles import pack

DEVIATIONS = 4.0  # by which the threshold lies above what is expected: to look for rows in vain is dear
FEW = PART * QUERIES // 16  # pairs that passed a screen: more are looked at all together
AT_ONCE = 512  # queries that share one pass over the rows,
HELD_BYTES = 1 << 28  # or fewer, so that the candidates of all threads fit

Basis = NDArray[np.float32]  # (directions, d) of a screen


class Search(NamedTuple):
    """What is looked for, and how."""

    size: int
    metric: int
    kernel: int
    at_once: int


SEARCH = "Search(i8 i8 i8 i8)"  # their types, in signatures of kernels


class Block(NamedTuple):
    """Queries that share a pass, and their candidates."""

    ready: NDArray[np.float32]  # (queries, features)
    lengths: Array  # (queries,) their norms
    floors: NDArray[np.float32]  # (queries,) no score is below
    limits: NDArray[np.float32]  # (queries,) no neighbour's score is above
    reaches: Array  # (queries,) the same as distances
    counts: NDArray[np.int64]  # (queries,) how many candidates there are
    near: NDArray[np.float32]  # (queries, width) their scores
    places: NDArray[np.int32]  # (queries, width) their places in the layout
    screened: Screened


class BlockedIndex:
    """Rows (n, d), float32 or float64, that are visited in the parts of a layout."""

    def __init__(
        self, rows: Array, size: int, metric: int, kernel: int, sample: RowSample, layout: Layout, basis: Basis
    ) -> None:
        self.rows, self.size, self.sample, self.layout, self.basis = rows, size, sample, layout, basis
        self.search = Search(size, metric, kernel, _at_once(size))

    @property
    def path(self) -> str:
        """``"clustered"`` or ``"screened"``; ``"blocked"`` where every row is looked at."""
        return "clustered" if self.layout.cluster.size else "screened" if self.basis.size else "blocked"

    def summarise(self, queries: Array, asked: Summaries) -> None:
        """What is `asked` about the nearest rows of each query (m, d)."""
        queries = queries.astype(np.float64)  # one kind of queries: kernels take long to compile
        turn, gaps = np.arange(len(queries)), np.empty((0, 0))
        if self.layout.cluster.size:
            gaps = distances_to(self.layout.centres, queries, self.search.metric)
            turn = np.argsort(gaps.argmin(axis=1), kind="stable")  # queries that look at the same clusters together
            queries, gaps = queries[turn], gaps[turn]
        _summarise(
            queries, turn, gaps, self.rows, self.layout, self.basis, self.sample.tiles, len(self.sample.rows),
            self.sample.units, self.search, asked,
        )  # fmt: skip


def _at_once(size: int) -> int:
    """How many queries share a pass: fewer where each has many candidates."""
    each = 8 * _width(size)
    return int(min(AT_ONCE, max(1, HELD_BYTES // threads() // each // QUERIES) * QUERIES))


@compiled_for("i8")
def _width(size: int) -> int:
    """How many candidates of a query are kept."""
    return ((size + size // 4 + 512) // WORD + 2) * WORD


@compiled
def _room(queries: int, features: int, size: int, directions: int) -> Block:
    width = _width(size)
    screened = Screened(
        np.zeros((queries, directions + 1), np.float32),
        np.zeros((queries, (features // ROWS + 1) * ROWS), np.float32),
        np.zeros(queries),
        np.full(queries, -np.inf, np.float32),
    )
    return Block(
        np.zeros((queries, features), np.float32),
        np.zeros(queries),
        np.zeros(queries, np.float32),
        np.zeros(queries, np.float32),
        np.zeros(queries),
        np.zeros(queries, np.int64),
        np.empty((queries, width), np.float32),
        np.empty((queries, width), np.int32),
        screened,
    )


@compiled
def _set_limits(block: Block, count: int, tiles: Any, rank: int, units: Units, metric: int, sample: Any) -> None:
    """Where the neighbourhoods of the first `count` queries end at the latest, from the sample; others have none."""
    minima = np.empty((1, (sample.shape[1] // 16 + 63) // 64 * 64), np.float32)
    block.limits[:] = -np.inf
    block.counts[:] = 0
    for q in range(count):
        if q % QUERIES == 0:
            score_sample(tiles, tiles.shape[0], block.ready, q, block.limits, metric, sample)
        length = block.lengths[q]
        nearest = 0.0 if metric == MANHATTAN else -length * length
        block.floors[q] = nearest - 2.0 * slack_of(nearest, length, units.rounding, metric)
        if length < 1e9:  # float32 cannot tell the rows apart from farther away
            limit = threshold(sample, q % QUERIES, minima, rank, block.floors[q])
            block.limits[q] = limit + 5.0 * slack_of(limit, length, units.rounding, metric)


@compiled
def _follow_limits(block: Block, group: int, seen: Any, units: Units, metric: int, directions: int) -> None:
    """Bring what depends on the limits of a group up to date; `seen` are the limits at the last time."""
    for q in range(group, group + QUERIES):
        if block.limits[q] != seen[q]:
            seen[q] = block.limits[q]
            block.reaches[q] = reach_of(seen[q], block.lengths[q], units.scale, metric)
            if directions:
                block.screened.limits[q] = screen_limit(
                    seen[q], block.lengths[q], block.screened.depths[q], units.rounding, directions
                )  # fmt: skip


@compiled
def _visit(
    block: Block, start: int, stop: int, gaps: Any, rows: Any, layout: Layout, basis: Any, units: Units, metric: int,
    size: int, tiles: Any,
) -> None:  # fmt: skip
    """Make the rows that may be near the queries start..stop their candidates, part by part."""
    scores, found = np.empty((QUERIES + 1) * WORD, np.float32), np.empty(WORD // ROWS, np.uint64)
    seen = np.full(block.limits.size, np.nan, np.float32)
    directions, features = basis.shape[0], tiles.shape[1]
    coarse = np.empty((tiles.shape[0] if directions else 0, directions + 1, ROWS), np.float32)
    lines = np.empty((tiles.shape[0] * ROWS if directions else 0, features), np.float32)
    passed = np.empty(PART * QUERIES + WORD, np.int32)
    for group in range(0, stop - start, QUERIES):
        _follow_limits(block, group, seen, units, metric, directions)
    for part in sequence(layout, gaps, start, stop):
        first, last, packed = layout.starts[part], layout.starts[part + 1], 0
        for group in range(0, stop - start, QUERIES):
            if not is_needed(layout, part, gaps, block.reaches, start, group, stop):
                continue
            if packed == 0:
                packed = pack(rows, layout.order, first, last, units.centre, units.scale, metric, tiles)
                if directions:
                    project(tiles, packed, basis, coarse)
                    lines_of(tiles, packed, lines)
            count = FEW + 1
            if directions:
                count = pass_screen(coarse, packed, block.screened, group, scores, passed)
            if count <= FEW:
                look_at(
                    passed, count, lines, first, block.screened, group, block.limits, block.floors, block.lengths,
                    units.rounding, metric, size, block.near, block.places, block.counts,
                )  # fmt: skip
            else:
                scan(
                    tiles, 0, packed, first, block.ready, group, block.limits, block.floors, block.lengths,
                    units.rounding, metric, size, scores, found, block.near, block.places, block.counts,
                )  # fmt: skip
            _follow_limits(block, group, seen, units, metric, directions)


@compiled_for(
    *(f"f8[2] i8[1] f8[2] {rows}[2] {LAYOUT} f4[2] f4[3] i8 {UNITS} {SEARCH} {SUMMARIES}" for rows in ("f4", "f8"))
)
def _summarise(
    queries: Any, turn: Any, gaps: Any, rows: Any, layout: Layout, basis: Any, sample_tiles: Any, sampled: int,
    units: Units, search: Search, asked: Summaries,
) -> None:  # fmt: skip
    """What is asked about each query; query m is the one that `turn` says."""
    n, features, metric = rows.shape[0], sample_tiles.shape[1], search.metric
    size = reach(search.size, n, asked)
    room, measured = room_for(size, asked), must_measure(search.kernel, asked)
    rank = rank_in_sample(size, n, sampled, DEVIATIONS)
    at_once = max(QUERIES, min(search.at_once, (queries.shape[0] + QUERIES - 1) // QUERIES * QUERIES))
    block, tiles = _room(at_once, features, size, basis.shape[0]), np.empty((PART // ROWS, features, ROWS), np.float32)
    sample = np.empty((QUERIES, sample_tiles.shape[0] * ROWS), np.float32)
    chosen, band = np.empty(size, np.int64), np.empty(block.near.shape[1], np.int64)
    marks = np.zeros(n // WORD + 1 if layout.cluster.size else 0, np.uint64)
    for start in range(0, queries.shape[0], at_once):
        stop = min(start + at_once, queries.shape[0])
        prepare(queries, start, stop, units.centre, units.scale, metric, block.ready, block.lengths)
        _set_limits(block, stop - start, sample_tiles, rank, units, metric, sample)
        if basis.size:
            prepare_screened(block.ready, stop - start, basis, block.screened)
        _visit(block, start, stop, gaps, rows, layout, basis, units, metric, size, tiles)
        for q in range(stop - start):
            m = start + q
            if not choose(
                block.near, block.places, q, block.counts[q], block.floors[q], block.limits[q], block.lengths[q],
                units.rounding, queries, m, rows, layout.order, metric, chosen, band,
            ):  # fmt: skip
                search_all(rows, queries, m, metric, chosen)
            if layout.cluster.size:
                put_in_order(chosen, marks)
            if measured:
                measure(rows, chosen, size, queries, m, metric, room.gaps)
            summarise(chosen, turn[m], metric, search.kernel, asked, room)
