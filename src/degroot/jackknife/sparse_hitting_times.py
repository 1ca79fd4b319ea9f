"""Hitting times without an agent: how long trust takes to a target, measured for sixteen agents side by side.

For those of whom the ties with everybody say too little; see `ties` for what the rounds are good for.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array
from degroot.compute.kernel import compiled
from degroot.compute.simd_vectors import load, reciprocal, spread, store, vectors
from degroot.consensus.sparse.columns import Peers
from degroot.consensus.sparse.hitting_times import FIRST, NEXT, ROUNDING, SLACK, SWEEPS
from degroot.jackknife.sparse_deletion import EXACT, WIDTH, Chain, DeletionBuffers


@compiled
def vouch(chain: Chain, trust: Array, peers: Peers, room: DeletionBuffers, sure: NDArray[np.bool_]) -> None:
    """Whether the weights `u` without the agent of each lane are right."""
    targets, weight, longest = np.empty(WIDTH, np.int64), vectors(WIDTH // 8), np.full(WIDTH, np.inf)
    _choose(chain, room, targets, weight)
    for k in range(len(chain.out)):
        for at in range(WIDTH * k, WIDTH * (k + 1), 8):
            store(room.rounds, at, spread(0.0))
    look = float(FIRST)
    for n in range(SWEEPS):
        for j in range(len(chain.out)):
            for half in range(0, WIDTH, 8):
                _step(chain, trust, peers, room, j, half, targets, weight)
        _shift(chain, room, targets)
        if n >= look:
            if _measure(chain, trust, peers, room, targets, longest):
                break
            look *= NEXT
    for lane in range(WIDTH):
        sure[lane] = 2.0 * room.missing[lane] * longest[lane] <= EXACT


@compiled
def _choose(chain: Chain, room: DeletionBuffers, targets: NDArray[np.int64], weight: Array) -> None:
    """For each lane, the agent of greatest weight, and the sum of all weights over its own."""
    for lane in range(WIDTH):
        total = most = 0.0
        for k in range(len(chain.out)):
            at = WIDTH * k + lane
            if k != room.lanes[lane]:
                whole = room.u[at] * (1.0 / room.per_out[at] + chain.own[k])
                total += whole
                if whole > most:
                    most, targets[lane] = whole, k
        weight[lane] = total / room.u[WIDTH * targets[lane] + lane]


@compiled
def _step(
    chain: Chain,
    trust: Array,
    peers: Peers,
    room: DeletionBuffers,
    j: int,
    half: int,
    targets: NDArray[np.int64],
    weight: Array,
) -> None:
    r"""Let :math:`o_j h_j = \sum_{k \ne i, j} \tau_{jk} h_k + (o_j + \tau_{jj}) s_j`, as in `ties`."""
    at = WIDTH * j + half
    per_out = load(room.per_out, at)
    onward = _onward(trust, peers, room, j, half)
    counted = reciprocal(per_out) * (spread(1.0) + reciprocal(load(room.given, half))) + spread(chain.own[j])
    store(room.rounds, at, per_out * (onward + counted))
    for lane in range(half, half + 8):
        if targets[lane] == j:
            room.rounds[WIDTH * j + lane] -= 2.0 * weight[lane] * room.per_out[WIDTH * j + lane]


@compiled
def _onward(trust: Array, peers: Peers, room: DeletionBuffers, j: int, half: int) -> Any:
    onward = spread(0.0)
    for c in range(peers.shape[1]):
        k = peers[j, c]
        if k != j:
            onward = onward + spread(trust[j, c]) * load(room.rounds, WIDTH * k + half)
    return onward


@compiled
def _shift(chain: Chain, room: DeletionBuffers, targets: NDArray[np.int64]) -> None:
    """Let rounds be 0 at the targets, and at those who are left out."""
    at_target = vectors(WIDTH // 8)
    for lane in range(WIDTH):
        at_target[lane] = room.rounds[WIDTH * targets[lane] + lane]
    for half in range(0, WIDTH, 8):
        shift = load(at_target, half)
        for at in range(half, WIDTH * len(chain.out), WIDTH):
            store(room.rounds, at, load(room.rounds, at) - shift)
    for lane in range(WIDTH):
        room.rounds[WIDTH * room.lanes[lane] + lane] = 0.0


@compiled
def _measure(
    chain: Chain, trust: Array, peers: Peers, room: DeletionBuffers, targets: NDArray[np.int64], longest: Array
) -> bool:
    """The rounds at most for each lane, infinite where they do not prove anything; whether all do."""
    least, slack, rounding = np.full(WIDTH, SLACK), vectors(WIDTH // 8), spread(ROUNDING)
    longest[:] = 0.0
    for j in range(len(chain.out)):
        for half in range(0, WIDTH, 8):
            at = WIDTH * j + half
            out = reciprocal(load(room.per_out, at))
            before, after = out * load(room.rounds, at), _onward(trust, peers, room, j, half)
            left = before - after - rounding * (before + after)
            store(slack, half, left / (out + spread(chain.own[j])))
        for lane in range(WIDTH):
            if j != targets[lane] and j != room.lanes[lane]:
                rounds = room.rounds[WIDTH * j + lane]
                least[lane] = min(least[lane], slack[lane]) if rounds > 0.0 else -1.0
                longest[lane] = max(longest[lane], rounds)
    proven = True
    for lane in range(WIDTH):
        longest[lane] = longest[lane] / least[lane] if least[lane] > 0.0 else np.inf
        proven &= least[lane] >= SLACK
    return proven
