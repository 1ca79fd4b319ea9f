"""Agents whose rows differ, so that askers' views do: of one output, of two, and of classes."""

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.tree import DecisionTreeRegressor

from degroot import Agent

KINDS = ("one output", "two outputs", "classes")
NAMES = ("north", "south", "west")
POINTS = np.random.default_rng(9).normal(size=(12, 2)) / 2
ASKERS = [*NAMES, None] * 3  # of the points


def make_agents(kind: str = "one output", n: int = 90, **about) -> list[Agent]:
    """Three agents with `n` rows each."""
    random, agents = np.random.default_rng(3), []
    for k, name in enumerate(NAMES):
        X = random.normal(size=(n, 2)) + 0.3 * k
        y = np.sin(X[:, 0]) + (k - 1) * X[:, 1] + 0.2 * random.normal(size=n) + 0.3 * k
        half = n // 2
        if kind == "classes":
            y = np.where(y > 0.3, "high", "low")
            model = LogisticRegression().fit(X[:half], y[:half])
            agents.append(Agent(model, X, y, name, classes=["high", "low"], **about))
            continue
        if kind == "two outputs":
            y = np.column_stack([y, X[:, 0] - y])
        model = DecisionTreeRegressor(max_depth=3, random_state=0) if k == 1 else Ridge()
        agents.append(Agent(model.fit(X[:half], y[:half]), X, y, name, **about))
    return agents
