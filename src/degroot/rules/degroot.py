r"""The paper's two algorithms, step by step on arrays. Every answer, by whichever route, comes through here.

Mendler-Dünner, Guo, Bates and Jordan, *Test-time collective prediction*, NeurIPS 2021. M points, K agents, Q outputs.
Before them, each agent measures every model on its own rows near the point: local errors, (M, K, K). Another rule
replaces how weights follow from these; the rest is the same.
"""

import numpy as np

from degroot.compute.compiled import Array, as_kernel_array
from degroot.consensus.dense import weights_from_errors
from degroot.consensus.sparse.weights import solve as sparse_weights
from degroot.jackknife.delete_one import jackknife_error
from degroot.jackknife.elimination import MANY, delete_few, delete_many
from degroot.jackknife.sparse import solve_without as sparse_values_without
from degroot.rules.evidence import Evidence, Rule


def pool_predictions(rule: Rule, evidence: Evidence, beliefs: Array) -> tuple[Array, Array]:
    """Algorithm 1, DeGroot consensus: weights (M, K) by trust, and the weighted mean of the beliefs (M, K, Q)."""
    weights = rule.weights(evidence)  # for the paper's rule, `weigh_by_trust`
    return weights, average_beliefs(weights, beliefs)


def weigh_by_trust(evidence: Evidence) -> Array:
    """Stationary weights (M, K) of the trust matrix, w T = w: the limit of pooling p <- T p."""
    if evidence.peers is not None:
        return sparse_weights(evidence.trust, evidence.peers)
    weights = np.empty(evidence.errors.shape[:2])
    # trust is inverse local errors, rows sum to 1: `degroot.trust`
    weights_from_errors(as_kernel_array(evidence.errors), weights)
    return weights


def average_beliefs(weights: Array, beliefs: Array) -> Array:
    """The collective prediction (M, Q): the weighted mean of the beliefs (M, K, Q)."""
    value: Array = (weights[..., None] * beliefs).sum(axis=-2)
    return value


def jackknife_agents(rule: Rule, evidence: Evidence, weights: Array, beliefs: Array) -> tuple[Array, Array]:
    """Algorithm 2, the jackknife over agents: standard error (M, Q) and influence (M, K, Q)."""
    beliefs = beliefs - beliefs[:, :1]  # what all have in common would cost the differences their digits
    value = average_beliefs(weights, beliefs)  # (M, Q)
    outputs = range(beliefs.shape[-1])
    without = [rule.values_without(evidence, np.ascontiguousarray(beliefs[..., q])) for q in outputs]  # (M, K) each
    error = np.stack([jackknife_error(each) for each in without], axis=-1)
    influence = np.stack([value[:, q, None] - without[q] for q in outputs], axis=-1)
    return error, influence


def delete_each_agent(evidence: Evidence, beliefs: Array) -> Array:
    """The consensus without each agent in turn, (M, K): its row and column struck out of the trust matrix."""
    trust, K = evidence.trust, beliefs.shape[1]
    if evidence.peers is not None:
        return sparse_values_without(trust, evidence.peers, beliefs)
    values = np.full_like(beliefs, np.nan)
    if K > 1:
        delete = delete_few if K <= MANY else delete_many
        delete(trust, beliefs, values, np.empty((0, K, K)))
    return values
