"""Columns: who scores each model, where agents score a sample of the models."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array
from degroot.compute.kernel import compiled, compiled_for

Peers = NDArray[np.intp]


class ScorerColumns(NamedTuple):
    """The others who score model k, from ``start[k]`` to ``start[k + 1]``, and where their trust in it stands."""

    start: NDArray[np.int64]  # (K + 1,)
    source: NDArray[np.int32]  # agents, in ascending order for each model
    place: NDArray[np.int64]  # in the flattened trust


SCORER_COLUMNS = "ScorerColumns(i8[1] i4[1] i8[1])"  # their types, in signatures of kernels


def columns(peers: Peers) -> ScorerColumns:
    """The columns of a trust matrix with the rows `peers` (K, q), each agent's trust in itself left out."""
    count = int((peers != np.arange(len(peers))[:, None]).sum())
    scorers = ScorerColumns(np.zeros(len(peers) + 1, np.int64), np.empty(count, np.int32), np.empty(count, np.int64))
    _list_scorers(peers, scorers)
    return scorers


@compiled_for(f"i8[2] {SCORER_COLUMNS}")
def _list_scorers(peers: Peers, scorers: ScorerColumns) -> None:
    K, q = peers.shape
    start, source, place = scorers.start, scorers.source, scorers.place
    for j in range(K):
        for c in range(q):
            start[peers[j, c] + 1] += peers[j, c] != j
    for k in range(K):
        start[k + 1] += start[k]
    at = start.copy()
    for j in range(K):
        for c in range(q):
            k = peers[j, c]
            if k != j:
                source[at[k]], place[at[k]] = j, j * q + c
                at[k] += 1


@compiled
def fill(trust: Array, peers: Peers, columns: ScorerColumns, flow: Array, out: Array) -> None:
    """Trust in others in the order of the columns, and each agent's trust in all others, without a subtraction."""
    K, q = peers.shape
    flat = trust.reshape(-1)
    for e in range(len(flow)):
        flow[e] = flat[columns.place[e]]
    for j in range(K):
        total = 0.0
        for c in range(q):
            total += trust[j, c] if peers[j, c] != j else 0.0
        out[j] = total
