"""The roster of a collective: agents that can answer together, and their scores of each other's models."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from degroot.agents.agent import Agent, Scorer
from degroot.agents.scoring import Scoring
from degroot.agents.units import check_units_apart
from degroot.answers.display import one_line
from degroot.compute.tables import column_names, same_columns, to_numbers
from degroot.consensus.sparse.sample_peers import sample_peers
from degroot.exceptions import InvalidInput
from degroot.schema import DATE, Schema, infer_form, merge_schemas
from degroot.schema.frames import FrameColumn, describe_zones

SHOWN = 8  # names in a message


class Roster:
    """Agents that answer together. It does not change: `join`, `leave` and `replace` give another one.

    Attributes
    ----------
    agents, names : in order
    peers : (K, q), with a degree
        Whose models each agent scores; None: everybody's.
    feature_names, n_features, outputs, classes, schema
        What all of them have in common.
    """

    def __init__(self, agents: tuple[Agent, ...], scoring: Scoring, degree: int | None, drawn: int | None) -> None:
        check_peers(agents)
        check_spaces(agents, scoring.space)
        self.schema = agents[0].schema
        self.agents, self.names, self.degree = agents, tuple(agent.name for agent in agents), degree
        self.peers = None if drawn is None else sample_peers(len(agents), drawn)
        self.feature_names = feature_names(agents)
        self.n_features, self.outputs = agents[0].n_features, agents[0].outputs
        self.classes = agents[0].class_names
        self._scoring = replace(scoring, peers=self.peers)

    @classmethod
    def of(cls, agents: Iterable[Agent], scoring: Scoring, degree: int | None) -> "Roster":
        """These agents, if they can answer together."""
        return cls(check_compatible(agents, scoring.space), scoring, degree, degree)

    @cached_property
    def scorers(self) -> tuple[Scorer, ...]:
        """Each agent's scores of the models; made when they are first needed."""
        return self._scoring.everybody(self.agents)

    def replace(self, agent: Agent) -> "Roster":
        """Another agent of the same name; only what it changes is scored anew."""
        place = self._place(an_agent(agent).name)
        changed = self._with([*self.agents[:place], agent, *self.agents[place + 1 :]])
        if self._keeps_scores(changed):
            changed.scorers = changed._scoring.replaced(self.scorers, place, changed.agents)
        return changed

    def join(self, agent: Agent) -> "Roster":
        """One more agent. With a degree, who scores whom is drawn anew."""
        changed = self._with([*self.agents, agent])
        if self._keeps_scores(changed) and self.degree is None:
            changed.scorers = changed._scoring.joined(self.scorers, changed.agents)
        return changed

    def leave(self, name: str) -> "Roster":
        """One agent less. With a degree, who scores whom is drawn anew."""
        place = self._place(name)
        changed = self._with([*self.agents[:place], *self.agents[place + 1 :]])
        if self._keeps_scores(changed) and self.degree is None:
            changed.scorers = changed._scoring.left(self.scorers, place)
        return changed

    def _keeps_scores(self, changed: "Roster") -> bool:
        """Whether there are scores, of rows that are the same numbers to the changed roster."""
        return "scorers" in vars(self) and changed.schema == self.schema

    def _with(self, agents: Sequence[Agent]) -> "Roster":
        """Once so many have left that there are fewer agents than the degree, everybody scores everybody."""
        compatible = check_compatible(agents, self._scoring.space)
        drawn = None if self.degree is None else min(self.degree, len(compatible))
        return Roster(compatible, self._scoring, self.degree, drawn)

    def _place(self, name: str) -> int:
        if name not in self.names:
            raise InvalidInput(f"An agent's name must be one of {list_names(map(repr, self.names))}; got {name!r}.")
        return self.names.index(name)


def check_compatible(agents: Iterable[Agent], space: Any = None) -> tuple[Agent, ...]:
    """The agents, if there are any, no two share a name or a unit, and all have the same features."""
    if not isinstance(agents, Iterable):
        raise InvalidInput(f"A collective must be made of agents; got {type(agents).__name__}.")
    agents = share_schema([an_agent(agent) for agent in agents], space)
    if not agents:
        raise InvalidInput("A collective must have at least one agent; it has none.")
    first, names, seen = agents[0], feature_names(agents), set[str]()
    for agent in agents:
        if agent.name in seen:
            raise InvalidInput(f"Agents must have distinct names; two are called {agent.name!r}.")
        seen.add(agent.name)
        if agent.n_features != first.n_features:
            raise agent.error(
                f"it must have {first.n_features} features as {first.name!r} has; got {agent.n_features}."
            )
        _check_outputs(agent, first)
        same_columns(agent.feature_names, names, "its rows", agent.error)
    check_units_apart((agent.name, agent.unit_labels) for agent in agents if agent.units is not None)
    return agents


def share_schema(agents: Sequence[Agent], space: Any = None) -> tuple[Agent, ...]:
    """The agents with their rows as numbers by one schema, where any of them has one.

    Schemas that were given must be the same; those that were inferred from frames are merged: the same columns, with
    everybody's categories. Where the collective has a `space`, frames need no schema, and stay what they are.
    """
    if space is not None:
        agents = [agent.without_inferred_schema() for agent in agents]
    if all(agent.schema is None for agent in agents):
        return tuple(agents)
    _check_zones(agents)
    agreed = next((agent for agent in agents if agent.has_agreed_schema), None)
    if agreed is not None and agreed.schema is not None:
        for agent in agents:
            _check_agreed(agent, agreed, agreed.schema)
        return tuple(agents)
    first = agents[0]
    for agent in agents:
        if agent.schema is None and column_names(agent.X) is None:
            named = next(each for each in agents if each.schema is not None)
            raise agent.error(
                f"its rows must be a frame with named columns, as those of {named.name!r} are; they are not."
            )
        if set(agent.feature_names or ()) != set(first.feature_names or ()):
            _refuse_columns(agent, first)
    schemas = [agent.schema or infer_form(agent.X)[0] for agent in agents]
    empty = [
        np.zeros(len(schema.names), bool) if agent.lacks is None else agent.lacks
        for agent, schema in zip(agents, schemas, strict=True)
    ]
    merged = merge_schemas(schemas, [agent.name for agent in agents], empty)
    return tuple(agent.with_schema(merged) for agent in agents)


def _check_agreed(agent: Agent, agreed: Agent, schema: Schema) -> None:
    """Refuse an agent with another schema than the one that the others have agreed on."""
    if agent.schema is None or not agent.has_agreed_schema:
        raise agent.error(f"it must have the schema of {agreed.name!r}, `schema=`; it has none.")
    if agent.schema.digest != schema.digest:
        differences = "; ".join(agent.schema.list_differences(schema)[:SHOWN])
        raise agent.error(f"it must have the schema of {agreed.name!r}; they differ: {differences}.")


def _check_zones(agents: Iterable[Agent]) -> None:
    """Refuse agents whose dates have time zones in some frames and none in others."""
    first: dict[str, tuple[FrameColumn, str]] = {}
    for agent in agents:
        form = agent.typed_form
        for column in () if form is None else form.columns:
            known, name = first.setdefault(column.name, (column, agent.name)) if column.kind == DATE else (column, "")
            if known.has_zone != column.has_zone:
                raise agent.error(describe_zones(known, f"agent {name!r}", column.dtype))


def _refuse_columns(agent: Agent, first: Agent) -> None:
    """Refuse an agent whose frame has other columns than the first one's."""
    mine, others = agent.feature_names or [], first.feature_names or []
    lacking, extra = [name for name in others if name not in mine], [name for name in mine if name not in others]
    told = [f"it lacks {list_names(map(repr, lacking))}"] * bool(lacking) + [
        f"only it has {list_names(map(repr, extra))}"
    ] * bool(extra)
    raise agent.error(
        f"it must have the columns of {first.name!r}, or both a `schema` that has all of them; {', '.join(told)}."
    )


def check_spaces(agents: Sequence[Agent], space: Any) -> None:
    """Refuse rows that are no finite numbers where nothing takes them to where distances are."""
    for agent in agents:
        if agent.space is None and space is None and agent.schema is None and not agent.remote:
            to_numbers(agent.X, agent.error)


def _check_outputs(agent: Agent, first: Agent) -> None:
    """Refuse agents that do not predict the same thing."""
    expected, found = _list_classes(first), _list_classes(agent)
    if found != expected:
        raise agent.error(f"it must have the classes of {first.name!r}, in the same order, {expected}; it has {found}.")
    if agent.outputs != first.outputs:
        raise agent.error(
            f"its outputs must be {first.outputs or 1} as those of {first.name!r} are; got {agent.outputs or 1}."
        )


def _list_classes(agent: Agent) -> str:
    return ", ".join(agent.class_names) or "none"


def an_agent(candidate: Any) -> Agent:
    """`candidate`, if it is an agent."""
    if not isinstance(candidate, Agent):
        raise InvalidInput(f"A collective must be made of agents; got {type(candidate).__name__}.")
    return candidate


def feature_names(agents: Iterable[Agent]) -> list[str] | None:
    """The names of the features, if the rows of any agent have them."""
    return next((agent.feature_names for agent in agents if agent.feature_names is not None), None)


def check_peers(agents: Sequence[Agent]) -> None:
    """Refuse an agent alone that leaves the scoring of its model to peers."""
    if len(agents) == 1 and agents[0].scored_by_peers:
        raise agents[0].error("its model must be scored by somebody: without peers it needs `own_predictions`.")


def scored_by_peers_indices(agents: Iterable[Agent]) -> tuple[int, ...]:
    """The places of agents that do not score their own models."""
    return tuple(place for place, agent in enumerate(agents) if agent.scored_by_peers)


def tabulate(agents: Sequence[Agent]) -> tuple[tuple[str, ...], ...]:
    """A table of the agents, or of the first of many."""
    lines = (
        (one_line(agent.name), type(agent.model).__name__, f"{agent.n_rows:,}", agent.own) for agent in agents[:SHOWN]
    )
    return (("agent", "model", "rows", "own model scored on"), *lines)


def list_names(names: Iterable[str]) -> str:
    """The names, or the first few of many."""
    every = list(names)
    return ", ".join(every[:SHOWN]) + (f" and {len(every) - SHOWN} more" if len(every) > SHOWN else "")
