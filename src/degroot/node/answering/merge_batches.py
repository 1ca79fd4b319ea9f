"""Replies: the answers to batches of points, put together to one."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from degroot.answers.answer import Consensus
from degroot.answers.flags import Flag
from degroot.compute.compiled import Array
from degroot.node.answering.solve import OF_AGENTS, expand_to_roster
from degroot.node.protocol.tensors import array
from degroot.node.protocol.v1 import collective_pb2 as v1


def bounds(coverage: float | None, classes: Sequence[Any]) -> tuple[str, ...]:
    """The fields that answers have for intervals: of numbers, or of classes if there are any."""
    if coverage is None:
        return ()
    return ("sets",) if classes else ("lower", "upper")


class Replies:
    """Collects answers; the roster may have changed between them."""

    def __init__(self, fields: Sequence[str], outputs: int | None) -> None:
        self._fields, self._outputs = fields, outputs
        self._answers: list[v1.Answer] = []

    def add(self, answer: v1.Answer) -> None:
        """Take in the answer to the next batch."""
        self._answers.append(answer)

    def consensus(self, known: Sequence[str], **about: Any) -> Consensus:
        """All of it as one answer; `about`: what is known of the question."""
        names = tuple(sorted({*known, *(name for answer in self._answers for name in answer.names)}))
        parts: dict[str, list[Array]] = {name: [] for name in self._fields}
        flags: dict[tuple[str, str], list[Any]] = {}
        start = 0
        for answer in self._answers:
            size = 0
            for name in self._fields:
                values = self._values(answer, name, names)
                parts[name].append(values)
                size = len(values)
            for flag in answer.flags:
                flags.setdefault((flag.agent, flag.reason), []).append(np.array(flag.points, np.intp) + start)
            start += size
        told = tuple(Flag(agent, why, np.concatenate(points)) for (agent, why), points in flags.items())
        fields: dict[str, Any] = {name: np.concatenate(each) for name, each in parts.items()}
        if "sets" in fields:
            fields["sets"] = fields["sets"] != 0.0
        rounds = max((answer.rounds for answer in self._answers), default=0)
        return Consensus(names, **fields, flags=told, rounds=rounds or None, **about)

    def _values(self, answer: v1.Answer, name: str, names: Sequence[str]) -> Array:
        K, Q = len(answer.names), self._outputs or 1
        shape = {"weights": (None, K), "trust": (None, K, K)}.get(
            name, (None, K, Q) if name in OF_AGENTS else (None, Q)
        )
        values = array(answer.fields[name], shape, name, finite=False)
        if name in OF_AGENTS and tuple(answer.names) != tuple(names):
            values = expand_to_roster({name: values}, names, answer.names)[name]
        if self._outputs is None and name not in ("weights", "trust"):
            values = values[..., 0]
        return values
