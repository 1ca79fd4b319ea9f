r"""The consensus without an agent, sought near the consensus with everyone: for many agents.

With all K agents the flow :math:`w_j \tau_{jk}` of trust is in balance. Leaving agent i out changes every row, but most
of them little: :math:`u (T - I) = s e_i - a` with :math:`a_j = u_j \tau_{ji}` and :math:`s = \sum_j a_j`, so that

.. math:: u = a X - s X_{i \cdot} + \alpha w, \qquad \alpha \text{ such that } u_i = 0,

for a generalised inverse X of :math:`I - T`, one for all i. This is solved by iteration, with the term
:math:`u_k \tau_{ki} X_{kk}` on the left, which leaves only products of two small things on the right, and Anderson's
acceleration with one step of memory. Six or seven iterations of :math:`K^2` operations take the place of an elimination
of :math:`K^3 / 3`.

Nothing is taken on trust: a result counts only if it balances the flows to 12 digits, and if no part of the others
is so loosely tied to the rest that balance would say little about their weights.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array
from degroot.compute.kernel import compiled
from degroot.compute.simd_vectors import add_product, largest, load, product, reciprocal, spread, store, vectors


@compiled
def invert(a: Array, n: int, rows: Array, columns: Array, block: Array) -> None:
    """Gauss and Jordan's inverse in place, eight rows at a time; pivots as they come, for diagonally dominant `a`."""
    for low in range(0, n, 8):
        _invert_block(a, n, low, block)
        for j in range(n):
            for p in range(8):
                columns[p * n + j] = -a[j * n + low + p]
            store(a, j * n + low, spread(0.0))
        for p in range(8):
            a[(low + p) * n + low + p] = 1.0
        for k in range(0, n, 8):
            product(block, 0, 8, a, low * n + k, n, 8, rows, k, n)
        for j in range(0, n, 8):
            for k in range(0, n, 8):
                if j != low:
                    add_product(columns, j, n, rows, k, n, 8, a, j * n + k, n)
                else:
                    for p in range(8):
                        store(a, (low + p) * n + k, load(rows, p * n + k))


@compiled
def _invert_block(a: Array, n: int, low: int, block: Array) -> None:
    """The transposed inverse of the 8 x 8 numbers of `a` from (low, low) on."""
    for j in range(8):
        for k in range(8):
            block[8 * k + j] = a[(low + j) * n + low + k]
    for p in range(8):
        pivot = 1.0 / block[9 * p]
        block[9 * p] = 1.0
        for k in range(8):
            block[8 * p + k] *= pivot
        for j in range(8):
            if j != p:
                factor = block[8 * j + p]
                block[8 * j + p] = 0.0
                for k in range(8):
                    block[8 * j + k] -= factor * block[8 * p + k]


Places = NDArray[np.int64]

ITERATIONS = 30
ROUGH = 2  # iterations at first whose errors are larger than what float32 loses
SETTLED = 3e-12  # relative change of the weights in one iteration, as the root of the sum of squares
CONVERGED = 1e-13  # expected relative error of the weights, as the root of the sum of squares
BALANCED = 3e-13  # relative difference of what flows in and out, likewise
TARGETS = 12  # agents whom all others must be seen to reach, or one of these
FAR = 500.0  # steps on the way to a target, with everyone
SLACK = 0.98  # how much of each step the agent left out may have been needed for


class PerturbationBuffers(NamedTuple):
    """What the agents left out have in common, and room to work in. Where it says vectors, one for each agent."""

    weights: Array  # with everyone, per unit of trust in others
    per_weight: Array  # one over that
    inverse: Array  # X off the diagonal
    diagonal: Array  # X on the diagonal
    single: NDArray[np.float32]  # X off the diagonal, rounded
    single_a: NDArray[np.float32]  # vectors
    times: Array  # steps to each of the targets, with everyone; -1 at the target, and if it is far
    rows: Array
    columns: Array
    block: Array
    a: Array  # vectors
    divisor: Array  # vectors
    new: Array  # vectors
    old: Array  # vectors
    change: Array  # vectors


@compiled
def room(n: int) -> PerturbationBuffers:
    """Room for n agents, a multiple of 8."""
    return PerturbationBuffers(
        np.empty(n),
        np.empty(n),
        vectors(n * n // 8),
        np.empty(n),
        np.empty(n * n, np.float32),
        np.empty(8 * n, np.float32),
        np.empty(TARGETS * n),
        vectors(n),
        vectors(n),
        vectors(8),
        vectors(n),
        vectors(n),
        vectors(n),
        vectors(n),
        vectors(n),
    )


@compiled
def prepare(flows: Array, K: int, n: int, room: PerturbationBuffers) -> None:
    """Find what all agents left out have in common."""
    total = room.old
    for k in range(n):
        total[k] = 0.0
    for j in range(K):
        for at in range(0, n, 8):
            store(total, at, load(total, at) + load(flows, j * n + at))
    target = _greatest(total, K)
    _generalised_inverse(flows, K, n, target, room)
    _consensus(flows, K, n, target, room)
    _centre(K, n, room)
    for at in range(0, n * n, 8):
        store(room.single, at, load(room.inverse, at))
    _hitting_times(K, n, room)


@compiled
def _greatest(values: Array, K: int) -> int:
    best = 0
    for k in range(1, K):
        if values[k] > values[best]:
            best = k
    return best


@compiled
def sort(trust: Array, order: Places, most: Array) -> None:
    """Order the agents by how much any one other trusts them, least first: those alike in that are solved alike."""
    K = len(trust)
    for k in range(K):
        most[k] = 0.0
    for j in range(K):
        for k in range(K):
            most[k] = max(most[k], trust[j, k] if j != k else 0.0)
    for i in range(K):
        at = i
        while at > 0 and most[order[at - 1]] > most[i]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = i


@compiled
def _generalised_inverse(flows: Array, K: int, n: int, target: int, room: PerturbationBuffers) -> None:
    """The expected visits to k of who starts at j and stops at `target`: the inverse of I - T without the target."""
    a = room.inverse
    for j in range(n):
        total = spread(0.0)
        for k in range(0, n, 8):
            total = total + load(flows, j * n + k)
            store(a, j * n + k, spread(0.0) - load(flows, j * n + k))
        store(room.block, 0, total)
        a[j * n + j] = 0.0 if j < K else 1.0
        for lane in range(8):
            a[j * n + j] += room.block[lane]
    for j in range(n):
        a[j * n + target] = a[target * n + j] = 0.0
    a[target * n + target] = 1.0
    invert(a, n, room.rows, room.columns, room.block)
    a[target * n + target] = 0.0
    for j in range(K, n):
        a[j * n + j] = 0.0


@compiled
def _consensus(flows: Array, K: int, n: int, target: int, room: PerturbationBuffers) -> None:
    """Weights with everyone, per unit of trust in others: visits between two stops at `target`."""
    for k in range(0, n, 8):
        total = spread(0.0)
        for j in range(K):
            total = total + spread(flows[target * n + j]) * load(room.inverse, j * n + k)
        store(room.weights, k, total)
    room.weights[target] = 1.0
    sum_ = 0.0
    for k in range(K):
        sum_ += room.weights[k]
    for k in range(K):
        room.weights[k] /= sum_
        room.per_weight[k] = 1.0 / room.weights[k]


@compiled
def _centre(K: int, n: int, room: PerturbationBuffers) -> None:
    """X may be any with x_j w_k + y_k added. Let it be small off the diagonal, which is kept apart: sums of 0."""
    x, weights, diagonal, mean = room.inverse, room.weights, room.diagonal, room.new
    for k in range(0, n, 8):
        store(mean, k, spread(0.0))
    for j in range(K):
        steps = spread(0.0)
        for k in range(0, n, 8):
            steps = steps + load(x, j * n + k)
        store(room.block, 0, steps)
        total = 0.0
        for lane in range(8):
            total += room.block[lane]
        for k in range(0, n, 8):
            entry = load(x, j * n + k) - spread(total) * load(weights, k)
            store(x, j * n + k, entry)
            store(mean, k, load(mean, k) + entry)
    for k in range(K):
        mean[k] = (mean[k] - x[k * n + k]) / (K - 1)
    for j in range(K):
        for k in range(0, n, 8):
            store(x, j * n + k, load(x, j * n + k) - load(mean, k))
        diagonal[j] = x[j * n + j]
        x[j * n + j] = 0.0


@compiled
def _hitting_times(K: int, n: int, room: PerturbationBuffers) -> None:
    """Steps to each of the agents of greatest weight, from everyone, with everyone."""
    free = room.new
    for k in range(K):
        free[k] = room.weights[k]
    for start in range(0, TARGETS * n, n):
        target = _greatest(free, K)
        free[target] = 0.0
        far = 0.0
        for j in range(K):
            steps = (room.diagonal[target] - room.inverse[j * n + target]) * room.per_weight[target]
            room.times[start + j] = steps
            if j != target:
                far = max(far, steps)
        room.times[start + target] = -1.0
        if not far <= FAR:
            for j in range(K):
                room.times[start + j] = -1.0


@compiled
def solve(
    flows: Array,
    K: int,
    n: int,
    lanes: Places,
    keep: Array,
    given: Array,
    out: Array,
    room: PerturbationBuffers,
    u: Array,
) -> bool:
    """Weights `u` without the agent of each lane; False, and no weights, if they cannot be vouched for."""
    if not (_is_tied(K, n, lanes, given, room) and _iterate(K, n, lanes, keep, given, room, u)):
        return False
    return _balances(flows, K, n, keep, out, room, u) or _balances(flows, K, n, keep, out, room, u)


@compiled
def _is_tied(K: int, n: int, lanes: Places, given: Array, room: PerturbationBuffers) -> bool:
    r"""Whether from everywhere some target is reached in limited time, also without agent i.

    If h solves :math:`h_j = 1 + \sum_k \tau_{jk} h_k` with everyone, without i it takes no longer than
    :math:`h_j / \delta` as long as :math:`1 + \tau_{ji} (h_i - h_j) \ge \delta` for all j.
    """
    times, start, needed, tied = room.times, room.block, room.change, 0
    for first in range(0, TARGETS * n, n):
        for lane in range(8):
            start[lane] = times[first + lanes[lane]]
        from_left_out, worst = load(start, 0), spread(0.0)
        for j in range(K):
            worst = largest(load(given, 8 * j) * (spread(times[first + j]) - from_left_out), worst)
        store(needed, 0, worst)
        for lane in range(8):
            if start[lane] >= 0.0 and needed[lane] <= SLACK:
                tied |= 1 << lane
        if tied == 255:
            return True
    return False


@compiled
def _iterate(K: int, n: int, lanes: Places, keep: Array, given: Array, room: PerturbationBuffers, u: Array) -> bool:
    """Iterate until the weights of all lanes are expected to be right."""
    new, old, squares, before = room.new, room.old, room.block, room.rows
    for j in range(n):
        store(room.a, 8 * j, spread(0.0))
    for j in range(K):
        trusted = load(given, 8 * j)
        store(room.divisor, 8 * j, load(keep, 8 * j) / (spread(1.0) - trusted * spread(room.diagonal[j])))
        start = spread(room.weights[j]) * load(room.divisor, 8 * j)
        store(u, 8 * j, start)
        store(room.a, 8 * j, start * trusted)
    for iteration in range(ITERATIONS):
        _apply(K, n, lanes, room, iteration < ROUGH)
        along, across, size, scale = spread(0.0), spread(0.0), spread(0.0), spread(0.0)
        for k in range(K):
            x, per_weight = load(new, 8 * k), spread(room.per_weight[k])
            f = (x - load(u, 8 * k)) * per_weight
            size = size + f * f
            scale = scale + x * per_weight
            if iteration > 0:
                g = f - load(room.change, 8 * k)
                along = along + f * g
                across = across + g * g
            store(room.change, 8 * k, f)
        scale = spread(float(K)) / scale
        store(squares, 0, size * scale * scale)
        if _are_right(squares, before, iteration):
            for k in range(K):
                store(u, 8 * k, load(new, 8 * k) * scale)
            return True
        step = along * reciprocal(across)
        for k in range(K):
            x = load(new, 8 * k)
            y = x - step * (x - load(old, 8 * k)) if iteration > 0 else x
            store(old, 8 * k, x)
            store(u, 8 * k, y)
            store(room.a, 8 * k, y * load(given, 8 * k))
    return False


@compiled
def _apply(K: int, n: int, lanes: Places, room: PerturbationBuffers, rough: bool) -> None:
    """One iteration, from `a` to `new`; a rough one takes products of rounded numbers."""
    a, new, numbers = room.a, room.new, room.block
    total = spread(0.0)
    for lane in range(8):
        a[8 * lanes[lane] + lane] = 0.0
    for j in range(K):
        total = total + load(a, 8 * j)
    store(numbers, 0, total)
    for lane in range(8):
        a[8 * lanes[lane] + lane] = -numbers[lane]
    if rough:
        for j in range(K):
            store(room.single_a, 8 * j, load(a, 8 * j))
        for k in range(0, n, 8):
            product(room.single, k, n, room.single_a, 0, 8, K, new, 8 * k, 8)
    else:
        for k in range(0, n, 8):
            product(room.inverse, k, n, a, 0, 8, K, new, 8 * k, 8)
    for lane in range(8):
        i = lanes[lane]
        numbers[lane] = (numbers[lane] * room.diagonal[i] - new[8 * i + lane]) * room.per_weight[i]
    alpha = load(numbers, 0)
    for k in range(K):
        x = load(new, 8 * k) + alpha * spread(room.weights[k])
        store(new, 8 * k, x * load(room.divisor, 8 * k))


@compiled
def _are_right(squares: Array, before: Array, iteration: int) -> bool:
    """Whether changes have settled, or shrink so fast that the next would be small enough; in all lanes."""
    right = True
    for lane in range(8):
        square = squares[lane]
        last = before[lane] if iteration > 0 else 1.0
        right &= square <= SETTLED**2 or square * square <= CONVERGED**2 * last
        before[lane] = square
    return right


@compiled
def _balances(flows: Array, K: int, n: int, keep: Array, out: Array, room: PerturbationBuffers, u: Array) -> bool:
    """Whether as much flows into each agent as out of it. What flows in is the better weight: let `u` be that."""
    inflow, squares = room.new, room.block
    for k in range(0, n, 8):
        product(flows, k, n, u, 0, 8, K, inflow, 8 * k, 8)
    error = spread(0.0)
    for k in range(K):
        new = load(keep, 8 * k) * load(inflow, 8 * k) / load(out, 8 * k)
        difference = load(keep, 8 * k) - load(u, 8 * k) * reciprocal(new)  # 1 where `new` is not positive
        error = error + difference * difference
        store(u, 8 * k, new)
    store(squares, 0, error)
    balanced = True
    for lane in range(8):
        balanced &= squares[lane] <= BALANCED**2
    return balanced
