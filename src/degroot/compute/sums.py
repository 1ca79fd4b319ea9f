"""Sums over rows, four at a time in an order that is always the same.

One running sum waits for each addition before the next. Leave to add in any order would let the compiler decide anew
with every call, and the last bit with it. Four running sums are faster than the one and as certain.
"""

from degroot.compute.compiled import Array
from degroot.compute.kernel import compiled


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
