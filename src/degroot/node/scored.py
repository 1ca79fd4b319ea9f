"""Scored models: whose they are and which version, here and on the wire."""

from collections.abc import Sequence
from typing import NamedTuple

from degroot.node.v1 import collective_pb2 as v1
from degroot.node.wire import Malformed


class Model(NamedTuple):
    """One organisation's model."""

    name: str
    version: str


def models(told: Sequence[v1.Model]) -> tuple[Model, ...]:
    """The models that a message lists, each once."""
    listed = tuple(Model(each.name, each.version) for each in told)
    if len({each.name for each in listed}) < len(listed):
        raise Malformed(f"`scored` must name each model once; got {len(listed)} names, some of them twice.")
    return listed
