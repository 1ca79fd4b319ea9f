"""Merging: the answers to the batches of a question become one."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from degroot.answers.answer import Consensus
from degroot.answers.flags import Flag
from degroot.node.answering.solve import expand_to_roster
from degroot.node.protocol.codec import NodeAnswer

WITHOUT_OUTPUTS = ("weights", "trust")  # fields that have no axis of outputs


def merge_batches(answers: Sequence[NodeAnswer], outputs: int | None, known: Sequence[str], **about: Any) -> Consensus:
    """One answer to all batches, in order. The roster may have changed between them.

    Parameters
    ----------
    answers : at least one, all with the same fields
    outputs : how many numbers a value is; None: one, as (M,)
    known : names of agents that have a place in the answer, whether a batch names them or not
    about : what is known of the question: further fields of `Consensus`
    """
    names = tuple(sorted({*known, *(name for answer in answers for name in answer.names)}))
    parts = [expand_to_roster(answer.fields, names, answer.names) for answer in answers]
    fields: dict[str, Any] = {name: np.concatenate([part[name] for part in parts]) for name in answers[0].fields}
    if outputs is None:
        fields = {name: values if name in WITHOUT_OUTPUTS else values[..., 0] for name, values in fields.items()}
    if "sets" in fields:
        fields["sets"] = fields["sets"] != 0.0
    rounds = max(answer.rounds for answer in answers)
    return Consensus(names, **fields, flags=_merge_flags(answers), rounds=rounds or None, **about)


def _merge_flags(answers: Sequence[NodeAnswer]) -> tuple[Flag, ...]:
    """Each flag once, with the points of all batches, counted from the first one."""
    places: dict[tuple[str, str], list[Any]] = {}
    start = 0
    for answer in answers:
        for flag in answer.flags:
            places.setdefault((flag.agent, flag.reason), []).append(flag.points + start)
        start += len(next(iter(answer.fields.values()), ()))
    return tuple(Flag(agent, why, np.concatenate(points)) for (agent, why), points in places.items())
