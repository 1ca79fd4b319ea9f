"""Random trees: cells of feature space that everybody draws alike from a public seed, without a look at any row."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array
from degroot.exceptions import InvalidInput
from degroot.maps.settings import MapSettings

Cells = NDArray[np.intp]
MIDDLE = (0.25, 0.75)  # of a cell's side: where it may be cut


@dataclass(frozen=True)
class CellTrees:
    """T complete binary trees of depth D over the unit cube. The children of node v are 2v + 1 and 2v + 2."""

    low: Array  # (d,) of the features' ranges
    span: Array  # (d,)
    features: Cells  # (T, 2^D - 1) which feature a node looks at
    cuts: Array  # (T, 2^D - 1) below which, in the unit cube, a point goes left

    def find_cells(self, points: Array) -> Cells:
        """The cell of each of M points in each tree, (T, M). Beyond a range counts as its end, NaN as its least."""
        if points.ndim != 2 or points.shape[1] != len(self.low):
            raise InvalidInput(f"Points must have {len(self.low)} features, as `ranges` has; got shape {points.shape}.")
        with np.errstate(invalid="ignore", over="ignore"):
            unit = np.nan_to_num((points - self.low) / self.span, nan=0.0)
        nodes, places = self.features.shape[1], np.arange(len(points))
        cells = np.empty((len(self.features), len(points)), np.intp)
        for features, cuts, cell in zip(self.features, self.cuts, cells, strict=True):
            node = np.zeros(len(points), np.intp)
            for _ in range(nodes.bit_length()):
                node = 2 * node + 1 + (unit[places, features[node]] >= cuts[node])
            cell[:] = node - nodes
        return cells


def draw_trees(settings: MapSettings) -> CellTrees:
    """The trees of these settings. Ranges and the seed decide them: the same on every machine."""
    return _draw(settings.ranges, settings.seed, settings.n_trees, settings.n_levels)


@lru_cache(maxsize=8)
def _draw(ranges: Sequence[tuple[float, float]], seed: int, trees: int, depth: int) -> CellTrees:
    """A node's feature is drawn in proportion to the sides of its cell, and its cut from the middle of that side."""
    low, high = np.array(ranges, float).T
    random = np.random.PCG64(seed)  # bits, which numpy keeps the same in all versions, not distributions
    nodes = 2**depth - 1
    drawn = (random.random_raw(2 * trees * nodes) >> np.uint64(11)) * 2.0**-53
    which, where = drawn.reshape(2, trees, nodes)
    features, cuts = np.empty((trees, nodes), np.intp), np.empty((trees, nodes))
    begin, end = np.zeros((trees, 1, len(low))), np.ones((trees, 1, len(low)))
    for level in range(depth):
        part = slice(2**level - 1, 2 ** (level + 1) - 1)
        sides = np.cumsum(end - begin, axis=-1)
        chosen = (which[:, part, None] * sides[..., -1:] >= sides[..., :-1]).sum(axis=-1)
        first, last = (np.take_along_axis(each, chosen[..., None], axis=-1)[..., 0] for each in (begin, end))
        cut = first + (last - first) * (MIDDLE[0] + (MIDDLE[1] - MIDDLE[0]) * where[:, part])
        features[:, part], cuts[:, part] = chosen, cut
        right, left = begin.copy(), end.copy()
        np.put_along_axis(right, chosen[..., None], cut[..., None], axis=-1)
        np.put_along_axis(left, chosen[..., None], cut[..., None], axis=-1)
        begin = np.stack([begin, right], axis=2).reshape(trees, -1, len(low))
        end = np.stack([left, end], axis=2).reshape(trees, -1, len(low))
    return CellTrees(low, high - low, features, cuts)
