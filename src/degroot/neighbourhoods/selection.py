"""Which rows are the N nearest, once distances are known.

Ties in distance go to the row that stands first, so the same input gives the same output on every path.
"""

from typing import Any

import numpy as np

from degroot.compute.kernel import compiled
from degroot.compute.order import sort_with_keys
from degroot.neighbourhoods.distances import measure
from degroot.neighbourhoods.simd_distances import below, how_many, lowest


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
def put_in_order(rows: Any, marks: Any) -> None:
    """The numbers `rows` in ascending order, so that sums over them do not depend on the way to them.

    `marks` has a bit for each row there is, none of which is set.
    """
    if rows.size < marks.size // 8:
        sort_with_keys(rows, np.arange(rows.size))
        return
    for i in range(rows.size):
        marks[rows[i] >> 6] |= np.uint64(1) << np.uint64(rows[i] & 63)
    at = 0
    for word in range(marks.size):
        bits = marks[word]
        while bits:
            rows[at] = 64 * word + lowest(bits)
            bits &= bits - np.uint64(1)
            at += 1
        marks[word] = np.uint64(0)


@compiled
def search_all(rows: Any, queries: Any, m: int, metric: int, chosen: Any) -> None:
    """The nearest rows of query m by looking at every one in float64: slow, never wrong."""
    n = rows.shape[0]
    gaps, every = np.empty(n + 3), np.arange(n)
    measure(rows, every, n, queries, m, metric, gaps)
    settle(gaps, every, n, chosen.size, chosen, 0)
