"""Loading: from a node's configuration to its agent, with the one model that it needs nobody for, its own."""

from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np

from degroot import files, models
from degroot.agents.agent import Agent, Scorer, find_able_rows, residuals_of, try_model
from degroot.collective import Collective
from degroot.compute.compiled import Array
from degroot.consultation.abstention import name_columns
from degroot.exceptions import InvalidInput
from degroot.node.config import Configuration
from degroot.node.protocol.codec import Model
from degroot.node.protocol.schemas import write_schema
from degroot.node.scoring.scored_agent import ScoredAgent, answers_at_once
from degroot.rules.evidence import NeighbourhoodSpec
from degroot.rules.rules import RULES, RuleSettings


def load_scored_agent(configuration: Configuration, *, unsafe_pickle: bool = False) -> ScoredAgent:
    """The seat of a node that has scored its own model only."""
    return seated_with(configuration, files.load(configuration.data), unsafe_pickle=unsafe_pickle)


def seated_with(configuration: Configuration, rows: files.Rows, *, unsafe_pickle: bool = False) -> ScoredAgent:
    """The same, with rows that were read before."""
    model, version = models.load(configuration.model, unsafe_pickle=unsafe_pickle, schema=rows.schema)
    models.check_features(model, rows.names)
    agent, settings = _agent(configuration, rows, model), configuration.collective
    _check_schema(configuration, agent)
    option = RuleSettings(settings.rule, RULES[settings.rule].reach)
    option = option.as_set(settings.neighbours, settings.kernel, settings.ridge)
    pooled, least = option, 1
    if configuration.pooled:
        least = configuration.disclosure.least_rows
        _check_rows(configuration, agent, least)
        pooled = replace(option, reach=widen(option.reach, least))
    scorer = replace(Scorer.build(agent, [agent], settings.metric), least_rows=least)
    first = ScoredAgent(
        agent, version, option, pooled, (Model(configuration.name, version),), scorer, settings.guard, rows.names,
        is_near_by(configuration, agent),
    )  # fmt: skip
    return ScoredAgent.taken(first, {first.scored[0]: own_residuals(first)})


def widen(reach: NeighbourhoodSpec, least_rows: int) -> NeighbourhoodSpec:
    """The same neighbourhoods with so many rows at least that count.

    Of a tricube kernel the farthest row counts nothing.

    Examples
    --------
    >>> widen(NeighbourhoodSpec(2, "tricube"), 10).neighbours
    11
    """
    least = least_rows + (reach.kernel == "tricube" and least_rows > 1)
    if isinstance(reach.neighbours, Integral):
        return reach._replace(neighbours=max(int(reach.neighbours), least))
    return reach._replace(least=max(reach.least, least), most=None if reach.most is None else max(reach.most, least))


def _check_rows(configuration: Configuration, agent: Agent, least: int) -> None:
    if agent.n_rows <= least:
        raise InvalidInput(
            f"{configuration.path}: pooled evidence must have more than {least} rows behind it "
            f"(disclosure.least_rows); there are {agent.n_rows}."
        )


def _check_schema(configuration: Configuration, agent: Agent) -> None:
    """Refuse a schema that is too large to be told, and evidence for the consensus where rows lack whole columns."""
    if agent.schema is None:
        return
    write_schema(agent.schema)
    if configuration.has_consensus and agent.lacks is not None:
        raise InvalidInput(
            f"{configuration.path}: `evidence` must be 'own' where rows lack columns; got {configuration.evidence!r}, "
            f"and {configuration.data.file} lacks {name_columns(agent.lacks, agent.schema.names)}."
        )


def is_near_by(configuration: Configuration, agent: Agent) -> bool:
    """Whether its model answers in this process, and a few rows at once; it has been asked before."""
    return configuration.model.address is None and answers_at_once(agent, find_able_rows(agent))


def own_residuals(seat: ScoredAgent) -> Array:
    """What its own model is off by on its own rows, (n, Q)."""
    return residuals_of(seat.agent, [seat.agent])[..., 0]


def _agent(configuration: Configuration, rows: files.Rows, model: Any) -> Agent:
    classes = configuration.data.classes if rows.schema is None else rows.schema.classes
    agent = Agent(
        model, rows.X, rows.y, configuration.name, space=_space(configuration.data.space), own_predictions=rows.own,
        classes=None if classes is None else np.array(classes), units=rows.units, schema=rows.schema,
    )  # fmt: skip
    try_model(agent)
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
