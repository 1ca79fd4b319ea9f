r"""The consensus without each agent in turn, eight of them side by side as the lanes of vectors.

No row is made to sum to 1 before the end: with :math:`o_j = \sum_{k \ne i, j} \tau_{jk}`, what j gives to others who
are left, the solution of :math:`u_k o_k = \sum_{j \ne i, k} u_j \tau_{jk}`, what k gives is what k gets, has
:math:`v_j \propto u_j (o_j + \tau_{jj})`.
"""

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array
from degroot.compute.kernel import compiled, compiled_for
from degroot.compute.simd_vectors import load, spread, store, vectors
from degroot.jackknife import perturbation
from degroot.jackknife.elimination_kernels import masked_tile, masked_tile_times_block, tile, tile_times_block, visits
from degroot.jackknife.perturbation import Places

Flags = NDArray[np.bool_]

MANY = 48  # agents beyond which the others' weights are first sought near those with everyone


def delete_each(trust: Array, beliefs: Array, values: Array, weights: Array) -> None:
    """What the others agree on without each agent in turn.

    From positive trust (M, K, K), K at least 2, and beliefs (M, K): values (M, K), weights (M, K, K). Where `weights`
    holds no points, none are kept.
    """
    if trust.shape[1] <= MANY:
        delete_few(trust, beliefs, values, weights)
    else:
        delete_many(trust, beliefs, values, weights)


@compiled_for("f8[3] f8[2] f8[2] f8[3]")
def delete_few(trust: Array, beliefs: Array, values: Array, weights: Array) -> None:
    """Every one by elimination."""
    M, K = trust.shape[0], trust.shape[1]
    n = (K + 3) // 4 * 4  # with agents whom nobody trusts
    flows, totals, rests, lanes = np.zeros(n * n), np.empty(K), np.empty(K), np.empty(8, np.int64)
    keep, given, out, u, flow = vectors(n), vectors(n), vectors(n), vectors(n), vectors((n | 1) * n)
    masked, leaving, order = np.empty(n // 4, np.bool_), vectors(4), np.arange(K)
    for m in range(M):
        _flows(trust[m], order, n, flows, totals, rests)
        for first in range(0, K, 8):
            for lane in range(8):
                lanes[lane] = min(first + lane, K - 1)
            _leave_out(flows, K, n, totals, rests, lanes, keep, given, out)
            _eliminate(flows, n, lanes, keep, masked, leaving, flow, n | 1, u)
            _pool(trust, beliefs, m, order, lanes, out, u, values)
            if len(weights):
                _keep(weights[m], order, lanes, u)


@compiled_for("f8[3] f8[2] f8[2] f8[3]")
def delete_many(trust: Array, beliefs: Array, values: Array, weights: Array) -> None:
    """As `delete_few`, with an elimination only for those whom `perturbation` cannot vouch for."""
    M, K = trust.shape[0], trust.shape[1]
    n = (K + 7) // 8 * 8
    flows, totals, rests, lanes = vectors(n * n // 8), np.empty(K), np.empty(K), np.empty(8, np.int64)
    keep, given, out, u, flow = vectors(n), vectors(n), vectors(n), vectors(n), vectors((n | 1) * n)
    masked, leaving = np.empty(n // 4, np.bool_), vectors(4)
    order, room = np.arange(K), perturbation.room(n)
    flows[:] = 0.0
    for m in range(M):
        perturbation.sort(trust[m], order, totals)
        _flows(trust[m], order, n, flows, totals, rests)
        perturbation.prepare(flows, K, n, room)
        for first in range(0, K, 8):
            for lane in range(8):
                lanes[lane] = min(first + lane, K - 1)
            _leave_out(flows, K, n, totals, rests, lanes, keep, given, out)
            if not perturbation.solve(flows, K, n, lanes, keep, given, out, room, u):
                _eliminate(flows, n, lanes, keep, masked, leaving, flow, n | 1, u)
            _pool(trust, beliefs, m, order, lanes, out, u, values)
            if len(weights):
                _keep(weights[m], order, lanes, u)


@compiled
def _flows(trust: Array, order: Places, n: int, flows: Array, totals: Array, rests: Array) -> None:
    """Trust in others, the total of each agent, and the total of all but the biggest, agents taken in `order`."""
    K = len(trust)
    for j in range(K):
        row = order[j]
        for k in range(K):
            flows[j * n + k] = trust[row, order[k]]
        flows[j * n + j] = 0.0
        rest, a, b, c, d = 0.0, 0.0, 0.0, 0.0, 0.0
        for at in range(j * n, j * n + n, 4):
            w, x, y, z = flows[at], flows[at + 1], flows[at + 2], flows[at + 3]
            rest += (min(a, w) + min(b, x)) + (min(c, y) + min(d, z))
            a, b, c, d = max(a, w), max(b, x), max(c, y), max(d, z)
        rests[j] = rest + (min(a, b) + min(c, d)) + min(max(a, b), max(c, d))
        totals[j] = rests[j] + max(max(a, b), max(c, d))


@compiled
def _leave_out(
    flows: Array, K: int, n: int, totals: Array, rests: Array, lanes: Places, keep: Array, given: Array, out: Array
) -> None:
    """Whom each lane keeps, what every agent gives to who is left out, and to others who are kept."""
    for j in range(n):
        store(keep, 8 * j, spread(1.0 if j < K else 0.0))
    for lane in range(8):
        keep[8 * lanes[lane] + lane] = 0.0
    in_a_row = lanes[7] == lanes[0] + 7
    for j in range(K):
        if in_a_row and rests[j] >= 0.5 * totals[j]:
            store(given, 8 * j, load(flows, j * n + lanes[0]))
            store(out, 8 * j, spread(totals[j]) - load(given, 8 * j))
            continue
        for lane in range(8):
            amount = flows[j * n + lanes[lane]]
            given[8 * j + lane] = amount
            # to subtract more than half would lose digits
            out[8 * j + lane] = rests[j] if amount > 0.5 * totals[j] else totals[j] - amount


@compiled
def _eliminate(
    trust: Array, n: int, lanes: Places, keep: Array, masked: Flags, leaving: Array, flow: Array, stride: int, u: Array
) -> None:
    """Solve the balance by the elimination of Grassmann, Taksar and Heyman (1985), four agents at a time.

    Flows to and from the agent that is left out are 0. Nothing is ever subtracted, so that every weight is right to the
    last digits. The last four agents go first. Above the diagonal blocks `flow` becomes the weight that the four get
    from each of those before them, below the flow from the four to those before them.
    """
    for block in range(n // 4):
        masked[block] = False
    for lane in range(8):
        masked[lanes[lane] // 4] = True
    for low in range(n - 4, -1, -4):
        top = low + 4
        for column in range(0, top, 4):
            if masked[low // 4] or masked[column // 4]:
                masked_tile(flow, stride, low, column, top, trust, n, keep)
            else:
                tile(flow, stride, low, column, top, trust, n, keep)
        _sum_rows(flow, stride, low, leaving)
        if low == 0:  # what is left of the flow returns to agent 0, or to 1 if it is agent 0 who is left out
            store(leaving, 0, load(keep, 0))
            store(leaving, 8, spread(1.0) - load(keep, 0))
        visits(flow, stride, low, leaving)
        for row in range(0, low, 4):
            if masked[low // 4] or masked[row // 4]:
                masked_tile_times_block(flow, stride, row, low, top, trust, n, keep)
            else:
                tile_times_block(flow, stride, row, low, top, trust, n, keep)
    _substitute(flow, stride, n, keep, u)


@compiled
def _sum_rows(flow: Array, stride: int, low: int, leaving: Array) -> None:
    """What leaves the four agents from `low` on, to all before them."""
    a, b, c, d = spread(0.0), spread(0.0), spread(0.0), spread(0.0)
    row = 8 * stride
    for at in range(low * row, low * row + 8 * low, 8):
        a = a + load(flow, at)
        b = b + load(flow, at + row)
        c = c + load(flow, at + 2 * row)
        d = d + load(flow, at + 3 * row)
    store(leaving, 0, a)
    store(leaving, 8, b)
    store(leaving, 16, c)
    store(leaving, 24, d)


@compiled
def _substitute(flow: Array, stride: int, n: int, keep: Array, u: Array) -> None:
    """Weights from the eliminated flow, four agents at a time, the first ones first."""
    zero_stays, zero_goes = load(keep, 0), spread(1.0) - load(keep, 0)
    for at in range(0, 32, 8):
        store(u, at, zero_stays * load(flow, at) + zero_goes * load(flow, 8 * stride + at))
    for low in range(32, 8 * n, 32):
        a, b, c, d = spread(0.0), spread(0.0), spread(0.0), spread(0.0)
        for at in range(0, low, 8):
            weight, row = load(u, at), stride * at + low
            a = a + weight * load(flow, row)
            b = b + weight * load(flow, row + 8)
            c = c + weight * load(flow, row + 16)
            d = d + weight * load(flow, row + 24)
        store(u, low, a)
        store(u, low + 8, b)
        store(u, low + 16, c)
        store(u, low + 24, d)


@compiled
def _pool(
    trust: Array, beliefs: Array, m: int, order: Places, lanes: Places, out: Array, u: Array, values: Array
) -> None:
    """Weights that sum to 1, in `u`, and the values that they give to the beliefs."""
    total, value = spread(0.0), spread(0.0)
    for j in range(len(order)):
        agent = order[j]
        weight = load(u, 8 * j) * (load(out, 8 * j) + spread(trust[m, agent, agent]))
        store(u, 8 * j, weight)
        total = total + weight
        value = value + weight * spread(beliefs[m, agent])
    scale = spread(1.0) / total
    for j in range(len(order)):
        store(u, 8 * j, load(u, 8 * j) * scale)
    store(out, 0, value * scale)
    for lane in range(8):
        values[m, order[lanes[lane]]] = out[lane]


@compiled
def _keep(weights: Array, order: Places, lanes: Places, u: Array) -> None:
    for lane in range(8):
        exclude_row = order[lanes[lane]]
        for j in range(len(order)):
            weights[exclude_row, order[j]] = u[8 * j + lane]
