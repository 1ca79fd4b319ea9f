r"""Relaxation sweeps: the weights with which what flows into every agent flows out of it, agent after agent.

Gauss and Seidel's iteration for :math:`w_k o_k = \sum_{j \ne k} w_j \tau_{jk}`, with :math:`o_k = \sum_{l \ne k}
\tau_{kl}`. What agents trust in themselves does not occur, however much it is, and nothing is subtracted.
"""

import numpy as np

from degroot.compute.compiled import Array
from degroot.compute.kernel import compiled
from degroot.consensus.sparse.columns import ScorerColumns

SWEEPS = 2000
WORTH = 0.1  # of all pairs of agents: how much work sweeps may be, over that of an elimination
PATIENCE = 20  # sweeps after which the changes have to be
SMALLER = 0.7  # than before by this factor
ROUNDING = 4e-16  # of what flows into an agent
SETTLED = 2.0  # times the rounding, which no sweep gets below


@compiled
def settle(columns: ScorerColumns, flow: Array, out: Array, weights: Array) -> float:
    r"""Weights (K,) that sum to 1, and a bound for :math:`\|w T - w\|_1`, the sum over all agents.

    Gauss and Seidel's result misses balance by what agents gave more, or less, in the last sweep, at most.
    """
    K = len(out)
    least = out.min()
    for k in range(K):
        weights[k] = least / out[k]
    missing = before = np.inf
    for n in range(min(SWEEPS, max(4 * PATIENCE, int(WORTH * K**3 / len(flow))))):
        change, given = _sweep(columns, flow, out, weights)
        missing = change + ROUNDING * given
        if change <= (SETTLED - 1.0) * ROUNDING * given or not given < np.inf:
            break
        if n % PATIENCE == PATIENCE - 1:
            if change > SMALLER * before:
                break
            before = change
    total = weights.sum()
    for k in range(K):
        weights[k] /= total
    return float(missing / total)


@compiled
def _sweep(columns: ScorerColumns, flow: Array, out: Array, weights: Array) -> tuple[float, float]:
    """What agents give more, or less, than before the sweep, and what they give, in all."""
    start, source = columns.start, columns.source
    change = given = 0.0
    for k in range(len(out)):
        a = b = c = d = 0.0
        first, last = start[k], start[k + 1]
        whole = last - (last - first) % 4
        for e in range(first, whole, 4):
            a += flow[e] * weights[source[e]]
            b += flow[e + 1] * weights[source[e + 1]]
            c += flow[e + 2] * weights[source[e + 2]]
            d += flow[e + 3] * weights[source[e + 3]]
        for e in range(whole, last):
            a += flow[e] * weights[source[e]]
        inflow = (a + b) + (c + d)
        change += abs(inflow - weights[k] * out[k])
        given += inflow
        weights[k] = inflow / out[k]
    return change, given
