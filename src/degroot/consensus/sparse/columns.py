"""Columns: who scores each model, where agents score a sample of the models."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array, compiled

Peers = NDArray[np.intp]


class ScorerColumns(NamedTuple):
    """The others who score model k, from ``start[k]`` to ``start[k + 1]``, and where their trust in it stands."""

    start: NDArray[np.int64]  # (K + 1,)
    source: NDArray[np.int32]  # agents, in ascending order for each model
    place: NDArray[np.int64]  # in the flattened trust


@compiled
def columns(peers: Peers) -> ScorerColumns:
    """The columns of a trust matrix with the rows `peers` (K, q), each agent's trust in itself left out."""
    K, q = peers.shape
    start = np.zeros(K + 1, np.int64)
    for j in range(K):
        for c in range(q):
            start[peers[j, c] + 1] += peers[j, c] != j
    for k in range(K):
        start[k + 1] += start[k]
    source, place, at = np.empty(start[K], np.int32), np.empty(start[K], np.int64), start.copy()
    for j in range(K):
        for c in range(q):
            k = peers[j, c]
            if k != j:
                source[at[k]], place[at[k]] = j, j * q + c
                at[k] += 1
    return ScorerColumns(start, source, place)


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
