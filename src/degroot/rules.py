"""Rules: from the agents' local errors to one weight for each model, with everybody and without each agent in turn.

Errors and trust are (M, K, K): what agent i measured for model j near each point. Weights are (M, K), and (M, K, K)
where row i is without agent i. Values without each agent in turn are (M, K), and are all that error bars need.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from degroot import consensus, jackknife
from degroot.points import Array
from degroot.trust import from_errors


@dataclass(frozen=True, slots=True)
class Rule:
    """How errors, and the trust that follows from them, become weights."""

    weights: Callable[[Array, Array], Array]
    values_without: Callable[[Array, Array, Array], Array]  # also from the beliefs (M, K)
    judged: bool = True  # False: the weights do not depend on the errors


def each_deleted(weights: Array) -> Array:
    """Weights without each agent in turn, when the others share what agent i had in proportion to their own weights.

    Examples
    --------
    >>> each_deleted(np.array([0.5, 0.25, 0.25])).round(3)
    array([[0.   , 0.5  , 0.5  ],
           [0.667, 0.   , 0.333],
           [0.667, 0.333, 0.   ]])
    """
    others = weights[..., None, :] * ~np.eye(weights.shape[-1], dtype=bool)
    total = others.sum(axis=-1, keepdims=True)
    shared: Array = np.divide(others, total, out=np.full_like(others, np.nan), where=total > 0.0)
    return shared


def _average(errors: Array, _trust: Array) -> Array:
    return np.full(errors.shape[:-1], 1.0 / errors.shape[-1])


def _trust_average(_errors: Array, trust: Array) -> Array:
    mean: Array = trust.mean(axis=-2)
    return mean


def _error_average(errors: Array, _trust: Array) -> Array:
    return from_errors(errors.mean(axis=-2))


def _leaving_out(weigh: Callable[[Array, Array], Array]) -> Callable[[Array, Array, Array], Array]:
    """Values without each agent in turn, by the rule `weigh` on what the others have measured of each other."""

    def values_without(errors: Array, _trust: Array, beliefs: Array) -> Array:
        K = errors.shape[-1]
        values = np.full(beliefs.shape, np.nan)
        for i in range(K if K > 1 else 0):
            others = np.flatnonzero(np.arange(K) != i)
            remaining = errors[..., others[:, None], others]
            values[..., i] = (weigh(remaining, from_errors(remaining)) * beliefs[..., others]).sum(axis=-1)
        return values

    return values_without


RULES = {
    # the paper's: stationary weights of the trust matrix
    "degroot": Rule(
        lambda _errors, trust: consensus.solve(trust),
        lambda _errors, trust, beliefs: jackknife.consensus_without(trust, beliefs),
    ),
    # M-avg: all models alike
    "average": Rule(
        _average,
        lambda errors, trust, beliefs: jackknife.values_without(each_deleted(_average(errors, trust)), beliefs),
        judged=False,
    ),
    # tau-avg: the mean of the agents' trust, which is one round of pooling
    "trust-average": Rule(_trust_average, _leaving_out(_trust_average)),
    # MSE-avg: in inverse proportion to the mean of the agents' errors
    "error-average": Rule(_error_average, _leaving_out(_error_average)),
}
