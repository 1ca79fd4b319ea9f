"""The cost model: which way through a large set looks at the fewest rows, counted on a sample. No times are taken.

A cost is that of a question, in units of what it takes to look at every row in all its features. The factors were
measured on one core: they matter only as ratios.
"""

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array
from degroot.neighbourhoods.codes import MANHATTAN
from degroot.neighbourhoods.large.layout import distances_to
from degroot.neighbourhoods.large.sample import RowSample

ASKED = 64  # rows of the sample
PAIR = 9.0  # what it takes to look at a single row, where to look at one of many is 1
SCATTERED = 5.0  # the same for rows in clusters: four queries look together, and rows lie scattered in memory
DIRECTIONS = (4, 8, 12, 16, 24, 32, 48, 64)
MOST_FEATURES = 1024  # for principal components


class Trial:
    """Some rows of a sample, and how far their neighbourhoods reach."""

    def __init__(self, sample: RowSample, size: int, n: int, metric: int) -> None:
        self.sample, self.metric = sample, metric
        self.asked = sample.rows[:: max(1, len(sample.rows) // ASKED)]
        rank = min(max(1, round(size * len(sample.rows) / n)), len(sample.rows) - 1)
        self.reach = np.partition(distances_to(sample.rows, self.asked, metric), rank, axis=1)[:, rank]

    def cost_of_clusters(self, centres: Array) -> float:
        """The cost of a search that passes over clusters around these centres."""
        gaps = distances_to(centres, self.sample.rows, self.metric)
        apart = distances_to(centres, self.asked, self.metric)[:, gaps.argmin(axis=1)]
        met = np.abs(apart - gaps.min(axis=1)) <= self.reach[:, None]
        return 0.05 + SCATTERED * float(met.mean())

    def cheapest_screen(self) -> tuple[float, NDArray[np.float32]]:
        """The cost of a search behind the best screen, and its directions (directions, d); none: 1."""
        d = self.sample.rows.shape[1]
        best, basis = 1.0, np.empty((0, d), np.float32)
        if self.metric == MANHATTAN or not DIRECTIONS[0] * 4 <= d <= MOST_FEATURES:
            return best, basis
        components = principal(self.sample.rows.astype(np.float64))
        for count in (each for each in DIRECTIONS if 2 * each <= d):
            few = components[:count].T
            gaps = distances_to(self.sample.rows @ few, self.asked @ few, self.metric)
            cost = 0.1 + (count + 1) / (d + 1) + PAIR * float((gaps <= self.reach[:, None]).mean())
            if cost < best:
                best, basis = cost, components[:count].astype(np.float32)
        return best, basis


def principal(rows: Array) -> Array:
    """The principal components of some rows, the first first, (d, d)."""
    apart = rows - rows.mean(axis=0)
    apart /= max(float(np.abs(apart).max(initial=0.0)), np.finfo(np.float64).tiny)
    components: Array = np.linalg.eigh(apart.T @ apart)[1].T[::-1]
    return components
