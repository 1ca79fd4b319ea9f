"""The demonstration: five agents on the paper's synthetic problem, and five on data that ships with scikit-learn."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from degroot.baselines import average
from degroot.collective import Collective
from degroot.estimators import DeGrootRegressor
from degroot.exceptions import InvalidInput
from degroot.paper.logistic import Problem, curve, make_agents, make_points, on_the_line
from degroot.paper.schemes import mean_squared
from degroot.points import Array

REPETITIONS = 20


@dataclass(frozen=True, slots=True)
class Comparison:
    """Mean squared errors on test rows, one for each repetition."""

    problem: str
    degroot: Array
    stacking: Array
    average: Array
    best_single: Array  # of the model that turns out best on the test rows


def synthetic(seed: int) -> Comparison:
    """The paper's synthetic problem: label noise 0.1, five neighbours, test labels without noise."""

    def trial(random: np.random.Generator) -> tuple[Collective, Array, Array]:
        problem = Problem()
        agents, X = make_agents(problem, random), make_points(problem, random)
        return Collective(agents, problem.neighbours), X, curve(X)

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
    """A picture along the synthetic curve: who is trusted where, the prediction, its stability, and intervals."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InvalidInput("The picture needs matplotlib: pip install 'degroot[plot]'.") from error

    along = np.linspace(-9.0, 7.0, 400)
    X, problem = on_the_line(along), Problem()
    agents = make_agents(problem, np.random.default_rng(seed))
    collective = Collective(agents, problem.neighbours).calibrate()
    answer, mean = collective.consult(X, coverage=0.9), average(agents).predict(X)

    figure = Figure(figsize=(9, 7), layout="constrained")
    weights, values = figure.subplots(2, 1, sharex=True)
    weights.stackplot(along, np.asarray(answer.weights).T, labels=answer.names, alpha=0.85)
    weights.set(ylabel="consensus weight", ylim=(0, 1), title="Who is trusted where")
    value, spread = np.asarray(answer.value), np.asarray(answer.standard_error)
    values.plot(along, curve(X), color="black", lw=1, label="truth")
    values.plot(along, mean, color="tab:gray", ls="--", label="average of the models")
    values.plot(along, value, color="tab:blue", label="collective")
    values.fill_between(
        along, np.asarray(answer.lower), np.asarray(answer.upper), color="tab:orange", alpha=0.2, label="90 % interval"
    )
    values.fill_between(
        along, value - spread, value + spread, color="tab:blue", alpha=0.3, label="stability (± one jackknife error)"
    )
    values.set(xlabel="$\\xi = a'x$", ylabel="prediction", xlim=(along[0], along[-1]), ylim=(-0.4, 1.6))
    values.set_title("The collective prediction, its stability, and 90 % intervals")
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
    agents = collective.agents
    pooled = [collective, Collective(agents, rule="stacking"), average(agents)]
    singles = [mean_squared(agent.predict(X), y) for agent in agents]
    return [*(mean_squared(each.predict(X), y) for each in pooled), min(singles)]
