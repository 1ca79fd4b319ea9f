"""Sorting and order statistics in kernels. numba's own keep lists, and with these need a runtime of its own."""

from typing import Any

from degroot.compute.compiled import Array
from degroot.compute.kernel import compiled


@compiled
def sort_with_keys(keys: Any, numbers: Any) -> None:
    """Put `keys` in ascending order, and `numbers` in the order of their keys; of equal keys the smaller number first.

    Heapsort.
    """
    n = keys.size
    for root in range(n // 2 - 1, -1, -1):
        _sift_down(keys, numbers, root, n)
    for last in range(n - 1, 0, -1):
        keys[0], keys[last] = keys[last], keys[0]
        numbers[0], numbers[last] = numbers[last], numbers[0]
        _sift_down(keys, numbers, 0, last)


@compiled
def _is_after(key: Any, number: int, other_key: Any, other_number: int) -> bool:
    return bool(key > other_key or (key == other_key and number > other_number))


@compiled
def _sift_down(keys: Any, numbers: Any, root: int, count: int) -> None:
    """Move the pair at `root` down in the heap of the first `count` pairs, until none below it is larger."""
    key, number, child = keys[root], numbers[root], 2 * root + 1
    while child < count:
        if child + 1 < count and _is_after(keys[child + 1], numbers[child + 1], keys[child], numbers[child]):
            child += 1
        if not _is_after(keys[child], numbers[child], key, number):
            break
        keys[root], numbers[root] = keys[child], numbers[child]
        root, child = child, 2 * child + 1
    keys[root], numbers[root] = key, number


@compiled
def find_nth_smallest(values: Array, count: int, n: int) -> float:
    """The n-th smallest, from 0 on, of the first `count` values, which are reordered: quickselect."""
    low, high = 0, count - 1
    while low < high:
        pivot, i, j = values[(low + high) // 2], low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if n <= j:
            high = j
        elif n >= i:
            low = i
        else:
            break
    found: float = values[n]
    return found


@compiled
def find_median(values: Array, count: int) -> float:
    """The median of the first `count` values, at least one, which are reordered."""
    upper = find_nth_smallest(values, count, count // 2)
    if count % 2:
        return upper
    return (find_nth_smallest(values, count, count // 2 - 1) + upper) / 2.0
