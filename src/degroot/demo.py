"""The demonstration: five agents on the paper's synthetic problem, and five on data that ships with scikit-learn."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from degroot.agents import Agent
from degroot.baselines import average
from degroot.collective import Collective
from degroot.estimators import DeGrootRegressor
from degroot.exceptions import InvalidInput
from degroot.points import Array

CENTRES = np.array([[-3.0, -4.0], [-2.0, -2.0], [-1.0, -1.0], [0.0, 0.0], [3.0, 2.0]])
DIRECTION = np.array([1.0, 1.0])
REPETITIONS = 20


@dataclass(frozen=True, slots=True)
class Comparison:
    """Mean squared errors on test rows, one for each repetition."""

    problem: str
    collective: Array
    average: Array
    best_single: Array  # of the model that turns out best on the test rows


def curve(X: Array) -> Array:
    r"""The labels of the synthetic problem without noise, :math:`1 / (1 + \exp(a'x))`, :math:`a = (1, 1)`."""
    labels: Array = 1.0 / (1.0 + np.exp(X @ DIRECTION))
    return labels


def synthetic_agents(random: np.random.Generator, rows: int = 200, noise: float = 0.1) -> list[Agent]:
    """Five linear models, each fitted on rows around a centre of its own."""
    from sklearn.linear_model import LinearRegression

    agents = []
    for k, centre in enumerate(CENTRES, start=1):
        X = random.normal(size=(rows, 2)) + centre
        y = curve(X) + noise * random.normal(size=rows)
        agents.append(Agent(LinearRegression().fit(X, y), X, y, name=f"agent {k}"))
    return agents


def synthetic_points(random: np.random.Generator, count: int = 200) -> Array:
    """Test points from all agents' distributions alike."""
    points: Array = random.normal(size=(count, 2)) + CENTRES[random.integers(len(CENTRES), size=count)]
    return points


def synthetic(seed: int) -> Comparison:
    """The paper's synthetic problem: label noise 0.1, five neighbours, test labels without noise."""

    def trial(random: np.random.Generator) -> tuple[Collective, Array, Array]:
        agents, X = synthetic_agents(random), synthetic_points(random)
        return Collective(agents, neighbours=5), X, curve(X)

    return _compared("synthetic", (trial(random) for random in _generators(seed)))


def diabetes(seed: int) -> Comparison:
    """Ridge regression on scikit-learn's diabetes data, half of the rows dealt in the order of the label."""
    from sklearn.datasets import load_diabetes
    from sklearn.linear_model import Ridge
    from sklearn.model_selection import train_test_split

    X, y = load_diabetes(return_X_y=True)

    def trial(random: np.random.Generator) -> tuple[Collective, Array, Array]:
        state = int(random.integers(2**31))
        X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=state)
        model = DeGrootRegressor(Ridge(0.1), partition="label", fraction=0.5, neighbours=0.1, random_state=state)
        return model.fit(X_train, y_train).collective_, X_test, y_test

    return _compared("diabetes", (trial(random) for random in _generators(seed)))


def draw(path: Path, seed: int) -> None:
    """A picture of the synthetic problem along the curve: who is trusted where, and the prediction with error bars."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InvalidInput("The picture needs matplotlib: pip install 'degroot[plot]'.") from error

    along = np.linspace(-9.0, 7.0, 400)
    X = along[:, None] * DIRECTION / (DIRECTION @ DIRECTION)
    agents = synthetic_agents(np.random.default_rng(seed))
    answer, mean = Collective(agents, neighbours=5).consult(X), average(agents).predict(X)

    figure = Figure(figsize=(9, 7), layout="constrained")
    weights, values = figure.subplots(2, 1, sharex=True)
    weights.stackplot(along, np.asarray(answer.weights).T, labels=answer.names, alpha=0.85)
    weights.set(ylabel="consensus weight", ylim=(0, 1), title="Who is trusted where")
    value, spread = np.asarray(answer.value), np.asarray(answer.standard_error)
    values.plot(along, curve(X), color="black", lw=1, label="truth")
    values.plot(along, mean, color="tab:gray", ls="--", label="average of the models")
    values.plot(along, value, color="tab:blue", label="collective")
    values.fill_between(
        along, value - spread, value + spread, color="tab:blue", alpha=0.25, label="± one standard error"
    )
    values.set(xlabel="$\\xi = a'x$", ylabel="prediction", xlim=(along[0], along[-1]), ylim=(-0.4, 1.6))
    values.set_title("The collective prediction, with jackknife error bars over agents")
    for axes in (weights, values):
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    try:
        figure.savefig(path, dpi=120)
    except OSError as reason:
        raise InvalidInput(f"The picture must go where files can be written; {path}: {reason.strerror}.") from reason


def _generators(seed: int) -> Iterator[np.random.Generator]:
    return (np.random.default_rng([seed, repetition]) for repetition in range(REPETITIONS))


def _compared(problem: str, trials: Iterator[tuple[Collective, Array, Array]]) -> Comparison:
    rows = np.array([_errors(*trial) for trial in trials])
    return Comparison(problem, *rows.T)


def _errors(collective: Collective, X: Any, y: Array) -> Sequence[float]:
    singles = [_mse(agent.predict(X), y) for agent in collective.agents]
    return _mse(collective.predict(X), y), _mse(average(collective.agents).predict(X), y), min(singles)


def _mse(prediction: Array, y: Array) -> float:
    return float(((prediction - y) ** 2).mean())
