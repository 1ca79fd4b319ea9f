"""Rows nearby: the numbers of the rows that a question makes a node ask about, when it asks about no others."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from scipy.spatial.distance import cdist

from degroot.evidence import Reach
from degroot.judges import Judge, neighbourhood_size
from degroot.points import Array

NAMES = {"euclidean": "euclidean", "cosine": "cosine", "manhattan": "cityblock"}
SLACK = 1e-9  # rounding: a row more does no harm, a row less would
DISTANCES = 2**22  # at once


def rows_near(judge: Judge, located: Array, reach: Reach) -> NDArray[np.intp]:
    """All rows that are neighbours of any of the `located` points, in ascending order."""
    size = neighbourhood_size(reach, judge.agent.n_rows, judge.agent.error)
    near = np.zeros(judge.agent.n_rows, bool)
    rows: Any = judge.rows.toarray() if issparse(judge.rows) else judge.rows
    block = max(1, DISTANCES // len(near))
    for start in range(0, len(located), block):
        with np.errstate(invalid="ignore"):  # a row of zeros has no direction
            distances = np.nan_to_num(cdist(located[start : start + block], rows, NAMES[judge.metric]), nan=1.0)
        farthest = np.partition(distances, size - 1, axis=1)[:, size - 1 : size]
        near |= (distances <= farthest * (1.0 + SLACK) + SLACK * distances.max(initial=0.0)).any(axis=0)
    return np.flatnonzero(near)
