"""Opinions."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.agents.agent import Scorer
from degroot.rules.evidence import Evidence, NeighbourhoodSpec, PeerIndices, pooled


def gather(
    scorers: Sequence[Scorer],
    transformed: Sequence[Any],
    reach: NeighbourhoodSpec,
    *,
    moments: bool = False,
    spread: bool = False,
    refuse: bool = True,
    own: tuple[int, NDArray[np.intp]] | None = None,
    peers: PeerIndices | None = None,
) -> Evidence:
    """What all scorers find near M points, as each has `transformed` them; with `peers`, of the models that each scores.

    With `own` the points are rows of one of them, its place and their numbers: it leaves each out. Unless told not to
    `refuse`, nobody's errors and distances may be negative or not numbers.
    """
    M, K = transformed[0].shape[0], len(scorers)
    models = K if peers is None else peers.shape[1]
    found = Evidence.blank(M, K, models, moments=moments, spread=spread, peers=peers)
    for i, (scorer, points) in enumerate(zip(scorers, transformed, strict=True)):
        scorer.measure(found, i, points, reach, own[1] if own is not None and own[0] == i else None)
        if refuse and type(scorer) is not Scorer:
            check_possible(scorer, found, i)
    return found.complete()


def gather_pooled(scorers: Sequence[Scorer], transformed: Sequence[Any], reach: NeighbourhoodSpec) -> Evidence:
    """The pooled moments alone, which is all that weights need: each scorer's own are not kept."""
    M, K = transformed[0].shape[0], len(scorers)
    one = Evidence.blank(M, 1, K, moments=True)

    def testimonies() -> Iterator[Evidence]:
        for scorer, points in zip(scorers, transformed, strict=True):
            scorer.measure(one, 0, points, reach)
            if type(scorer) is not Scorer:
                check_possible(scorer, one, 0)
            yield one

    return pooled(testimonies(), K) or gather(scorers, transformed, reach, moments=True)


def check_possible(scorer: Scorer, found: Evidence, place: int) -> None:
    """Refuse a scorer's errors, or distances, that no rows could give. (Those of a plain `Judge` come from rows.)"""
    if not found.possible(place):
        raise scorer.agent.error("its errors and distances must be numbers that are not negative; some are not.")
