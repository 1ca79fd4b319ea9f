"""Waves: models' errors without bias, of known size and correlation, and the weights that are optimal for them."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from degroot.paper.problems.square import NAMES, misses

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Waves:
    r"""The agents' errors as functions of x, one wave for each agent and a last one that they share.

    .. math:: e_k(x) = \sigma_k(x) \sqrt 2
        [\sqrt{1 - c} \cos(\omega_k' x + \varphi_k) + \sqrt c \cos(\omega_0' x + \varphi_0)]

    With frequencies so high that a neighbourhood holds many periods they have mean 0, variance
    :math:`\sigma_k(x)^2`, which is ``misses`` squared, and correlation c.
    """

    frequencies: Array  # (K + 1, 2)
    phases: Array  # (K + 1,)
    correlation: float

    @classmethod
    def drawn(cls, frequency: float, correlation: float, random: np.random.Generator) -> "Waves":
        """Waves of random direction and phase, and a random frequency between one and two times the given one."""
        angles, phases = random.uniform(0.0, 2 * np.pi, size=(2, len(NAMES) + 1))
        lengths = frequency * random.uniform(1.0, 2.0, size=len(angles))
        return cls(lengths[:, None] * np.column_stack([np.cos(angles), np.sin(angles)]), phases, correlation)

    def error(self, k: int, X: Array) -> Array:
        """The error of agent k, (n,)."""
        own, shared = (np.sqrt(2.0) * np.cos(X @ self.frequencies[j] + self.phases[j]) for j in (k, -1))
        waves: Array = np.sqrt(1.0 - self.correlation) * own + np.sqrt(self.correlation) * shared
        return waves * misses(X)[:, k]

    def errors(self, X: Array) -> Array:
        """The errors of all agents, (n, K)."""
        return np.column_stack([self.error(k, X) for k in range(len(NAMES))])

    def covariance(self, X: Array) -> Array:
        """Their covariance at each point, (n, K, K)."""
        sigma = misses(X)
        alike: Array = self.correlation + (1.0 - self.correlation) * np.eye(sigma.shape[1])
        return alike * sigma[:, :, None] * sigma[:, None, :]


def expected_error(weights: Array, covariance: Array) -> Array:
    """The expected squared error at each point, w'Cw; (M,)."""
    errors: Array = np.einsum("mi,mij,mj->m", weights, covariance, weights)
    return errors


def optimal(covariance: Array) -> Array:
    r"""Of all weights that sum to 1 those with the least error, (M, K): :math:`w \propto C^{-1} 1`."""
    weights = np.linalg.solve(covariance, np.ones((*covariance.shape[:-1], 1)))[..., 0]
    best: Array = weights / weights.sum(axis=-1, keepdims=True)
    return best


def optimal_on_simplex(covariance: Array) -> Array:
    """The same among weights that are not negative: the best of those that are optimal for some of the agents."""
    M, K = covariance.shape[:2]
    best, least = np.zeros((M, K)), np.full(M, np.inf)
    for size in range(1, K + 1):
        for some in combinations(range(K), size):
            weights = np.zeros((M, K))
            weights[:, some] = optimal(covariance[:, some][:, :, some])
            error = expected_error(weights, covariance)
            better = (weights >= 0.0).all(axis=-1) & (error < least)
            best[better], least[better] = weights[better], error[better]
    return best
