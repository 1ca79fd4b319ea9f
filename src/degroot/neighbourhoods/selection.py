"""Which rows are the N nearest, once distances are known, and the mean of their values.

Ties in distance go to the row that stands first, so the same input gives the same output on every path.
"""

import math
from typing import Any

import numpy as np

from degroot.neighbourhoods.lanes import below, how_many
from degroot.points import compiled

UNIFORM, TRICUBE, GAUSSIAN = 0, 1, 2
KERNELS = {"uniform": UNIFORM, "tricube": TRICUBE, "gaussian": GAUSSIAN}

EQUALLY_FAR = 1.0 - 1e-9  # of the farthest distance: beyond it the difference may be rounding

EUCLIDEAN, COSINE, MANHATTAN = 0, 1, 2
METRICS = {"euclidean": EUCLIDEAN, "cosine": COSINE, "manhattan": MANHATTAN}


@compiled
def count_below(values: Any, start: int, words: int, threshold: Any) -> int:
    """How many of the ``64 * words`` float32 numbers from ``values[start]`` (of the flat array) are at or below."""
    total = 0
    for word in range(words):
        total += how_many(below(values, start + 64 * word, threshold))
    return total


@compiled
def bracket(
    values: Any, start: int, words: int, low: Any, high: Any, least: int, most: int, width: Any
) -> tuple[Any, Any]:
    """Narrow ``low < high`` around the `least`-th smallest number, by halving.

    Fewer than `least` numbers are at or below `low`, at least so many at or below `high`. Ends with ``low == high`` at
    a threshold that passes between `least` and `most` numbers, or with the two no more than `width` apart.
    """
    while high - low > width:
        middle = np.float32(0.5) * (low + high)
        if middle <= low or middle >= high:
            break
        found = count_below(values, start, words, middle)
        if found < least:
            low = middle
        elif found > most:
            high = middle
        else:
            return middle, middle
    return low, high


@compiled
def _gap(rows: Any, i: int, queries: Any, m: int, j: int, metric: int) -> float:
    gap = np.float64(rows[i, j]) - np.float64(queries[m, j])
    return abs(gap) if metric == MANHATTAN else gap * gap


@compiled
def distance(rows: Any, i: int, queries: Any, m: int, metric: int) -> float:
    """Exact in float64: squared for Euclidean rows (and unit rows, where it is twice the cosine distance).

    Summed as numpy sums up to 128 numbers, so that rows which are equally far by ``((x - q) ** 2).sum()`` are so here.
    """
    d = rows.shape[1]
    whole = d - d % 8
    total = 0.0
    if whole:
        s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
        for j in range(0, whole, 8):
            s0 += _gap(rows, i, queries, m, j, metric)
            s1 += _gap(rows, i, queries, m, j + 1, metric)
            s2 += _gap(rows, i, queries, m, j + 2, metric)
            s3 += _gap(rows, i, queries, m, j + 3, metric)
            s4 += _gap(rows, i, queries, m, j + 4, metric)
            s5 += _gap(rows, i, queries, m, j + 5, metric)
            s6 += _gap(rows, i, queries, m, j + 6, metric)
            s7 += _gap(rows, i, queries, m, j + 7, metric)
        total = ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))
    for j in range(whole, d):
        total += _gap(rows, i, queries, m, j, metric)
    return total


@compiled
def settle(distances: Any, rows: Any, count: int, need: int, chosen: Any, at: int) -> None:
    """Put the `need` nearest of the first `count` `rows` into ``chosen[at:]``, the earlier row first among equals.

    Quickselect on the pairs (distance, row), which are never equal; both arrays are reordered.
    """
    low, high = 0, count - 1
    while low < high:
        middle = (low + high) // 2
        pivot, pivot_row = distances[middle], rows[middle]
        i, j = low, high
        while i <= j:
            while distances[i] < pivot or (distances[i] == pivot and rows[i] < pivot_row):
                i += 1
            while distances[j] > pivot or (distances[j] == pivot and rows[j] > pivot_row):
                j -= 1
            if i <= j:
                distances[i], distances[j] = distances[j], distances[i]
                rows[i], rows[j] = rows[j], rows[i]
                i += 1
                j -= 1
        if need - 1 <= j:
            high = j
        elif need - 1 >= i:
            low = i
        else:
            break
    for i in range(need):
        chosen[at + i] = rows[i]


@compiled
def search_all(rows: Any, queries: Any, m: int, metric: int, chosen: Any) -> None:
    """The nearest rows of query m by looking at every one in float64: slow, never wrong."""
    n = rows.shape[0]
    distances = np.empty(n)
    for i in range(n):
        distances[i] = distance(rows, i, queries, m, metric)
    settle(distances, np.arange(n), n, chosen.size, chosen, 0)


@compiled
def weigh(distances: Any, kernel: int) -> None:
    r"""Turn distances into weights in place: :math:`k(u)`, with u the distance over the farthest distance.

    tricube :math:`(1 - u^3)^3`, gaussian :math:`\exp(-u^2 / 2)`. Where all would be 0 (all equally far), all are 1.
    """
    farthest = distances.max()
    total = 0.0
    for i in range(distances.size):
        u = 0.0 if farthest == 0.0 else 1.0 if distances[i] >= EQUALLY_FAR * farthest else distances[i] / farthest
        distances[i] = (1.0 - u**3) ** 3 if kernel == TRICUBE else math.exp(-0.5 * u * u)
        total += distances[i]
    if total == 0.0:
        distances[:] = 1.0


@compiled
def average(chosen: Any, weights: Any, values: Any, out: Any, m: int, place: int) -> None:
    """The weighted mean of ``values[chosen]``, (N, columns), into ``out[m, place]``; `weights` empty: equal ones."""
    columns = values.shape[1]
    total = 0.0
    for k in range(columns):
        out[m, place, k] = 0.0
    for i in range(chosen.size):
        row, weight = chosen[i], 1.0 if weights.size == 0 else weights[i]
        total += weight
        for k in range(columns):
            out[m, place, k] += weight * values[row, k]
    for k in range(columns):
        out[m, place, k] /= total


@compiled
def summarise(
    chosen: Any, rows: Any, queries: Any, m: int, metric: int, kernel: int, weights: Any, values: Any, out: Any,
    place: int,
) -> None:  # fmt: skip
    """The mean over the chosen rows into ``out[m, place]``; `weights` is scratch, empty for equal weights."""
    if kernel != UNIFORM:
        for i in range(chosen.size):
            gap = distance(rows, chosen[i], queries, m, metric)
            weights[i] = math.sqrt(gap) if metric == EUCLIDEAN else gap
        weigh(weights, kernel)
    average(chosen, weights, values, out, m, place)
