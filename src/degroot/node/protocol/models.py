"""Scored models: whose they are and which version, here and on the wire."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from degroot.node.protocol.tensors import Malformed
from degroot.node.protocol.v1 import collective_pb2 as v1


class Model(NamedTuple):
    """One organisation's model."""

    name: str
    version: str


def listed(known: Iterable[Model]) -> list[v1.Model]:
    """Models, ready to be sent."""
    return [v1.Model(name=name, version=version) for name, version in known]


def models(told: Sequence[v1.Model]) -> tuple[Model, ...]:
    """The models that a message lists, each once."""
    known = tuple(Model(each.name, each.version) for each in told)
    if len({each.name for each in known}) < len(known):
        raise Malformed(f"A message must name each model once; got {len(known)} names, some of them twice.")
    return known
