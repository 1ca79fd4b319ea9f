"""Rounds: how the agents would come to agree on one row of an answer, if they pooled."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.consensus import trace_pooling
from degroot.node.page.answer import Answer
from degroot.node.page.encoding import numbers
from degroot.points import Array

AGREED = 1e-6  # how far apart beliefs may be in the end, over how far apart they were at first
POOLED = "degroot"  # the rule whose answer is what pooling in rounds comes to


def rounds_of(answer: Answer, i: int, here: Sequence[bool]) -> list[list[Any]] | None:
    r"""What every agent believes, round by round, :math:`p \leftarrow T p`, until all agree; None where nobody knows.

    `here`: which agents take part; the others believe nothing.
    """
    trust, beliefs = answer.consensus.trust, answer.consensus.beliefs
    members = np.flatnonzero(here)
    if trust is None or beliefs is None or answer.rule != POOLED or not len(members):
        return None
    shares, told = trust[i][np.ix_(members, members)], beliefs[i, members]
    with np.errstate(invalid="ignore"):  # who trusts no member
        shares = shares / shares.sum(axis=1, keepdims=True)
    if not (np.isfinite(shares).all() and np.isfinite(told).all()):
        return None
    path = trace_pooling(shares, told.T, AGREED)
    return [_spread(each.T, members, len(here)) for each in path]


def _spread(beliefs: Array, members: NDArray[np.intp], K: int) -> list[Any]:
    """A place for everybody."""
    told: list[Any] = [None] * K
    for k, belief in zip(members.tolist(), beliefs, strict=True):
        told[k] = numbers(belief)
    return told
