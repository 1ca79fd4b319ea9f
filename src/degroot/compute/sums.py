"""Sums over rows, four at a time in an order that is always the same; and the largest of an array.

One running sum waits for each addition before the next. Leave to add in any order would let the compiler decide anew
with every call, and the last bit with it. Four running sums are faster than the one and as certain.
"""

import numpy as np

from degroot.compute.compiled import Array, as_kernel_array, compiled


@compiled
def row_sum(table: Array, row: int, count: int) -> float:
    """The sum of the first `count` numbers of a row."""
    whole = count - count % 4
    a = b = c = d = 0.0
    for j in range(0, whole, 4):
        a += table[row, j]
        b += table[row, j + 1]
        c += table[row, j + 2]
        d += table[row, j + 3]
    for j in range(whole, count):
        a += table[row, j]
    return (a + b) + (c + d)


@compiled
def row_product(table: Array, row: int, other: Array, other_row: int, count: int) -> float:
    """The inner product of the first `count` numbers of two rows."""
    whole = count - count % 4
    a = b = c = d = 0.0
    for j in range(0, whole, 4):
        a += table[row, j] * other[other_row, j]
        b += table[row, j + 1] * other[other_row, j + 1]
        c += table[row, j + 2] * other[other_row, j + 2]
        d += table[row, j + 3] * other[other_row, j + 3]
    for j in range(whole, count):
        a += table[row, j] * other[other_row, j]
    return (a + b) + (c + d)


def find_largest_magnitude(values: Array) -> float:
    """The largest absolute value; 0 of no numbers, NaN where one is not a number.

    Examples
    --------
    >>> find_largest_magnitude(np.array([[1.0, -3.0]])), find_largest_magnitude(np.array([1.0, np.nan, 2.0]))
    (3.0, nan)
    """
    return _find_largest_magnitude(as_kernel_array(values.reshape(-1)))


@compiled
def _find_largest_magnitude(values: Array) -> float:
    """Of (n,): one call, where numpy takes two passes and an array between them."""
    largest = 0.0
    for value in values:
        if np.isnan(value):
            return np.nan
        largest = max(largest, abs(value))
    return largest
