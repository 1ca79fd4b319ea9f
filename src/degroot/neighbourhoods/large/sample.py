"""Samples: some rows of a large set, at random, in the units in which all of them are compared."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array, in_blocks
from degroot.compute.kernel import compiled_for
from degroot.neighbourhoods.codes import COSINE, EUCLIDEAN, MANHATTAN
from degroot.neighbourhoods.distances import directions
from degroot.neighbourhoods.simd_distances import ROWS
from degroot.neighbourhoods.tiles import pack

LEAST, MOST = 2048, 32768  # rows; in between a 64th of all
SEED = 0
PIECE = 65536  # rows that a thread looks at in turn


class Units(NamedTuple):
    """How rows become float32: less the centre, times a power of 2."""

    centre: Array  # (d,) in the precision of the rows
    scale: float
    rounding: float  # of scores


UNITS = "Units(f8[1] f8 f8)"  # their types, in signatures of kernels


@dataclass(frozen=True)
class RowSample:
    """Random rows."""

    rows: Array  # (count, d) where distances are taken: of cosine, directions
    units: Units
    tiles: NDArray[np.float32]


def extremes(rows: Array) -> Array:
    """The least and the greatest value of each feature, (2, d), without a copy of the rows."""
    starts = range(0, len(rows), PIECE)
    found = np.empty((len(starts), 2, rows.shape[1]), rows.dtype)

    def piece(start: int, stop: int) -> None:
        _extremes(rows, start, stop, found[start // PIECE])

    in_blocks(piece, len(rows), PIECE)
    return np.stack([found[:, 0].min(axis=0), found[:, 1].max(axis=0)]).astype(np.float64)


@compiled_for("f4[2] i8 i8 f4[2]", "f8[2] i8 i8 f8[2]")
def _extremes(rows: Any, start: int, stop: int, out: Any) -> None:
    for j in range(rows.shape[1]):
        out[0, j] = out[1, j] = rows[start, j]
    for i in range(start, stop):
        for j in range(rows.shape[1]):
            x = rows[i, j]
            out[0, j] = x if x < out[0, j] else out[0, j]
            out[1, j] = x if x > out[1, j] else out[1, j]


def draw(rows: Array, metric: int) -> Array:
    """Some of the rows, where distances are taken."""
    n = len(rows)
    count = min(n, MOST, max(LEAST, n // 64)) // 64 * 64 if n > LEAST else n
    numbers = np.sort(np.random.default_rng(SEED).choice(n, count, replace=False))
    some: Array = directions(rows[numbers]) if metric == COSINE else rows[numbers]
    return some


def sample_of(some: Array, metric: int, bounds: Array) -> RowSample:
    """The sample with these rows, drawn from rows whose extremes are `bounds`."""
    units = _units(some, np.array([[-1.0], [1.0]]) if metric == COSINE else bounds)
    tiles = np.empty((4 * -(-len(some) // (4 * ROWS)), some.shape[1] + 1, ROWS), np.float32)
    kind = MANHATTAN if metric == MANHATTAN else EUCLIDEAN  # directions they are already
    pack(some, np.empty(0, np.int32), 0, len(some), units.centre, units.scale, kind, tiles)
    return RowSample(some, units, tiles)


def _units(some: Array, bounds: Array) -> Units:
    # the median, since a few rows far away must not take the others far from the centre: float32 would blur them
    centre = np.median(some.astype(np.float64), axis=0).astype(some.dtype).astype(np.float64)
    widest = float(np.abs(bounds - centre).max(initial=0.0))
    scale = 2.0 ** -math.ceil(math.log2(widest)) if widest > 0.0 else 1.0
    return Units(centre, scale, (2 * len(centre) + 8) * 2.0**-23)  # twice the bound on sums, norms and conversions
