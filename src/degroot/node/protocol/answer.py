"""Answers on the wire: what the asked node sends, and what whoever asked makes of it."""

from collections.abc import Sequence

import numpy as np

from degroot.answers.flags import Flag
from degroot.node.answering.solve import OF_AGENTS, NodeAnswer
from degroot.node.protocol.tensors import array, tensor
from degroot.node.protocol.v1 import collective_pb2 as v1


def encode_answer(answered: NodeAnswer, outputs: int | None) -> v1.Answer:
    """An answer, ready to be sent. `outputs`: how many numbers a value is; None: one, as (M,)."""
    message = v1.Answer(names=answered.names, rounds=answered.rounds, outputs=outputs or 0)
    for name, values in answered.fields.items():
        message.fields[name].CopyFrom(tensor(values))
    for flag in answered.flags:
        message.flags.add(agent=flag.agent, reason=flag.reason, points=flag.points.tolist())
    return message


def decode_answer(message: v1.Answer, fields: Sequence[str], outputs: int | None) -> NodeAnswer:
    """The answer in a message, if it has these fields in the right shapes; it may have others, which are not read."""
    K, Q = len(message.names), outputs or 1
    shapes: dict[str, tuple[int | None, ...]] = {"weights": (None, K), "trust": (None, K, K)}
    shapes |= {name: (None, K, Q) if name in OF_AGENTS else (None, Q) for name in fields if name not in shapes}
    found = {name: array(message.fields[name], shapes[name], name, finite=False) for name in fields}
    flags = tuple(Flag(flag.agent, flag.reason, np.array(flag.points, np.intp)) for flag in message.flags)
    return NodeAnswer(tuple(message.names), found, flags, message.rounds)
