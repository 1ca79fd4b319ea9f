"""A problem for the theorems: rows on a square with known truth, and five models, each best near its home."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from degroot import Agent, trust

Array = NDArray[np.float64]

HOMES = np.array([[-0.6, -0.6], [-0.6, 0.6], [0.0, 0.0], [0.6, -0.6], [0.6, 0.6]])
NAMES = tuple(f"agent {k}" for k in range(1, len(HOMES) + 1))


def make_points(n: int, random: np.random.Generator) -> Array:
    """Points from the uniform distribution on the square, (n, 2)."""
    return random.uniform(-1.0, 1.0, size=(n, 2))


def true_labels(X: Array) -> Array:
    """The labels without noise, (n,)."""
    labels: Array = np.sin(np.pi * X[:, 0]) + X[:, 1] ** 2
    return labels


def misses(X: Array) -> Array:
    """By how much each model misses the truth, (n, K): little at its home, and more with the distance squared."""
    away: Array = ((X[:, None, :] - HOMES) ** 2).sum(axis=-1)
    return 0.1 + away


def inverse_weights(X: Array, noise: float) -> Array:
    """Weights in inverse proportion to the expected squared errors on labels, misses² + noise²; (n, K)."""
    return trust.from_errors(misses(X) ** 2 + noise**2)


def make_agents(
    error: Callable[[int, Array], Array], rows: int, noise: float, random: np.random.Generator
) -> list[Agent]:
    """Agents with rows from the same distribution; the model of agent k is the truth and error(k, X)."""
    agents = []
    for k, name in enumerate(NAMES):
        X = make_points(rows, random)
        y = true_labels(X) + noise * random.normal(size=rows)
        agents.append(Agent(lambda X, k=k: true_labels(X) + error(k, X), X, y, name))
    return agents
