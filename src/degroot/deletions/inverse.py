"""The inverse of a matrix, eight rows at a time."""

from degroot.deletions.vectors import add_product, load, product, spread, store
from degroot.points import Array, compiled


@compiled
def invert(a: Array, n: int, rows: Array, columns: Array, block: Array) -> None:
    """Gauss and Jordan's inverse in place, eight rows at a time; pivots as they come, for diagonally dominant `a`."""
    for low in range(0, n, 8):
        _invert_block(a, n, low, block)
        for j in range(n):
            for p in range(8):
                columns[p * n + j] = -a[j * n + low + p]
            store(a, j * n + low, spread(0.0))
        for p in range(8):
            a[(low + p) * n + low + p] = 1.0
        for k in range(0, n, 8):
            product(block, 0, 8, a, low * n + k, n, 8, rows, k, n)
        for j in range(0, n, 8):
            for k in range(0, n, 8):
                if j != low:
                    add_product(columns, j, n, rows, k, n, 8, a, j * n + k, n)
                else:
                    for p in range(8):
                        store(a, (low + p) * n + k, load(rows, p * n + k))


@compiled
def _invert_block(a: Array, n: int, low: int, block: Array) -> None:
    """The transposed inverse of the 8 x 8 numbers of `a` from (low, low) on."""
    for j in range(8):
        for k in range(8):
            block[8 * k + j] = a[(low + j) * n + low + k]
    for p in range(8):
        pivot = 1.0 / block[9 * p]
        block[9 * p] = 1.0
        for k in range(8):
            block[8 * p + k] *= pivot
        for j in range(8):
            if j != p:
                factor = block[8 * j + p]
                block[8 * j + p] = 0.0
                for k in range(8):
                    block[8 * j + k] -= factor * block[8 * p + k]
