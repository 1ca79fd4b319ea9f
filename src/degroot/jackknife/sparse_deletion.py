r"""Deletion: the weights of the others without an agent, for sixteen agents side by side as the lanes of vectors.

No row is made to sum to 1 before the end: with :math:`o_j = \sum_{k \ne i, j} \tau_{jk}`, what j gives to others who
are left, the solution of :math:`u_k o_k = \sum_{j \ne i, k} u_j \tau_{jk}` has :math:`v_j \propto u_j (o_j +
\tau_{jj})`. Only those who score i give another amount without i than with everybody. So sweeps start from the weights
with everybody, and soon settle.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array
from degroot.compute.kernel import compiled
from degroot.compute.simd_vectors import largest, load, reciprocal, spread, store, vectors
from degroot.consensus.sparse.columns import Peers, ScorerColumns
from degroot.consensus.sparse.hitting_times import rounds_without
from degroot.consensus.sparse.sweeps import PATIENCE, ROUNDING, SETTLED, SMALLER

WIDTH = 16
SWEEPS = 60
MORE = 2000
EXACT = 1e-9  # sum of the absolute errors of the weights, at most; as a rule it is far less


class Chain(NamedTuple):
    """One point's trust, by columns, and its consensus."""

    columns: ScorerColumns
    flow: Array  # trust in others, by columns
    out: Array  # (K,) trust in all others
    own: Array  # (K,) trust in itself
    weights: Array  # (K,)
    rounds: Array  # (TARGETS, K) to the targets
    slack: Array  # (TARGETS, K)


class DeletionBuffers(NamedTuple):
    """What is known of the agents in each lane, and room to work in. Where it says vectors, two for each agent."""

    lanes: NDArray[np.int64]  # (WIDTH,) whom each lane leaves out
    u: Array  # vectors
    per_out: Array  # vectors: one over what each agent gives to others who are left; 0 for who is left out
    missing: Array  # (WIDTH,) what the weights miss balance by, at most, over their sum
    given: Array  # (WIDTH,) what all agents give to others, over the sum of the weights
    rounds: Array  # vectors


@compiled
def room(K: int) -> DeletionBuffers:
    """Room for K agents."""
    n = WIDTH // 8 * K
    return DeletionBuffers(
        np.empty(WIDTH, np.int64), vectors(n), vectors(n), vectors(WIDTH), vectors(WIDTH), vectors(n)
    )


@compiled
def delete(chain: Chain, trust: Array, peers: Peers, room: DeletionBuffers, sure: NDArray[np.bool_]) -> None:
    """Weights `u` without the agent of each lane, and whether they can be vouched for by the ties with everybody."""
    limit = np.empty(WIDTH)
    leave_out(chain, trust, peers, room)
    for lane in range(WIDTH):
        i = room.lanes[lane]
        rounds = rounds_without(i, trust, peers, chain.columns, chain.flow, chain.rounds, chain.slack)
        limit[lane] = EXACT / (2.0 * rounds)
    for _ in range(SWEEPS):
        _sweep(chain, room)
        settled = True
        for lane in range(WIDTH):
            sure[lane] = room.missing[lane] <= limit[lane]
            settled &= sure[lane] or not limit[lane] > 2.0 * ROUNDING * room.given[lane]
        if settled:
            return


@compiled
def settle(chain: Chain, trust: Array, peers: Peers, room: DeletionBuffers) -> None:
    """As `delete`, as well as sweeps can do it."""
    leave_out(chain, trust, peers, room)
    before = np.inf
    for n in range(MORE):
        _sweep(chain, room)
        worst = 0.0
        for lane in range(WIDTH):
            worst = max(worst, room.missing[lane] / (ROUNDING * room.given[lane]))
        if worst <= SETTLED:
            return
        if n % PATIENCE == PATIENCE - 1:
            if worst > SMALLER * before:
                return
            before = worst


@compiled
def leave_out(chain: Chain, trust: Array, peers: Peers, room: DeletionBuffers) -> None:
    """Begin with the weights with everybody, and all as much to give as before."""
    K, columns = len(chain.out), chain.columns
    for k in range(K):
        for at in range(WIDTH * k, WIDTH * (k + 1), 8):
            store(room.per_out, at, spread(1.0 / chain.out[k]))
            store(room.u, at, spread(chain.weights[k]))
    for lane in range(WIDTH):
        i = room.lanes[lane]
        room.per_out[WIDTH * i + lane] = room.u[WIDTH * i + lane] = 0.0
        for e in range(columns.start[i], columns.start[i + 1]):
            j = columns.source[e]
            left = _given_without(chain, trust, peers, j, i, chain.flow[e])
            room.per_out[WIDTH * j + lane] = 1.0 / left
            room.u[WIDTH * j + lane] *= chain.out[j] / left


@compiled
def _given_without(chain: Chain, trust: Array, peers: Peers, j: int, i: int, amount: float) -> float:
    """What j gives to others but i, to whom it gives `amount`."""
    if amount <= 0.5 * chain.out[j]:
        return float(chain.out[j] - amount)
    left = 0.0  # to subtract more than half would lose digits
    for c in range(peers.shape[1]):
        left += trust[j, c] if peers[j, c] != j and peers[j, c] != i else 0.0
    return left


@compiled
def _sweep(chain: Chain, room: DeletionBuffers) -> None:
    """One sweep over all lanes. What it changes is a bound for what its result misses balance by."""
    start, source, flow, u, rounding = chain.columns.start, chain.columns.source, chain.flow, room.u, spread(ROUNDING)
    change_a, change_b, given_a, given_b = spread(0.0), spread(0.0), spread(0.0), spread(0.0)
    kept_a, kept_b = spread(0.0), spread(0.0)
    for k in range(len(chain.out)):
        a, b = spread(0.0), spread(0.0)
        for e in range(start[k], start[k + 1]):
            amount, at = spread(flow[e]), WIDTH * source[e]
            a = a + amount * load(u, at)
            b = b + amount * load(u, at + 8)
        at, own = WIDTH * k, spread(chain.own[k])
        per_a, per_b = load(room.per_out, at), load(room.per_out, at + 8)
        out_a, out_b = reciprocal(per_a), reciprocal(per_b)
        a, b = a * per_a, b * per_b
        change_a = change_a + out_a * _size(a - load(u, at))
        change_b = change_b + out_b * _size(b - load(u, at + 8))
        given_a, given_b = given_a + out_a * a, given_b + out_b * b
        kept_a, kept_b = kept_a + own * a, kept_b + own * b
        store(u, at, a)
        store(u, at + 8, b)
    store(room.missing, 0, (change_a + rounding * given_a) / (given_a + kept_a))
    store(room.missing, 8, (change_b + rounding * given_b) / (given_b + kept_b))
    store(room.given, 0, given_a / (given_a + kept_a))
    store(room.given, 8, given_b / (given_b + kept_b))


@compiled
def _size(x: Any) -> Any:
    return largest(x, spread(0.0) - x)
