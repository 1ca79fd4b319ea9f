"""Candidates: the rows that may be among the nearest of a query, by scores in float32, and the choice among them.

The candidates of query q are ``near[q, :count]``, their scores, and ``places[q, :count]``, where their rows stand.
"""

import math
from typing import Any

import numpy as np

from degroot.compute.kernel import compiled, inlined
from degroot.neighbourhoods.codes import MANHATTAN
from degroot.neighbourhoods.distances import measure
from degroot.neighbourhoods.selection import bracket, count_below, settle
from degroot.neighbourhoods.simd_distances import QUERIES, ROWS, WORD, below, how_many, lowest

# To hand over many arrays takes as long as to look at some rows: such functions become part of their callers.

TINY = 1e-30  # what underflow may take from a score


@compiled
def slack_of(score: float, length: float, rounding: float, metric: int) -> float:
    """How far a float32 score may be from the exact one, for rows whose score is about `score`.

    A row at distance R from a query of norm `length` has norm at most R + `length`, which bounds every partial sum. The
    bound grows more slowly with R than the score does, so that rows farther away cannot fall below it either.
    """
    if metric == MANHATTAN:
        return rounding * 2.0 * (length + max(score, 0.0)) + TINY
    reach = length + math.sqrt(max(score + length * length, 0.0))
    return rounding * reach * (reach + 2.0 * length) + TINY


@compiled
def keep(bits: Any, scores: Any, start: int, place: int, near: Any, places: Any, q: int, count: int) -> int:
    """Add the rows whose bits are set to the candidates of query q; how many it has then.

    Mostly there are few. Four are written whether there are or not, which is faster than to look; there is room.
    """
    found = how_many(bits)
    for k in range(4):
        i = lowest(bits)
        near[q, count + k] = scores[start + i]
        places[q, count + k] = place + i
        bits &= bits - np.uint64(1)
    at = count + 4
    while bits:
        i = lowest(bits)
        near[q, at] = scores[start + i]
        places[q, at] = place + i
        bits &= bits - np.uint64(1)
        at += 1
    total: int = count + found
    return total


@compiled
def keep_sample(sample: Any, flat: Any, k: int, limit: float, near: Any, places: Any, q: int) -> int:
    """Make the rows of the sample below the limit the first candidates of query q; 0 if they are too many."""
    start, count = k * sample.shape[1], 0
    if count_below(sample, start, sample.shape[1] // WORD, limit) > near.shape[1] - WORD:
        return 0
    for place in range(0, sample.shape[1], WORD):
        bits = below(sample, start + place, limit)
        count = keep(bits, flat, start + place, place, near, places, q, count)
    return count


@compiled
def row_at(order: Any, place: int) -> int:
    """The number of the row that stands there; no order: rows stand by their numbers."""
    row: int = order[place] if order.size else place
    return row


@compiled
def _pad(near: Any, q: int, count: int) -> int:
    """Fill the last word of the candidates of query q with what is never near; how many words there are."""
    words = (count + WORD - 1) // WORD
    for i in range(count, WORD * words):
        near[q, i] = np.inf
    return words


@compiled
def compact(
    near: Any, places: Any, counts: Any, limits: Any, q: int, size: int, low: float, length: float, rounding: float,
    metric: int,
) -> None:  # fmt: skip
    """Make room among the candidates of query q: lower its limit to what the `size` nearest so far need."""
    count, width = counts[q], near.shape[1]
    words = _pad(near, q, count)
    slack = slack_of(limits[q], length, rounding, metric)
    high = bracket(near, q * width, words, low, limits[q], size, size, np.float32(slack))[1]
    limits[q] = high + 5.0 * slack_of(high, length, rounding, metric)
    kept = 0
    for i in range(count):
        if near[q, i] <= limits[q]:
            near[q, kept] = near[q, i]
            places[q, kept] = places[q, i]
            kept += 1
    if kept > width - 2 * WORD:  # too many rows at one distance
        limits[q] = -np.inf
        kept = 0
    counts[q] = kept


@inlined
def keep_found(
    found: Any, scores: Any, place: int, group: int, limits: Any, floors: Any, lengths: Any, rounding: float,
    metric: int, size: int, near: Any, places: Any, counts: Any,
) -> None:  # fmt: skip
    """Add to the candidates of the 4 queries of a group those of 64 rows, the first at `place`, that were found.

    ``found`` has the bits of four tiles, as `product` gives them, and `scores` (4, 64) what they are of.
    """
    for k in range(QUERIES):
        bits = np.uint64(0)
        for t in range(WORD // ROWS):
            bits |= ((found[t] >> np.uint64(ROWS * k)) & np.uint64(2**ROWS - 1)) << np.uint64(ROWS * t)
        q = group + k
        counts[q] = keep(bits, scores, k * WORD, place, near, places, q, counts[q])
        if counts[q] > near.shape[1] - WORD:
            compact(near, places, counts, limits, q, size, floors[q], lengths[q], rounding, metric)


@compiled
def choose(
    near: Any, places: Any, q: int, count: int, low: float, limit: float, length: float, rounding: float,
    queries: Any, m: int, rows: Any, order: Any, metric: int, chosen: Any, band: Any,
) -> bool:  # fmt: skip
    """Put the nearest rows among `count` candidates into `chosen`; False if they cannot be told to be the nearest.

    Scores are off by at most `slack`, so a row more than twice that below (above) the boundary is surely in (out), and
    only the band between is measured again.
    """
    size, width = chosen.size, near.shape[1]
    if count < size:
        return False
    words = _pad(near, q, count)
    slack = slack_of(limit, length, rounding, metric)
    low, high = bracket(near, q * width, words, low, limit, size, size, np.float32(slack))
    slack = slack_of(high, length, rounding, metric)
    first, last = np.float32(low - 2.0 * slack), np.float32(high + 2.0 * slack)
    if last > limit and count < rows.shape[0]:
        return False
    sure = count_below(near, q * width, words, first)
    unsure = count_below(near, q * width, words, last) - sure
    if sure > size or sure + unsure < size:
        return False
    at, band_at = 0, 0
    for word in range(words):
        bits = below(near, q * width + WORD * word, first)
        doubtful = below(near, q * width + WORD * word, last) ^ bits
        while bits:
            chosen[at] = row_at(order, places[q, WORD * word + lowest(bits)])
            bits &= bits - np.uint64(1)
            at += 1
        while doubtful:
            band[band_at] = row_at(order, places[q, WORD * word + lowest(doubtful)])
            doubtful &= doubtful - np.uint64(1)
            band_at += 1
    if sure + unsure == size:
        for i in range(unsure):
            chosen[at + i] = band[i]
    elif sure < size:
        gaps = np.empty(unsure + 3)
        measure(rows, band, unsure, queries, m, metric, gaps)
        settle(gaps, band, unsure, size - sure, chosen, at)
    return True
