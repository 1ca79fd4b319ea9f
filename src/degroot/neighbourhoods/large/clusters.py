"""Clusters: rows that lie together are visited together, or passed over together."""

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array
from degroot.neighbourhoods.codes import COSINE, MANHATTAN
from degroot.neighbourhoods.distances import directions
from degroot.neighbourhoods.large.layout import PART, Layout
from degroot.neighbourhoods.large.sample import RowSample

ROWS_EACH = 2048  # in a cluster, on average,
MOST = 1024  # unless there were more clusters than this,
SAMPLED_EACH = 16  # or fewer rows of the sample in each
ROUNDS = 10  # of k-means
SEED = 0
PIECE = 1024  # rows whose distances from all centres fit a cache
PIECES = 16  # that are taken from the file at once
SURE = 1e-9  # what rounding may take from a distance

Labels = NDArray[np.int32]


def centres_of(sample: RowSample, n: int) -> Array:
    """Centres of clusters of n rows (clusters, d): some rounds of k-means on a sample of them."""
    from scipy.sparse import csr_array

    count = max(1, min(MOST, n // ROWS_EACH, len(sample.rows) // SAMPLED_EACH))
    first = np.random.default_rng(SEED).choice(len(sample.rows), count, replace=False)
    centres = sample.rows[first].astype(np.float64)
    for _ in range(ROUNDS):
        labels = _nearest(sample.rows, centres, sample)
        members = csr_array((np.ones(len(labels)), (labels, np.arange(len(labels)))), shape=(count, len(labels)))
        many = members.sum(axis=1)
        centres = np.where(many[:, None] > 0, members @ sample.rows / np.maximum(many, 1)[:, None], centres)
    return centres[_chain(centres)]


def _chain(centres: Array) -> NDArray[np.intp]:
    """An order of the centres in which each is followed by the nearest of the rest."""
    left, chain = np.ones(len(centres), np.bool_), [0]
    while len(chain) < len(centres):
        left[chain[-1]] = False
        gaps = np.where(left, ((centres - centres[chain[-1]]) ** 2).sum(axis=1), np.inf)
        chain.append(int(gaps.argmin()))
    return np.array(chain)


def layout_of(rows: Array, centres: Array, sample: RowSample, metric: int) -> Layout:
    """The rows in clusters around the centres, and in each by distance from its centre."""
    labels, gaps = np.empty(len(rows), np.int32), np.empty(len(rows))
    for start in range(0, len(rows), PIECES * PIECE):
        part = slice(start, start + PIECES * PIECE)
        here = directions(rows[part]) if metric == COSINE else rows[part]
        labels[part] = _nearest(here, centres, sample)
        apart = here - centres[labels[part]]
        gaps[part] = np.abs(apart).sum(axis=1) if metric == MANHATTAN else np.linalg.norm(apart, axis=1)
    order = np.lexsort((gaps, labels)).astype(np.int32)
    return _in_parts(order, np.bincount(labels, minlength=len(centres)), gaps, centres)


def _nearest(rows: Array, centres: Array, sample: RowSample) -> Labels:
    """The number of the centre nearest to each row, or of one that is hardly farther: by float32."""
    centre, scale, _ = sample.units
    c = ((centres - centre) * scale).astype(np.float32)
    by = np.vstack([-2.0 * c.T, (c * c).sum(axis=1)])
    nearest = np.empty(len(rows), np.int32)
    x = np.ones((PIECE, len(by)), np.float32)
    for start in range(0, len(rows), PIECE):
        here = rows[start : start + PIECE]
        x[: len(here), :-1] = (here - centre) * scale
        nearest[start : start + PIECE] = (x[: len(here)] @ by).argmin(axis=1)
    return nearest


def _in_parts(order: NDArray[np.int32], rows_in: NDArray[np.intp], gaps: Array, centres: Array) -> Layout:
    """Each cluster in parts of so many rows, from the innermost to the outermost."""
    ends = np.cumsum(rows_in)
    starts = [np.arange(end - count, end, PART) for end, count in zip(ends, rows_in, strict=True)]
    cluster = np.repeat(np.arange(len(centres), dtype=np.int32), [len(each) for each in starts])
    places = np.append(np.concatenate(starts), len(order)).astype(np.intp)
    low, high = gaps[order[places[:-1]]], gaps[order[places[1:] - 1]]
    return Layout(order, places, cluster, low * (1.0 - SURE), high * (1.0 + SURE), centres)
