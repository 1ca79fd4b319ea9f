"""How the consensus would change without one agent, where agents score a sample of the models."""

import numpy as np
from numpy.typing import NDArray

from degroot import consensus
from degroot.compute.compiled import Array, as_kernel_array, in_blocks, over_points
from degroot.compute.kernel import compiled, compiled_for
from degroot.consensus.sparse.columns import SCORER_COLUMNS, Peers, ScorerColumns, columns, fill
from degroot.consensus.sparse.hitting_times import TARGETS, hitting_times
from degroot.consensus.sparse.weights import FEW, dense, solve
from degroot.jackknife import sparse_deletion
from degroot.jackknife.elimination import delete_each
from degroot.jackknife.sparse_deletion import WIDTH, Chain, delete, settle
from degroot.jackknife.sparse_hitting_times import vouch

TILE = 4 * WIDTH  # agents whom a thread leaves out before it takes the next
MODEST = 1024  # agents up to whom whole matrices, eight side by side, are not too large


def solve_without(trust: Array, peers: Peers, beliefs: Array) -> Array:
    r"""Consensus values of the others, :math:`p^*_{-i} = \sum_j v^{(i)}_j p_j`, for every agent left out in turn.

    Agent i's row and column go, and the rows of those who scored it sum to 1 again.

    Parameters
    ----------
    trust : (M, K, q)
        Rows sum to 1, such that everybody reaches everybody by trust that is positive, whoever is left out.
    peers : (K, q)
        The models that each agent scores, in ascending order.
    beliefs : (M, K) or (M, K, Q)

    Returns
    -------
    As `beliefs`
        NaN for K = 1: nobody is left.
    """
    trust, peers = as_kernel_array(trust), np.require(peers, np.intp, ["C", "A", "W"])
    told = as_kernel_array(beliefs.reshape(*trust.shape[:2], -1))
    if len(peers) <= FEW:
        return _of_few(dense(trust, peers), told).reshape(beliefs.shape)
    scorers, weights, values = columns(peers), solve(trust, peers), np.empty_like(told)

    def work(start: int, stop: int) -> None:
        for m in range(start, stop):
            _values(trust[m], peers, scorers, weights[m], told[m], values[m])

    in_blocks(work, len(trust), 1)
    return values.reshape(beliefs.shape)


def _of_few(trust: Array, beliefs: Array) -> Array:
    """The same, by the deletions from whole matrices (M, K, K); beliefs are (M, K, Q)."""
    M, K, Q = beliefs.shape
    if K == 1:
        return np.full_like(beliefs, np.nan)
    values, no_weights = np.empty((Q, M, K)), np.empty((0, K, K))

    def kernel(trust: Array, beliefs: Array, values: Array) -> None:
        delete_each(trust, beliefs, values, no_weights)

    for o in range(Q):
        over_points(kernel, trust, np.ascontiguousarray(beliefs[..., o]), values[o])
    return np.moveaxis(values, 0, -1)


def _values(trust: Array, peers: Peers, scorers: ScorerColumns, weights: Array, beliefs: Array, values: Array) -> None:
    """By what is known of the ties with everybody; who cannot be vouched for, anew; the rest by elimination."""
    K = len(peers)
    chain, done = _chain(trust, peers, scorers, weights), np.zeros(K, np.bool_)

    def leave_out(agents: Peers, anew: bool) -> None:
        in_blocks(
            lambda start, stop: _leave_out(chain, trust, peers, agents[start:stop], anew, beliefs, values, done),
            len(agents),
            TILE,
        )

    if K <= MODEST and np.isnan(chain.rounds).all():  # groups that hardly listen to each other
        values[:] = _of_few(dense(trust[None], peers), beliefs[None])[0]
        return
    leave_out(np.arange(K), anew=False)
    leave_out(np.flatnonzero(~done), anew=True)
    for i in np.flatnonzero(~done):
        values[i] = _value(trust, peers, int(i), beliefs)


def _chain(trust: Array, peers: Peers, scorers: ScorerColumns, weights: Array) -> Chain:
    K = len(peers)
    flow, out, own = np.empty(len(scorers.source)), np.empty(K), np.zeros(K)
    chain = Chain(scorers, flow, out, own, weights, np.empty((TARGETS, K)), np.empty((TARGETS, K)))
    _measure_chain(trust, peers, chain)
    return chain


@compiled_for(f"f8[2] i8[2] Chain({SCORER_COLUMNS} f8[1] f8[1] f8[1] f8[1] f8[2] f8[2])")
def _measure_chain(trust: Array, peers: Peers, chain: Chain) -> None:
    fill(trust, peers, chain.columns, chain.flow, chain.out)
    for j in range(len(peers)):
        for c in range(peers.shape[1]):
            chain.own[j] += trust[j, c] if peers[j, c] == j else 0.0
    hitting_times(trust, peers, chain.out, chain.weights, chain.rounds, chain.slack)


@compiled_for(f"Chain({SCORER_COLUMNS} f8[1] f8[1] f8[1] f8[1] f8[2] f8[2]) f8[2] i8[2] i8[1] b1 f8[2] f8[2] b1[1]")
def _leave_out(
    chain: Chain,
    trust: Array,
    peers: Peers,
    agents: Peers,
    anew: bool,
    beliefs: Array,
    values: Array,
    done: NDArray[np.bool_],
) -> None:
    room, sure = sparse_deletion.room(len(peers)), np.zeros(WIDTH, np.bool_)
    for first in range(0, len(agents), WIDTH):
        for lane in range(WIDTH):
            room.lanes[lane] = agents[min(first + lane, len(agents) - 1)]
        if anew:
            settle(chain, trust, peers, room)
            vouch(chain, trust, peers, room, sure)
        else:
            delete(chain, trust, peers, room, sure)
        for lane in range(min(WIDTH, len(agents) - first)):
            if sure[lane]:
                done[room.lanes[lane]] = True
                _pool(chain, beliefs, room.lanes[lane], lane, room, values)


@compiled
def _pool(
    chain: Chain, beliefs: Array, i: int, lane: int, room: sparse_deletion.DeletionBuffers, values: Array
) -> None:
    total = 0.0
    values[i, :] = 0.0
    for k in range(len(chain.out)):
        if k != i:
            at = WIDTH * k + lane
            weight = room.u[at] * (1.0 / room.per_out[at] + chain.own[k])
            total += weight
            for o in range(beliefs.shape[1]):
                values[i, o] += weight * beliefs[k, o]
    for o in range(beliefs.shape[1]):
        values[i, o] /= total


def _value(trust: Array, peers: Peers, i: int, beliefs: Array) -> Array:
    others = np.arange(len(peers)) != i
    matrix = dense(trust, peers)[np.ix_(others, others)]
    weights = consensus.stationary(matrix / matrix.sum(axis=1, keepdims=True))
    return np.asarray(weights @ beliefs[others])
