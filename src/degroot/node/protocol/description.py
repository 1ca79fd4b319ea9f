"""Descriptions: who a node is, and what keeps two nodes from answering together."""

from collections.abc import Sequence

import numpy as np

from degroot.agents.agent import Agent
from degroot.node.config import Configuration, NodeSettings
from degroot.node.protocol.codec import PROTOCOL, SPOKEN
from degroot.node.protocol.schemas import find_schema_difference
from degroot.node.protocol.v3 import collective_pb2 as wire
from degroot.schema import Schema

SETTINGS = ("rule", "neighbours", "metric", "kernel", "ridge", "guard")  # alike where evidence is pooled
MAP_SETTINGS = ("rule", "ridge")  # where evidence is maps
LONGEST, MOST = 200, 10_000  # characters of a version; models that are scored, and members


def describe_node(configuration: Configuration, agent: Agent, feature_names: Sequence[str]) -> wire.Description:
    """What a node says of itself, before it has scored any model."""
    schema, optional = agent.schema, None if agent.schema is None else agent.optional
    return wire.Description(
        protocol=PROTOCOL, name=configuration.name, settings=_encode_settings(configuration.collective),
        n_features=agent.n_features, feature_names=feature_names, outputs=agent.outputs or 0,
        classes=agent.class_names,
        scored_by_peers=agent.scored_by_peers, pooled=configuration.pooled,
        schema_digest="" if schema is None else schema.digest, takes_gaps=schema is not None and agent.takes_gaps,
        optional_columns=()
        if schema is None or optional is None
        else [schema.names[place] for place in np.flatnonzero(optional)],
    )  # fmt: skip


def find_difference(
    mine: wire.Description, theirs: wire.Description, name: str, schema: Schema | None = None
) -> str | None:
    """What keeps two nodes from answering together, if anything does. `schema`: this node's."""
    if theirs.protocol not in SPOKEN:
        return f"it must speak version {' or '.join(map(str, SPOKEN))} of the protocol; it speaks {theirs.protocol}"
    if theirs.name != name:
        return f"its name must be {name!r}, as in the roster; it is {theirs.name[:100]!r}"
    differs = find_schema_difference(schema, theirs)
    if differs is not None:
        return differs
    if theirs.n_features != mine.n_features:
        return f"it must have {mine.n_features} features, as here; it has {theirs.n_features}"
    strange = _implausible(theirs) or _misnamed(mine.feature_names, theirs.feature_names)
    if strange is not None:
        return strange
    if theirs.outputs != mine.outputs:
        return f"it must predict {mine.outputs or 1} outputs, as here; it predicts {theirs.outputs or 1}"
    if list(theirs.classes) != list(mine.classes):
        return f"its classes must be {', '.join(mine.classes)}, as here; they are {', '.join(theirs.classes)[:200]}"
    if mine.map_grid and theirs.map_grid and theirs.map_grid != mine.map_grid:
        return "its evidence maps must have the ranges, residual bound, seed, trees and depth that are declared here"
    both_pooled, both_mapped = mine.pooled and theirs.pooled, bool(mine.map_grid and theirs.map_grid)
    for field in SETTINGS if both_pooled else MAP_SETTINGS if both_mapped else ():
        here, there = getattr(mine.settings, field), getattr(theirs.settings, field)
        if here != there:
            return f"its setting {field!r} must be {_format_setting(here)}, as here; it is {_format_setting(there)}"
    return None


def _format_setting(setting: object) -> str:
    return "left out" if setting == "" else repr(setting)[:100]


def _implausible(theirs: wire.Description) -> str | None:
    """What no node says."""
    if not 1 <= len(theirs.model_version) <= LONGEST:
        return f"its model's version must have 1 to {LONGEST} characters; it has {len(theirs.model_version)}"
    for what, told in (
        ("scored models", theirs.scored),
        ("members", theirs.members),
        ("columns", theirs.optional_columns),
    ):
        if len(told) > MOST:
            return f"it must tell of at most {MOST} {what}; it tells of {len(told)}"
    return None


def _misnamed(mine: Sequence[str], theirs: Sequence[str]) -> str | None:
    """How the names of features differ, where both have names."""
    if mine and theirs and len(theirs) != len(mine):
        return f"it must have {len(mine)} names of features, as here; it has {len(theirs)}"
    for k, (here, there) in enumerate(zip(mine, theirs, strict=False)):
        if here != there:
            return f"its features must be the same in the same order; feature {k} is {there[:100]!r}, not {here!r}"
    return None


def _encode_settings(settings: NodeSettings) -> wire.Settings:
    def written(value: object) -> str:
        return "" if value is None else str(value)

    return wire.Settings(
        rule=settings.rule, neighbours=written(settings.neighbours), metric=settings.metric,
        kernel=written(settings.kernel), ridge=written(settings.ridge), guard=settings.guard,
    )  # fmt: skip
