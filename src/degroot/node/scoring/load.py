"""Loading: from a node's configuration to its agent, with the one model that it needs nobody for, its own."""

import time
from typing import Any

import numpy as np

from degroot import files, models
from degroot.agents.agent import Agent, Scorer, residuals_of
from degroot.collective import Collective
from degroot.compute.compiled import Array
from degroot.consultation.consult import FEW_POINTS
from degroot.node.config import Configuration
from degroot.node.protocol.codec import Model
from degroot.node.scoring.scored_agent import ScoredAgent
from degroot.rules.rules import RULES, RuleSettings

AT_ONCE, TRIES = 0.005, 3  # seconds for a few rows, at best of so many tries


def load_scored_agent(configuration: Configuration, *, unsafe_pickle: bool = False) -> ScoredAgent:
    """The seat of a node that has scored its own model only."""
    return seated_with(configuration, files.load(configuration.data), unsafe_pickle=unsafe_pickle)


def seated_with(configuration: Configuration, rows: files.Rows, *, unsafe_pickle: bool = False) -> ScoredAgent:
    """The same, with rows that were read before."""
    model, version = models.load(configuration.model, unsafe_pickle=unsafe_pickle)
    models.check_features(model, rows.names)
    agent, settings = _agent(configuration, rows, model), configuration.collective
    option = RuleSettings(settings.rule, RULES[settings.rule].reach)
    scorer = Scorer.build(agent, [agent], settings.metric)
    first = ScoredAgent(
        agent, version, option.as_set(settings.neighbours, settings.kernel, settings.ridge),
        (Model(configuration.name, version),), scorer, settings.guard, rows.names, is_near_by(configuration, agent),
    )  # fmt: skip
    return ScoredAgent.taken(first, {first.scored[0]: own_residuals(first)})


def is_near_by(configuration: Configuration, agent: Agent) -> bool:
    """Whether its model answers in this process, and a few rows at once; it has been asked before."""
    if configuration.model.address is not None:
        return False
    rows = agent.X[np.arange(FEW_POINTS) % agent.n_rows]
    return min(_seconds(agent, rows) for _ in range(TRIES)) <= AT_ONCE


def _seconds(agent: Agent, rows: Array) -> float:
    begun = time.perf_counter()
    agent.predict(rows)
    return time.perf_counter() - begun


def own_residuals(seat: ScoredAgent) -> Array:
    """What its own model is off by on its own rows, (n, Q)."""
    return residuals_of(seat.agent, [seat.agent])[..., 0]


def _agent(configuration: Configuration, rows: files.Rows, model: Any) -> Agent:
    classes = configuration.data.classes
    agent = Agent(
        model, rows.X, rows.y, configuration.name, space=_space(configuration.data.space), own_predictions=rows.own,
        classes=None if classes is None else np.array(classes), units=rows.units,
    )  # fmt: skip
    agent.predict(rows.X[:1])  # a model that does not fit the rows is found here
    return agent


def _space(named: str | None) -> object:
    if named != files.STANDARDISE:
        return None
    from sklearn.preprocessing import StandardScaler

    return StandardScaler()


def warm_up(seat: ScoredAgent) -> None:
    """Answer something as the nodes will together, so that no kernel is compiled while somebody waits."""
    random = np.random.default_rng(0)
    rows = random.normal(size=(3, 40, seat.agent.n_features))
    agents = [Agent(lambda X: X[:, 0], each, random.normal(size=40), f"agent{k}") for k, each in enumerate(rows)]
    option = seat.option
    collective = Collective(
        agents, 5, option.rule, metric=seat.scorer.metric, kernel=option.reach.kernel, ridge=option.ridge,
        guard=seat.guarded,
    )  # fmt: skip
    collective.calibrate().consult(rows[0], coverage=0.5)
    collective.consult(rows[0], coverage=0.5, asker="agent0")
    seat.give_opinion(seat.agent.X[:1], guard=seat.guarded)
