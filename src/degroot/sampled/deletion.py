r"""Deletion: the weights of the others without an agent, for sixteen agents side by side as the lanes of vectors.

No row is made to sum to 1 before the end: with :math:`o_j = \sum_{k \ne i, j} \tau_{jk}`, what j gives to others who
are left, the solution of :math:`u_k o_k = \sum_{j \ne i, k} u_j \tau_{jk}` has :math:`v_j \propto u_j (o_j +
\tau_{jj})`. Only those who score i give another amount without i than with everybody. So sweeps start from the weights
with everybody, and soon settle.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from degroot.deletions.vectors import largest, load, reciprocal, spread, store, vectors
from degroot.points import Array, compiled
from degroot.sampled.columns import Columns, Peers
from degroot.sampled.relaxation import chance
from degroot.sampled.ties import rounds_without

WIDTH = 16
SWEEPS = 60
EXACT = 1e-10  # sum of the absolute errors of the weights, at most; as a rule it is far less
MET = 1e-11  # sum of the absolute differences between the weights from two starts
BETWEEN = 5  # sweeps between two looks at that
LOOKS = 100
NEARER = 0.7  # how much of the difference may be left from one look to the next
ROUNDING = 4e-16  # of what flows into an agent


class Chain(NamedTuple):
    """One point's trust, by columns, and its consensus."""

    columns: Columns
    flow: Array  # trust in others, by columns
    out: Array  # (K,) trust in all others
    own: Array  # (K,) trust in itself
    weights: Array  # (K,)
    rounds: Array  # (TARGETS, K)
    slack: Array  # (TARGETS, K)


class Room(NamedTuple):
    """Room to work in."""

    u: Array  # vectors
    per_out: Array  # vectors: one over what each agent gives to others who are left; 0 for who is left out
    missing: Array  # for each lane, what the weights miss balance by, at most, over their sum
    lanes: NDArray[np.int64]


@compiled
def room(K: int) -> Room:
    """Room for K agents."""
    return Room(vectors(WIDTH // 8 * K), vectors(WIDTH // 8 * K), vectors(WIDTH // 8), np.empty(WIDTH, np.int64))


@compiled
def delete(chain: Chain, trust: Array, peers: Peers, room: Room, done: NDArray[np.bool_]) -> None:
    """Weights `u` without the agent of each lane, and whether they can be vouched for."""
    K, limit = len(chain.out), np.empty(WIDTH)
    _leave_out(chain, trust, peers, room)
    for lane in range(WIDTH):
        rounds = rounds_without(room.lanes[lane], trust, peers, chain.columns, chain.flow, chain.rounds, chain.slack)
        limit[lane] = EXACT / (2.0 * rounds)
    for _ in range(SWEEPS):
        _sweep(chain, K, room)
        settled = True
        for lane in range(WIDTH):
            done[lane] = room.missing[lane] <= limit[lane]
            settled &= done[lane] or not limit[lane] > 0.0
        if settled:
            return


@compiled
def delete_twice(chain: Chain, trust: Array, peers: Peers, room: Room, done: NDArray[np.bool_]) -> None:
    """As `delete`, for each agent in two lanes, n and n + 8, from two starts: where they have met is the answer."""
    K = len(chain.out)
    _leave_out(chain, trust, peers, room)
    for k in range(K):
        store(room.u, WIDTH * k + 8, spread(chance(k)))
    before = 1.0
    for _ in range(LOOKS):
        for _ in range(BETWEEN):
            _sweep(chain, K, room)
        apart = _apart(chain, K, room, done)
        if apart <= MET or not apart <= NEARER * before:
            return
        before = apart


@compiled
def _apart(chain: Chain, K: int, room: Room, done: NDArray[np.bool_]) -> float:
    """How far the two starts of each agent are apart, at most."""
    one, other, apart = spread(0.0), spread(0.0), spread(0.0)
    for k in range(K):
        at, own = WIDTH * k, spread(chain.own[k])
        one = one + load(room.u, at) * (reciprocal(load(room.per_out, at)) + own)
        other = other + load(room.u, at + 8) * (reciprocal(load(room.per_out, at + 8)) + own)
    one, other = reciprocal(one), reciprocal(other)
    for k in range(K):
        at = WIDTH * k
        difference = _size(load(room.u, at) * one - load(room.u, at + 8) * other)
        apart = apart + difference * (reciprocal(load(room.per_out, at)) + spread(chain.own[k]))
    store(room.missing, 0, apart)
    most = 0.0
    for lane in range(8):
        done[lane] = room.missing[lane] <= MET
        most = max(most, room.missing[lane]) if room.missing[lane] < np.inf else np.inf
    return most


@compiled
def _leave_out(chain: Chain, trust: Array, peers: Peers, room: Room) -> None:
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
            left = given_without(chain, trust, peers, j, i, chain.flow[e])
            room.per_out[WIDTH * j + lane] = 1.0 / left
            room.u[WIDTH * j + lane] *= chain.out[j] / left


@compiled
def given_without(chain: Chain, trust: Array, peers: Peers, j: int, i: int, amount: float) -> float:
    """What j gives to others but i, to whom it gives `amount`."""
    if amount <= 0.5 * chain.out[j]:
        return float(chain.out[j] - amount)
    left = 0.0  # to subtract more than half would lose digits
    for c in range(peers.shape[1]):
        left += trust[j, c] if peers[j, c] != j and peers[j, c] != i else 0.0
    return left


@compiled
def _sweep(chain: Chain, K: int, room: Room) -> None:
    """One sweep over all lanes. What it changes is a bound for what its result misses balance by."""
    start, source, flow, u, rounding = chain.columns.start, chain.columns.source, chain.flow, room.u, spread(ROUNDING)
    miss_a, miss_b, total_a, total_b = spread(0.0), spread(0.0), spread(0.0), spread(0.0)
    for k in range(K):
        a, b = spread(0.0), spread(0.0)
        for e in range(start[k], start[k + 1]):
            given, at = spread(flow[e]), WIDTH * source[e]
            a = a + given * load(u, at)
            b = b + given * load(u, at + 8)
        at, own = WIDTH * k, spread(chain.own[k])
        per_a, per_b = load(room.per_out, at), load(room.per_out, at + 8)
        out_a, out_b = reciprocal(per_a), reciprocal(per_b)
        a, b = a * per_a, b * per_b
        miss_a = miss_a + out_a * (_size(a - load(u, at)) + rounding * a)
        miss_b = miss_b + out_b * (_size(b - load(u, at + 8)) + rounding * b)
        total_a, total_b = total_a + a * (out_a + own), total_b + b * (out_b + own)
        store(u, at, a)
        store(u, at + 8, b)
    store(room.missing, 0, miss_a / total_a)
    store(room.missing, 8, miss_b / total_b)


@compiled
def _size(x: Any) -> Any:
    return largest(x, spread(0.0) - x)
