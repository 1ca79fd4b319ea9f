"""Consensus: the weights on which agents who score a sample of the models would end up."""

import numpy as np
from numpy.typing import NDArray

from degroot import consensus
from degroot.compute.compiled import Array, as_kernel_array, over_points
from degroot.compute.kernel import compiled_for
from degroot.consensus.sparse.columns import SCORER_COLUMNS, Peers, ScorerColumns, columns, fill
from degroot.consensus.sparse.hitting_times import SLACK, hitting_times
from degroot.consensus.sparse.sweeps import settle

FEW = 64  # agents up to whom the elimination for all pairs of them is as quick
EXACT = 1e-10  # sum of the absolute errors of the weights, at most; as a rule it is far less


def solve(trust: Array, peers: Peers) -> Array:
    r"""The weights of the consensus, :math:`w T = w`, of trust in a sample of the models.

    Memory and time grow with K q. Where agents are in groups that hardly listen to each other, sweeps say little: then
    the weights are found by elimination of the whole matrix, which takes memory for :math:`K^2` numbers.

    Parameters
    ----------
    trust : (M, K, q)
        Rows sum to 1, such that everybody reaches everybody by trust that is positive.
    peers : (K, q)
        The models that each agent scores, in ascending order.

    Returns
    -------
    (M, K)

    Examples
    --------
    >>> solve(np.array([[[0.5, 0.5], [0.25, 0.75]]]), np.array([[0, 1], [0, 1]])).round(4)
    array([[0.3333, 0.6667]])
    """
    trust, peers = as_kernel_array(trust), np.require(peers, np.intp, ["C", "A", "W"])
    M, K = trust.shape[:2]
    if K <= FEW:
        return consensus.stationary(dense(trust, peers))
    scorers, weights, sure = columns(peers), np.empty((M, K)), np.empty(M, np.bool_)

    def kernel(trust: Array, weights: Array, sure: NDArray[np.bool_]) -> None:
        _solve(trust, peers, scorers, weights, sure)

    over_points(kernel, trust, weights, sure)
    for m in np.flatnonzero(~sure):
        weights[m] = consensus.stationary(dense(trust[m], peers))
    return weights


def dense(trust: Array, peers: Peers) -> Array:
    """The same trust as whole matrices (..., K, K), with 0 where nobody scored."""
    K = len(peers)
    matrix = np.zeros((*trust.shape[:-1], K))
    matrix[..., np.arange(K)[:, None], peers] = trust
    return matrix


@compiled_for(f"f8[3] i8[2] {SCORER_COLUMNS} f8[2] b1[1]")
def _solve(trust: Array, peers: Peers, scorers: ScorerColumns, weights: Array, sure: NDArray[np.bool_]) -> None:
    K = len(peers)
    flow, out, rounds, slack = np.empty(len(scorers.source)), np.empty(K), np.empty((1, K)), np.empty((1, K))
    for m in range(len(trust)):
        fill(trust[m], peers, scorers, flow, out)
        missing = settle(scorers, flow, out, weights[m])
        sure[m] = False
        if 2.0 * missing <= EXACT:
            hitting_times(trust[m], peers, out, weights[m], rounds, slack)
            sure[m] = 2.0 * missing * rounds.max() / SLACK <= EXACT
