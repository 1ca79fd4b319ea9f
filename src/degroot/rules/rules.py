"""Rules: from what the agents found near each point to one weight for each model, with everybody and without each.

Weights are (M, K). Values without each agent in turn are (M, K), and are all that stability takes.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot import stacking
from degroot.compute.compiled import Array
from degroot.rules.degroot import delete_each_agent, weigh_by_trust
from degroot.rules.evidence import MOMENTS, NOTHING, Evidence, NeighbourhoodSpec, Rule
from degroot.trust import inverse_error_weights

# second moments need more rows than errors do
STACKING_NEIGHBOURHOOD = NeighbourhoodSpec(0.05, "tricube", least=20, most=500)


def leaving_out(K: int, value_of: Callable[[NDArray[np.intp]], Array]) -> Array:
    """``value_of(others)``, (M,), for each of K agents left out in turn, (M, K); NaN for K = 1."""
    places = np.arange(K)
    if K == 1:
        return np.full((len(value_of(places)), 1), np.nan)
    return np.column_stack([value_of(places[places != i]) for i in places])


def _average(errors: Array) -> Array:
    return np.full(errors.shape[:2], 1.0 / errors.shape[1])


def _averages_without(_evidence: Evidence, beliefs: Array) -> Array:
    K = beliefs.shape[-1]
    if K == 1:
        return np.full_like(beliefs, np.nan)
    values: Array = (beliefs.sum(axis=-1, keepdims=True) - beliefs) / (K - 1)
    return values


def _trust_average(errors: Array) -> Array:
    mean: Array = inverse_error_weights(errors).mean(axis=-2)
    return mean


def _error_average(errors: Array) -> Array:
    return inverse_error_weights(errors.mean(axis=-2))


def _by(weigh: Callable[[Array], Array]) -> Rule:
    """The rule that `weigh` gives, also on what remains when an agent is left out."""

    def values_without(evidence: Evidence, beliefs: Array) -> Array:
        def value_of(others: NDArray[np.intp]) -> Array:
            value: Array = (weigh(evidence.errors[:, others[:, None], others]) * beliefs[:, others]).sum(axis=-1)
            return value

        return leaving_out(beliefs.shape[-1], value_of)

    return Rule(lambda evidence: weigh(evidence.errors), values_without)


def _stacking(ridge: float) -> Rule:
    def parts(evidence: Evidence) -> tuple[Array, Array, Array]:
        return np.asarray(evidence.moments), np.asarray(evidence.spread), np.asarray(evidence.effective)

    def weights(evidence: Evidence) -> Array:
        if evidence.pooled is not None:
            return stacking.weigh_pooled(*evidence.pooled, ridge)
        return stacking.weigh(*parts(evidence), ridge)

    return Rule(
        weights,
        lambda evidence, beliefs: stacking.values_without(*parts(evidence), beliefs, ridge),
        MOMENTS,
        STACKING_NEIGHBOURHOOD,
    )


RULES = {
    "degroot": Rule(weigh_by_trust, delete_each_agent),  # the paper's: stationary weights of the trust matrix
    "average": Rule(lambda evidence: _average(evidence.errors), _averages_without, NOTHING),  # M-avg: all models alike
    "trust-average": _by(_trust_average),  # tau-avg: the mean of the agents' trust, which is one round of pooling
    "error-average": _by(_error_average),  # MSE-avg: in inverse proportion to the mean of the agents' errors
    "stacking": _stacking(stacking.RIDGE),  # the least mean squared error of the weighted mean itself
}


@dataclass(frozen=True)
class RuleSettings:
    """A rule with its settings."""

    rule: str
    reach: NeighbourhoodSpec
    ridge: float | None = None  # of stacking

    @cached_property
    def definition(self) -> Rule:
        """The rule itself. It is not pickled: it is made of functions."""
        return _stacking(self.ridge) if self.ridge is not None else RULES[self.rule]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "definition"}

    def as_set(self, neighbours: float | None, kernel: str | None, ridge: float | None) -> "RuleSettings":
        """The same with the settings that were given."""
        reach, option = self.reach, self
        if neighbours is not None:
            reach = NeighbourhoodSpec(neighbours, reach.kernel)
        if kernel is not None:
            reach = reach._replace(kernel=kernel)
        if ridge is not None and self.rule == "stacking":
            option = replace(self, ridge=ridge)
        return replace(option, reach=reach)

    def __str__(self) -> str:
        if self.rule == "average":
            return "average"
        ridge = "" if self.ridge is None else f", ridge {self.ridge:g}"
        return f"{self.rule}, neighbours {self.reach.neighbours:g}{ridge}"
