"""Trust as one matrix: at a point, or over all points."""

import numpy as np

from degroot.answers import Consensus
from degroot.exceptions import InvalidInput
from degroot.explanations.facts import place
from degroot.points import Array
from degroot.sampled.consensus import dense


def matrix(answer: Consensus, i: int | None) -> Array:
    """Trust (K, K), NaN where there is none."""
    if answer.trust is None or not len(answer.trust):
        raise InvalidInput("`answer` must have the field trust, of at least one point; it has not.")
    known = answer.trust if i is None else answer.trust[place(i, answer.points, "i", "points")][None]
    there = np.isfinite(known)
    count = there.sum(axis=0)
    total = np.where(there, known, 0.0).sum(axis=0)
    mean: Array = np.divide(total, count, out=np.full(count.shape, np.nan), where=count > 0)
    if answer.peers is None:
        return mean
    scored = dense(np.ones(answer.peers.shape), answer.peers) > 0.0
    return np.where(scored, dense(mean, answer.peers), np.nan)


def among(known: Array, places: list[int]) -> Array:
    """The trust of some agents in each other, in shares that sum to 1."""
    some = np.nan_to_num(known[np.ix_(places, places)])
    sums = some.sum(axis=1, keepdims=True)
    return np.where(sums > 0.0, some / np.where(sums > 0.0, sums, 1.0), np.eye(len(places)))
