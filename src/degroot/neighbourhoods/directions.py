"""Directions: unit rows, on which the cosine metric is the Euclidean one."""

import math
from typing import Any

import numpy as np
from scipy.sparse import csr_array, hstack, issparse

from degroot.points import compiled


def directions(rows: Any) -> Any:
    """Unit rows, with one more feature that only rows of zeros have: it puts them at a right angle to all others."""
    if issparse(rows):
        lengths = np.sqrt(np.asarray(rows.power(2).sum(axis=1))).ravel()
        empty = csr_array((lengths == 0.0).astype(np.float64)[:, None])
        units = rows.multiply(1.0 / np.where(lengths == 0.0, 1.0, lengths)[:, None])
        return csr_array(hstack([units, empty], format="csr"))
    rows = rows.astype(np.float64)
    scale = np.abs(rows).max(axis=1, initial=0.0, keepdims=True)
    rows /= np.where(scale == 0.0, 1.0, scale)  # squares of tiny or huge rows stay in range
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.hstack([rows / np.where(lengths == 0.0, 1.0, lengths), (lengths == 0.0).astype(np.float64)])


@compiled
def direction_into(rows: Any, row: int, out: Any, place: int) -> None:
    """The direction of one of the rows (n, d), in float64, into ``out[place]``, which has d + 1 features."""
    d = rows.shape[1]
    scale = 0.0
    for j in range(d):
        scale = max(scale, abs(np.float64(rows[row, j])))
    by = 1.0 if scale == 0.0 else scale
    total = 0.0
    for j in range(d):
        out[place, j] = rows[row, j] / by
        total += out[place, j] * out[place, j]
    length = 1.0 if total == 0.0 else math.sqrt(total)
    for j in range(d):
        out[place, j] /= length
    out[place, d] = 1.0 if scale == 0.0 else 0.0
