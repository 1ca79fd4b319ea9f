"""Rules: from the agents' local errors to one weight for each model, with everybody and without each agent in turn.

Errors and trust are (M, K, K): what agent i measured for model j near each point. Weights are (M, K), and (M, K, K)
where row i is without agent i. Values without each agent in turn are (M, K), and are all that error bars need.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from degroot import consensus, jackknife
from degroot.points import Array
from degroot.trust import shares


@dataclass(frozen=True, slots=True)
class Rule:
    """How errors, and the trust that follows from them, become weights."""

    weights: Callable[[Array, Array], Array]
    values_without: Callable[[Array, Array, Array], Array]  # also from the beliefs (M, K)
    uses_errors: bool = True


def leaving_out(K: int, value_of: Callable[[NDArray[np.intp]], Array]) -> Array:
    """``value_of(others)``, (M,), for each of K agents left out in turn, (M, K); NaN for K = 1."""
    places = np.arange(K)
    if K == 1:
        return np.full((len(value_of(places)), 1), np.nan)
    return np.column_stack([value_of(places[places != i]) for i in places])


def _average(errors: Array) -> Array:
    return np.full((len(errors), errors.shape[-1]), 1.0 / errors.shape[-1])


def _trust_average(errors: Array) -> Array:
    mean: Array = shares(errors).mean(axis=-2)
    return mean


def _error_average(errors: Array) -> Array:
    return shares(errors.mean(axis=-2))


def _by(weigh: Callable[[Array], Array], uses_errors: bool = True) -> Rule:
    """The rule that `weigh` gives, also on what remains when an agent is left out."""

    def values_without(errors: Array, _trust: Array, beliefs: Array) -> Array:
        def value_of(others: NDArray[np.intp]) -> Array:
            value: Array = (weigh(errors[:, others[:, None], others]) * beliefs[:, others]).sum(axis=-1)
            return value

        return leaving_out(beliefs.shape[-1], value_of)

    return Rule(lambda errors, _trust: weigh(errors), values_without, uses_errors)


RULES = {
    # the paper's: stationary weights of the trust matrix
    "degroot": Rule(
        lambda _errors, trust: consensus.solve(trust),
        lambda _errors, trust, beliefs: jackknife.solve_without(trust, beliefs),
    ),
    "average": _by(_average, uses_errors=False),  # M-avg: all models alike
    "trust-average": _by(_trust_average),  # tau-avg: the mean of the agents' trust, which is one round of pooling
    "error-average": _by(_error_average),  # MSE-avg: in inverse proportion to the mean of the agents' errors
}
