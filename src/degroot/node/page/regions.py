"""Regions: who carries the answers where, in cells of two features."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from degroot.exceptions import InvalidInput
from degroot.node.page.encoding import numbers
from degroot.node.page.trust import Agents
from degroot.node.sample import Answers
from degroot.points import Array

CELLS = (1, 20)


def regions(answers: Sequence[Answers], features: Sequence[str], x: str, y: str, cells: int) -> dict[str, Any] | None:
    """Mean weights in cells between edges that have equally many points between them; empty cells are left out."""
    for what, name in (("x", x), ("y", y)):
        if name not in features:
            raise InvalidInput(f"`{what}` must be a feature of the collective; got {name[:100]!r}.")
    if not answers:
        return None
    agents = Agents.of(answers)
    edges = [_edges(agents.points[:, features.index(name)], cells) for name in (x, y)]
    places = [_place(agents.points[:, features.index(name)], each) for name, each in zip((x, y), edges, strict=True)]
    pairs, cell = np.unique(np.stack(places, axis=1), axis=0, return_inverse=True)
    found = []
    for k, (ix, iy) in enumerate(pairs.tolist()):
        inside = agents.weights[cell == k]
        mean = inside.mean(axis=0)
        top = agents.names[int(mean.argmax())]
        found.append({"ix": ix, "iy": iy, "points": len(inside), "weights": numbers(mean), "top": top})
    return {"x": x, "y": y, "x_edges": numbers(edges[0]), "y_edges": numbers(edges[1]), "cells": found}


def _edges(values: Array, cells: int) -> Array:
    """Edges from the least value to the largest; fewer cells where many values are alike."""
    edges: Array = np.unique(np.quantile(values, np.linspace(0.0, 1.0, cells + 1)))
    return edges if len(edges) > 1 else np.array([edges[0], edges[0]])


def _place(values: Array, edges: Array) -> Any:
    return np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)
