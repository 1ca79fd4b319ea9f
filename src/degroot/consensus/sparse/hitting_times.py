r"""Hitting times: how closely agents who score a sample of the models are tied, with everybody and without one.

With :math:`h_j` the rounds in which trust leads from j to a target, on average, weights that miss balance by
:math:`\epsilon = \|w T - w\|_1` are wrong by at most :math:`2 \epsilon \max_j h_j`, as a sum over all agents. Larger
numbers do as well: :math:`h / \delta` for any h > 0 with :math:`s_j = h_j - \sum_k \tau_{jk} h_k \ge \delta`, but at
the target, where h is 0. They do without agent i, too, if :math:`s_j + \tau_{ji} (h_i - h_j) \ge \delta (1 -
\tau_{ji})` for all j who score it.

That sweeps change little, or lead to the same weights from several starts, would prove nothing. Groups of agents who
hardly listen to each other hardly move, wherever they are.
"""

import numpy as np

from degroot.compute.compiled import Array
from degroot.compute.kernel import compiled
from degroot.consensus.sparse.columns import Peers, ScorerColumns

TARGETS = 3
SWEEPS = 500
FIRST = 4  # sweeps before a look at the result
NEXT = 1.4  # how many times as many before the next look
SLACK = 0.5  # the least slack to be content with
ROUNDING = 1e-14  # of sums, over what is summed up


@compiled
def hitting_times(trust: Array, peers: Peers, out: Array, weights: Array, rounds: Array, slack: Array) -> None:
    """Rounds (n, K) to the n agents of greatest weight, and everybody's slack; NaN where they are not found."""
    free, flow = weights.copy(), (weights * out).sum()
    for n in range(len(rounds)):
        target = int(np.argmax(free))
        free[target] = 0.0
        _hit(trust, peers, out, flow, weights[target], target, rounds[n], slack[n])


@compiled
def _hit(
    trust: Array, peers: Peers, out: Array, flow: float, weight: float, target: int, rounds: Array, slack: Array
) -> None:
    r"""Solve :math:`h_j - \sum_k \tau_{jk} h_k = s_j`; for the target, 2 over its weight less, which makes it solvable.

    Each round counts as 1, each step from one agent to another as the rounds from one to the next on average, too:
    :math:`s_j = 1 + o_j / \sum_k w_k o_k`. So there is slack where agents pass on quickly what others hold for long.
    """
    rounds[:], look = 0.0, float(FIRST)
    for n in range(SWEEPS):
        for j in range(len(out)):
            counted = 1.0 + out[j] / flow - (2.0 / weight if j == target else 0.0)
            rounds[j] = (_onward(trust, peers, j, rounds) + counted) / out[j]
        shift = rounds[target]
        for j in range(len(out)):
            rounds[j] -= shift
        if n >= look:
            if _are_enough(trust, peers, out, target, rounds, slack):
                return
            look *= NEXT
    rounds[:] = np.nan


@compiled
def _onward(trust: Array, peers: Peers, j: int, rounds: Array) -> float:
    a = b = 0.0
    q = peers.shape[1]
    for c in range(0, q - 1, 2):
        a += trust[j, c] * rounds[peers[j, c]] if peers[j, c] != j else 0.0
        b += trust[j, c + 1] * rounds[peers[j, c + 1]] if peers[j, c + 1] != j else 0.0
    if q % 2 == 1:
        a += trust[j, q - 1] * rounds[peers[j, q - 1]] if peers[j, q - 1] != j else 0.0
    return a + b


@compiled
def _are_enough(trust: Array, peers: Peers, out: Array, target: int, rounds: Array, slack: Array) -> bool:
    for j in range(len(out)):
        before, after = out[j] * rounds[j], _onward(trust, peers, j, rounds)
        slack[j] = before - after - ROUNDING * (before + after)
        if j != target and not (rounds[j] > 0.0 and slack[j] >= SLACK):
            return False
    slack[target] = np.inf  # from there nobody has to go anywhere
    return True


@compiled
def rounds_without(
    i: int, trust: Array, peers: Peers, columns: ScorerColumns, flow: Array, rounds: Array, slack: Array
) -> float:
    """How many rounds, at most, trust takes from anybody to one of the targets without agent i; infinite if unknown."""
    least = np.inf
    for n in range(len(rounds)):
        if not rounds[n, i] > 0.0:  # the target itself, or not found
            continue
        delta = SLACK
        for e in range(columns.start[i], columns.start[i + 1]):
            j = columns.source[e]
            if slack[n, j] < np.inf:
                delta = min(delta, _slack_without(trust, peers, j, i, flow[e], rounds[n], slack[n, j]))
        if delta > 0.0:
            least = min(least, rounds[n].max() / delta)
    return least


@compiled
def _slack_without(trust: Array, peers: Peers, j: int, i: int, amount: float, rounds: Array, slack: float) -> float:
    """The slack of j without i, in whom it trusts by `amount`."""
    if amount <= 0.5:
        lost = rounds[j] - rounds[i] + ROUNDING * (rounds[j] + rounds[i])
        return float((slack - amount * lost) / (1.0 - amount))
    left = rest = 0.0  # to subtract more than half would lose digits
    for c in range(peers.shape[1]):
        k = peers[j, c]
        if k != i:
            left += trust[j, c] * (rounds[j] - rounds[k] - ROUNDING * (rounds[j] + rounds[k]))
            rest += trust[j, c]
    return float(left / rest)
