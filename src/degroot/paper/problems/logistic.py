"""The paper's synthetic problem: a logistic curve, and five agents who each see a part of it through a linear model."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from degroot import Agent, Collective, InvalidInput
from degroot.paper.experiment import Row

Array = NDArray[np.float64]

CENTRES = np.array([[-3.0, -4.0], [-2.0, -2.0], [-1.0, -1.0], [0.0, 0.0], [3.0, 2.0]])
DIRECTION = np.array([1.0, 1.0])
NAMES = tuple(f"agent {k}" for k in range(1, len(CENTRES) + 1))
PRINTED = {"DeGroot": 4.6e-4, "tau-avg": 9e-3, "MSE-avg": 1e-2, "best single": 5e-2}  # the paper's errors
AS_PRINTED = "noise 0.1"
READINGS: dict[str, Any] = {  # the paper prints "noise 0.1"; its printed errors suggest the others
    AS_PRINTED: {"noise": 0.1, "validation": "noisy"},
    "noise 0.01": {"noise": 0.01, "validation": "noisy"},
    "noiseless validation": {"noise": 0.1, "validation": "noiseless"},
}


@dataclass(frozen=True, kw_only=True)
class Sample:
    """How the agents' rows come about."""

    rows: int = 200  # of each agent
    noise: float = 0.1  # standard deviation, of the labels
    validation: str = "noisy"  # the labels on which agents score models: "noisy", as they were trained, or "noiseless"
    covariance: float = 1.0  # sigma²: the rows of an agent are N(centre, sigma² I)


@dataclass(frozen=True, kw_only=True)
class Problem(Sample):
    """The agents' rows, how many neighbours they look at, and the points to predict."""

    neighbours: int = 5
    points: int = 200  # test points, from the uniform mixture of all agents' distributions


@dataclass(frozen=True, kw_only=True)
class Line:
    """Where figures along xi = a'x look: from 1.4 standard deviations left of all agents to as far right of them."""

    xi_from: float = -9.0
    xi_to: float = 7.0
    xi_steps: int = 65

    @property
    def xi(self) -> Array:
        """The positions, from left to right."""
        positions: Array = np.linspace(self.xi_from, self.xi_to, self.xi_steps)
        return positions


def curve(X: Array) -> Array:
    r"""The labels without noise, :math:`1 / (1 + \exp(a'x))`, :math:`a = (1, 1)`."""
    labels: Array = 1.0 / (1.0 + np.exp(X @ DIRECTION))
    return labels


def on_the_line(xi: ArrayLike) -> Array:
    """The points nearest to the origin with a'x = xi."""
    points: Array = np.asarray(xi, dtype=float)[:, None] * DIRECTION / (DIRECTION @ DIRECTION)
    return points


def make_agents(sample: Sample, random: np.random.Generator) -> list[Agent]:
    """Five linear models, each fitted on rows around a centre of its own."""
    from sklearn.linear_model import LinearRegression

    if sample.validation not in ("noisy", "noiseless"):
        raise InvalidInput(f"`validation` must be 'noisy' or 'noiseless'; got {sample.validation!r}.")
    agents = []
    for name, centre in zip(NAMES, CENTRES, strict=True):
        X = np.sqrt(sample.covariance) * random.normal(size=(sample.rows, 2)) + centre
        y = curve(X) + sample.noise * random.normal(size=sample.rows)
        model = LinearRegression().fit(X, y)
        agents.append(Agent(model, X, y if sample.validation == "noisy" else curve(X), name=name))
    return agents


def make_points(problem: Problem, random: np.random.Generator) -> Array:
    """Test points from all agents' distributions alike."""
    centres = CENTRES[random.integers(len(CENTRES), size=problem.points)]
    points: Array = np.sqrt(problem.covariance) * random.normal(size=(problem.points, 2)) + centres
    return points


def pose(problem: Problem, random: np.random.Generator) -> tuple[list[Agent], Array, Array]:
    """Agents, test points, and the labels of the test points without noise."""
    agents, X = make_agents(problem, random), make_points(problem, random)
    return agents, X, curve(X)


def predict_along(sample: Sample, neighbours: int, xi: Array, random: np.random.Generator) -> Iterator[Row]:
    """The truth, the collective prediction and its standard error at every position."""
    X = on_the_line(xi)
    collective = Collective(make_agents(sample, random), neighbours, n_jobs=1)
    answer = collective.consult(X, ["value", "standard_error"])
    columns = (xi, curve(X), np.asarray(answer.value), np.asarray(answer.standard_error))
    for row in zip(*columns, strict=True):
        yield dict(zip(("xi", "truth", "value", "standard_error"), row, strict=True))
