"""What nodes answer, beside the same agents in one process, their average, and single models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from degroot.agents.agent import Agent
from degroot.answers.answer import Consensus
from degroot.answers.consultable import Consultable
from degroot.baselines import average
from degroot.collective import Collective
from degroot.compute.compiled import Array
from degroot.demo.organisations import PROBLEM
from degroot.exceptions import InvalidInput
from degroot.paper.problems.logistic import CENTRES, curve, make_points, on_the_line
from degroot.paper.schemes import mean_squared

XI: Array = np.array([-7.0, -4.0, -2.0, 0.0, 2.0, 5.0])  # of the points in tables
ALONG: Array = np.linspace(-9.0, 7.0, 400)  # xi of those in the picture
FIELDS = ("value", "standard_error", "weights")


@dataclass(frozen=True, slots=True)
class DemoPoints:
    """What is asked about: points for tables, for the picture, and to count errors on."""

    listed: Array
    drawn: Array
    test: Array  # from all organisations' populations alike
    own: Array  # from the population of the first one, which asks

    @classmethod
    def draw(cls, seed: int) -> "DemoPoints":
        """The same lists for everybody, and test points at random."""
        random = np.random.default_rng([seed, 1])
        test = make_points(PROBLEM, random)
        own = np.sqrt(PROBLEM.covariance) * random.normal(size=test.shape) + CENTRES[0]
        return cls(on_the_line(XI), on_the_line(ALONG), test, own)


@dataclass(frozen=True, slots=True)
class Errors:
    """Mean squared errors on test points."""

    collective: float
    average: float
    best_single: float  # of the model that turns out best on the test points


@dataclass(frozen=True, slots=True)
class AskerErrors:
    """Mean squared errors on points of the asking organisation's own population."""

    own: float  # of its own model
    view: float  # of its own view of everybody's predictions
    consensus: float


@dataclass(frozen=True, slots=True)
class Situation:
    """What those say who are there."""

    listed: Consensus
    drawn: Consensus
    errors: Errors
    averages: Array  # of the models, at the listed points
    own: Array  # what the asking organisation's model says there
    view: Consensus  # and its own view
    asker_errors: AskerErrors
    differences: Mapping[str, float]  # way of asking -> the largest from the same agents in one process


def compare(
    ways: Mapping[str, Consultable], asker: Consultable, agents: Sequence[Agent], points: DemoPoints
) -> Situation:
    """Ask the nodes in several ways, and `agents`, those who are there, in this process.

    `asker`: the first agent's node, which answers from its own view.
    """
    here, mean = in_process(agents), average(agents)
    same = here.consult(points.test, FIELDS)
    answers = {way: nodes.consult(points.test, FIELDS) for way, nodes in ways.items()}
    first = next(iter(ways))
    return Situation(
        ways[first].consult(points.listed, FIELDS),
        ways[first].consult(points.drawn, FIELDS),
        _errors(answers[first], mean, agents, points.test),
        mean.predict(points.listed),
        agents[0].predict(points.listed),
        asker.consult(points.listed, ["value"]),
        _asker_errors(asker, ways[first], agents[0], points.own),
        {way: difference(answer, same) for way, answer in answers.items()},
    )


def in_process(agents: Sequence[Agent]) -> Collective:
    """The same collective without a network."""
    return Collective(agents, PROBLEM.neighbours, guard=True)


def difference(answer: Consensus, same: Consensus) -> float:
    """The largest in values, standard errors and weights; those who are missing have weight 0."""
    weights = np.zeros_like(np.asarray(answer.weights))
    weights[:, [answer.names.index(name) for name in same.names]] = same.weights
    pairs = ((answer.value, same.value), (answer.standard_error, same.standard_error), (answer.weights, weights))
    return max(float(np.abs(np.asarray(one) - np.asarray(other)).max()) for one, other in pairs)


def _errors(answer: Consensus, mean: Consultable, agents: Sequence[Agent], X: Array) -> Errors:
    truth = curve(X)
    singles = [mean_squared(agent.predict(X), truth) for agent in agents]
    return Errors(mean_squared(answer.value, truth), mean_squared(mean.predict(X), truth), min(singles))


def _asker_errors(asker: Consultable, consensus: Consultable, agent: Agent, X: Array) -> AskerErrors:
    truth = curve(X)
    own, view, neutral = (mean_squared(each.predict(X), truth) for each in (agent, asker, consensus))
    return AskerErrors(own, view, neutral)


def draw(path: Path, before: Situation, after: Situation, lost: str) -> None:
    """Weights above; below the answers with error bars, and those after the node `lost` has died."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InvalidInput("The picture needs matplotlib: pip install 'degroot[plot]'.") from error

    answer, figure = before.drawn, Figure(figsize=(9, 7), layout="constrained")
    weights, values = figure.subplots(2, 1, sharex=True)
    weights.stackplot(ALONG, np.asarray(answer.weights).T, labels=answer.names, alpha=0.85)
    weights.set(ylabel="consensus weight", ylim=(0, 1), title="Who is trusted where")
    value, spread = np.asarray(answer.value), np.asarray(answer.standard_error)
    values.plot(ALONG, curve(on_the_line(ALONG)), color="black", lw=1, label="truth")
    values.plot(ALONG, value, color="tab:blue", label="all nodes")
    values.fill_between(ALONG, value - spread, value + spread, color="tab:blue", alpha=0.3, label="± standard error")
    values.plot(ALONG, np.asarray(after.drawn.value), color="tab:red", ls="--", label=f"without {lost}")
    values.set(xlabel="$\\xi = a'x$", ylabel="prediction", xlim=(ALONG[0], ALONG[-1]), ylim=(-0.4, 1.6))
    values.set_title("The collective prediction, with error bars")
    for axes in (weights, values):
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    try:
        figure.savefig(path, dpi=120)
    except OSError as reason:
        raise InvalidInput(f"The picture must go where files can be written; {path}: {reason.strerror}.") from reason
