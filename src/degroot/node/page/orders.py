"""Orders: the rows of an answer sorted by what is known of them."""

import numpy as np
from numpy.typing import NDArray

from degroot.exceptions import InvalidInput
from degroot.node.page.answer import Answer
from degroot.points import Array

SORTS = ("i", "value", "standard_error", "width", "flags")


def ordered(answer: Answer, sort: str) -> NDArray[np.intp]:
    """The numbers of the rows by `sort`, with a minus the other way round; those without a value come last."""
    name = sort.removeprefix("-")
    if name not in SORTS:
        raise InvalidInput(f"`sort` must be one of {', '.join(SORTS)}, with a minus or without; got {sort[:100]!r}.")
    keys = _keys(answer, name)
    return np.argsort(-keys if sort.startswith("-") else keys, kind="stable")


def _keys(answer: Answer, name: str) -> Array:
    """What rows are sorted by, (M,); the same for all where it is not known."""
    if name == "i":
        return np.arange(len(answer.points), dtype=np.float64)
    if name == "flags":
        return _flags(answer)
    known = _width(answer) if name == "width" else getattr(answer.consensus, name)
    if known is None:
        return np.zeros(len(answer.points))
    largest = name == "value" and bool(answer.classes)
    keys: Array = known if known.ndim == 1 else known.max(axis=1) if largest else known[:, 0]
    return keys


def _flags(answer: Answer) -> Array:
    """Minus how many flags there are: rows with most come first."""
    counts = np.zeros(len(answer.points))
    for flag in answer.consensus.flags:
        np.subtract.at(counts, flag.points, 1.0)
    return counts


def _width(answer: Answer) -> Array | None:
    """Of intervals, or how many classes sets have."""
    consensus = answer.consensus
    if consensus.sets is not None:
        return np.asarray(consensus.sets.sum(axis=1), np.float64)
    return None if consensus.lower is None or consensus.upper is None else consensus.upper - consensus.lower
