"""Regions: who carries the answers where, in cells of two features."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.exceptions import InvalidInput
from degroot.node.page.encoding import numbers
from degroot.node.page.trust import Agents
from degroot.points import Array

CELLS = (1, 20)


def regions(agents: Agents | None, features: Sequence[str], x: str, y: str, cells: int) -> dict[str, Any] | None:
    """Mean weights in cells between edges that have about equally many points between them, or in one for each value.

    Empty cells are left out.
    """
    for what, name in (("x", x), ("y", y)):
        if name not in features:
            raise InvalidInput(f"`{what}` must be a feature of the collective; got {name[:100]!r}.")
    if agents is None:
        return None
    values = [agents.points[:, features.index(name)] for name in (x, y)]
    edges = [_edges(each, cells) for each in values]
    places = np.stack([_places(*each) for each in zip(values, edges, strict=True)], axis=1)
    pairs, cell = np.unique(places, axis=0, return_inverse=True)
    found = []
    for k, (ix, iy) in enumerate(pairs.tolist()):
        inside = agents.weights[cell == k]
        mean = inside.mean(axis=0)
        top = agents.names[int(mean.argmax())]
        found.append({"ix": ix, "iy": iy, "points": len(inside), "weights": numbers(mean), "top": top})
    return {
        "x": x, "x_edges": numbers(edges[0]), "x_values": _single(values[0], edges[0]),
        "y": y, "y_edges": numbers(edges[1]), "y_values": _single(values[1], edges[1]), "cells": found,
    }  # fmt: skip


def _edges(values: Array, cells: int) -> Array:
    """Where cells begin, and the largest value: a cell for each value if few; fewer cells where many are alike."""
    distinct, counts = np.unique(values, return_counts=True)
    starts: Array = distinct
    if len(distinct) > cells:
        below = np.cumsum(counts) - counts
        first = np.unique(np.searchsorted(below, np.arange(cells) * len(values) / cells))
        starts = distinct[first[first < len(distinct)]]
    return np.append(starts, distinct[-1])


def _places(values: Array, edges: Array) -> NDArray[np.intp]:
    """Between which edges each value is."""
    return np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)


def _single(values: Array, edges: Array) -> bool:
    """Whether each cell holds one value."""
    return len(np.unique(values)) == len(edges) - 1
