r"""Relaxation: the weights with which what flows into every agent flows out of it, found by sweeps over the agents.

Gauss and Seidel's iteration for :math:`w_k o_k = \sum_{j \ne k} w_j \tau_{jk}`, with :math:`o_k = \sum_{l \ne k}
\tau_{kl}`. What agents trust in themselves does not occur, however much it is, and nothing is subtracted.

That a sweep changes little proves nothing: groups of agents who hardly listen to each other hardly move. So there are
two starts far from each other, and only when they have met is their common place the answer.
"""

import numpy as np

from degroot.points import Array, compiled
from degroot.sampled.columns import Columns

MET = 2e-14  # sum of the absolute differences between the weights from the two starts
SWEEPS = 400
PATIENCE = 25  # sweeps in which the two starts have to come nearer by at least
NEARER = 0.1


@compiled
def settle(columns: Columns, flow: Array, out: Array, both: Array, weights: Array) -> bool:
    """Weights (K,) that sum to 1; False if they cannot be vouched for. `both` is room for (K, 2) numbers."""
    K = len(out)
    _begin(out, both)
    apart = before = 2.0
    for n in range(SWEEPS):
        _sweep(columns, flow, out, both)
        apart = _difference(both)
        if apart <= MET or not apart < np.inf:
            break
        if n % PATIENCE == PATIENCE - 1:
            if apart > NEARER * before:
                break
            before = apart
    total = both[:, 0].sum()
    for k in range(K):
        weights[k] = both[k, 0] / total
    return apart <= MET


@compiled
def _begin(out: Array, both: Array) -> None:
    """Two starts: in the one everybody gives alike, in the other everybody's weight is at random."""
    least = np.inf
    for k in range(len(out)):
        least = min(least, out[k])
    for k in range(len(out)):
        both[k, 0] = least / out[k]
        both[k, 1] = chance(k)


@compiled
def chance(k: int) -> float:
    """A number for each k as if at random, from 1 on, and now and then so large that it counts among thousands."""
    state = np.uint64(k + 1) * np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return 9007199254740993.0 / (1.0 + float((state ^ (state >> np.uint64(31))) >> np.uint64(11)))


@compiled
def _sweep(columns: Columns, flow: Array, out: Array, both: Array) -> None:
    start, source = columns.start, columns.source
    for k in range(len(out)):
        a = b = c = d = 0.0
        first, last = start[k], start[k + 1]
        whole = last - (last - first) % 2
        for e in range(first, whole, 2):
            a += flow[e] * both[source[e], 0]
            b += flow[e] * both[source[e], 1]
            c += flow[e + 1] * both[source[e + 1], 0]
            d += flow[e + 1] * both[source[e + 1], 1]
        if whole < last:
            a += flow[whole] * both[source[whole], 0]
            b += flow[whole] * both[source[whole], 1]
        both[k, 0], both[k, 1] = (a + c) / out[k], (b + d) / out[k]


@compiled
def _difference(both: Array) -> float:
    a = b = difference = 0.0
    for k in range(len(both)):
        a += both[k, 0]
        b += both[k, 1]
    for k in range(len(both)):
        difference += abs(both[k, 0] / a - both[k, 1] / b)
    return difference
