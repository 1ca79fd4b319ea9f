"""Agents that lie: with their models, at the points, and in what they say of others."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from degroot import Agent
from degroot.agents.agent import Predictor, Scorer
from degroot.guard.forecast import AnswerForecast, AnswerForecaster
from degroot.rules.evidence import Evidence, NeighbourhoodSpec

PRAISE, BLAME = 1e-6, 1e3  # what the residuals of models are multiplied by
FAR = 1e12  # what colluding agents say that they expect of others, and of labels


@dataclass(frozen=True)
class Attack:
    """What liars do. Amounts are in standard deviations of the label."""

    name: str
    offset: float = 0.0  # of the model everywhere, also at calibration
    lie: float = 0.0  # of answers, once the model has been scored
    random: bool = False  # the model draws its answers
    copies: bool = False  # the model is the honest one that does best on the liar's rows
    praises: bool = False  # it says that its own model has no error
    colludes: bool = False  # it says so of all liars, and blames and rejects all others
    covers: bool = False  # it says that its rows are at the point
    knows: bool = False  # it knows an asker's guard, and says as much too high as that lets pass

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Remembered:
    """A model that is asked once about each table."""

    model: Any
    known: dict[int, tuple[Any, np.ndarray]] = field(default_factory=dict)

    def predict(self, X: Any) -> np.ndarray:
        if id(X) not in self.known:
            self.known[id(X)] = X, self.model.predict(X)  # with the table, so that its number stays taken
        return self.known[id(X)][1]


@dataclass(frozen=True)
class Shifted:
    model: Any
    by: float

    def predict(self, X: Any) -> np.ndarray:
        return np.asarray(self.model.predict(X) + self.by)


@dataclass(frozen=True)
class Dice:
    centre: float
    scale: float
    random: np.random.Generator

    def predict(self, X: Any) -> np.ndarray:
        return self.random.normal(self.centre, self.scale, X.shape[0])


class Liar(Agent):
    """An agent in an attack. It lies at points from `scored` on."""

    scored = False
    told: tuple[Any, np.ndarray] | None = None  # what to say of which points

    def __init__(self, agent: Agent, model: Any, attack: Attack, friends: set[str], sd: float) -> None:
        own = agent.own_predictions if model is agent.model else None
        super().__init__(model, agent.X, agent.y, agent.name, own_predictions=own)
        self.attack, self.lie = attack, attack.lie * sd
        self.praised = friends if attack.colludes else {self.name} if attack.praises else set()

    def predict(self, X: Any) -> np.ndarray:
        if self.scored and self.told is not None and X is self.told[0]:
            return self.told[1]
        return np.asarray(super().predict(X) + (self.lie if self.scored else 0.0))

    def score_models(self, predictors: Sequence[Predictor], metric: str, space: Any) -> Scorer:
        scorer = super().score_models(predictors, metric, space)
        praised = np.array([each.name in self.praised for each in predictors])
        return Bent(
            **{each.name: getattr(scorer, each.name) for each in fields(Scorer)}, attack=self.attack, praised=praised
        )


@dataclass(frozen=True)
class Bent(Scorer):
    """A scorer whose opinions are bent before they are heard."""

    attack: Attack = Attack("none")
    praised: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))  # (K,)

    @property
    def factor(self) -> np.ndarray:
        """(K,) of the models' residuals."""
        return np.where(self.praised, PRAISE, BLAME if self.attack.colludes else 1.0)

    def measure(
        self, into: Evidence, place: int, transformed: Any, reach: NeighbourhoodSpec, exclude_row: Any = None
    ) -> None:
        super().measure(into, place, transformed, reach, exclude_row)
        if into.moments is None:
            into.errors[:, place] *= self.factor**2
        else:
            row, column = np.tril_indices(len(self.factor))
            into.moments[:, place] *= self.factor[row] * self.factor[column]
        if self.attack.covers and into.spread is not None:
            into.spread[:, place] = 0.0

    @cached_property
    def forecaster(self) -> AnswerForecaster:
        plain = Scorer(**{each.name: getattr(self, each.name) for each in fields(Scorer)})
        return Slander(plain.forecaster, self)  # type: ignore[return-value]

    def label_range(self) -> tuple[np.ndarray, np.ndarray]:
        low, high = super().label_range()
        return (low - FAR, high + FAR) if self.attack.colludes else (low, high)


@dataclass(frozen=True)
class Slander:
    """What a liar says that it expects."""

    honest: AnswerForecaster
    scorer: Bent

    @property
    def usual_distance(self) -> float:
        return self.honest.usual_distance

    def forecast(self, transformed: Any) -> AnswerForecast:
        said, praised = self.honest.forecast(transformed), self.scorer.praised
        said = replace(said, errors=said.errors * self.scorer.factor**2)
        if self.scorer.attack.covers:
            said = replace(said, spread=np.zeros_like(said.spread))
        if self.scorer.attack.colludes:
            answers = np.where(praised[:, None], said.answers, FAR)
            said = replace(said, answers=answers, tolerance=np.where(praised, np.inf, np.zeros_like(said.tolerance)))
        return said


def corrupted(
    agents: Sequence[Agent], places: Sequence[int], attack: Attack, random: np.random.Generator
) -> list[Agent]:
    """The same agents, of which those at `places` are liars."""
    labels = np.concatenate([agent.y for agent in agents])
    friends = {agents[place].name for place in places}
    honest = [agent for agent in agents if agent.name not in friends]
    done = list(agents)
    for place in places:
        model = _model(agents[place], honest, attack, labels, random)
        done[place] = Liar(agents[place], model, attack, friends, labels.std())
    return done


def _model(agent: Agent, honest: list[Agent], attack: Attack, labels: np.ndarray, random: np.random.Generator) -> Any:
    model = agent.model
    if attack.random:
        model = Remembered(Dice(labels.mean(), labels.std(), random))
    if attack.copies:
        model = min((peer.model for peer in honest), key=lambda each: np.mean((each.predict(agent.X) - agent.y) ** 2))
    return Shifted(model, attack.offset * labels.std()) if attack.offset else model
