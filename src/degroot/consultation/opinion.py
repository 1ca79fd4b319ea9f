"""Opinions."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.agents.agent import Scorer
from degroot.rules.evidence import Evidence, NeighbourhoodSpec, PeerIndices, pooled


def gather(
    judges: Sequence[Scorer],
    located: Sequence[Any],
    reach: NeighbourhoodSpec,
    *,
    moments: bool = False,
    spread: bool = False,
    refuse: bool = True,
    own: tuple[int, NDArray[np.intp]] | None = None,
    peers: PeerIndices | None = None,
) -> Evidence:
    """What all judges find near M points, each `located` by each judge; with `peers`, of the models that each scores.

    With `own` the points are rows of one of them, its place and their numbers: it leaves each out. Unless told not to
    `refuse`, nobody's errors and distances may be negative or not numbers.
    """
    M, K = located[0].shape[0], len(judges)
    models = K if peers is None else peers.shape[1]
    found = Evidence.blank(M, K, models, moments=moments, spread=spread, peers=peers)
    for i, (judge, points) in enumerate(zip(judges, located, strict=True)):
        judge.testify(found, i, points, reach, own[1] if own is not None and own[0] == i else None)
        if refuse and type(judge) is not Scorer:
            check_possible(judge, found, i)
    return found.complete()


def gather_pooled(judges: Sequence[Scorer], located: Sequence[Any], reach: NeighbourhoodSpec) -> Evidence:
    """The pooled moments alone, which is all that weights need: each judge's own are not kept."""
    M, K = located[0].shape[0], len(judges)
    one = Evidence.blank(M, 1, K, moments=True)

    def testimonies() -> Iterator[Evidence]:
        for judge, points in zip(judges, located, strict=True):
            judge.testify(one, 0, points, reach)
            if type(judge) is not Scorer:
                check_possible(judge, one, 0)
            yield one

    return pooled(testimonies(), K) or gather(judges, located, reach, moments=True)


def check_possible(judge: Scorer, found: Evidence, place: int) -> None:
    """Refuse a judge's errors, or distances, that no rows could give. (Those of a plain `Judge` come from rows.)"""
    if not found.possible(place):
        raise judge.agent.error("its errors and distances must be numbers that are not negative; some are not.")
