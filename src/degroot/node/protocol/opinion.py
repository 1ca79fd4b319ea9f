"""Opinions: what one node says of points and of everybody's models near them, here and on the wire."""

from dataclasses import dataclass

import numpy as np

from degroot.compute.compiled import Array
from degroot.compute.tables import LARGEST
from degroot.guard.forecast import AnswerForecast
from degroot.node.protocol import calibration
from degroot.node.protocol.calibration import CalibrationSummary
from degroot.node.protocol.models import Model, listed, models
from degroot.node.protocol.tensors import Malformed, array, tensor
from degroot.node.protocol.v1 import collective_pb2 as v1


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a node expects of K models at M points, and what is usual at its own rows: for the guard."""

    said: AnswerForecast
    reach: float
    low: Array  # (Q,) where its labels lie
    high: Array  # (Q,)


@dataclass(frozen=True, slots=True)
class Opinion:
    """What one node says of M points. It has no rows, no labels and no single residual in it."""

    version: str  # of its own model
    beliefs: Array  # (M, Q)
    scored: tuple[Model, ...]  # K models, the columns of what follows
    errors: Array | None = None  # (M, K), or
    moments: Array | None = None  # (M, K (K + 1) / 2)
    spread: Array | None = None  # (M,)
    effective: Array | None = None  # (M,)
    expectation: Expectation | None = None
    calibrated: CalibrationSummary | None = None  # for intervals


def encode(opinion: Opinion, number: int) -> v1.OpinionReply:
    """An opinion, ready to be sent in reply to a question."""
    reply = v1.OpinionReply(id=number, model_version=opinion.version, beliefs=tensor(opinion.beliefs))
    reply.scored.extend(listed(opinion.scored))
    for name in ("errors", "moments", "spread", "effective"):
        values = getattr(opinion, name)
        if values is not None:
            getattr(reply, name).CopyFrom(tensor(values))
    if opinion.expectation is not None:
        reply.expectation.CopyFrom(encode_expectation(opinion.expectation))
    if opinion.calibrated is not None:
        reply.calibrated.CopyFrom(calibration.encode(opinion.calibrated))
    return reply


def decode(reply: v1.OpinionReply, points: int, outputs: int, *, classes: bool = False) -> Opinion:
    """What a peer said of so many points, if it has the right shapes; whether it can be true is for the guard."""
    M, scored = points, models(reply.scored)
    K = len(scored)
    sizes = {"errors": (M, K), "moments": (M, K * (K + 1) // 2), "spread": (M,), "effective": (M,)}
    found = {
        name: array(getattr(reply, name), shape, name, finite=False)
        for name, shape in sizes.items()
        if reply.HasField(name)
    }
    if ("errors" in found) == ("moments" in found) or not scored:
        raise Malformed("An opinion must have either errors or second moments of some models.")
    expectation = decode_expectation(reply.expectation, M, K, outputs) if reply.HasField("expectation") else None
    told = calibration.decode(reply.calibrated, M, outputs, classes=classes) if reply.HasField("calibrated") else None
    beliefs = beliefs_of(reply.beliefs, M, outputs)
    return Opinion(reply.model_version, beliefs, scored, **found, expectation=expectation, calibrated=told)


def beliefs_of(message: v1.Tensor, points: int, outputs: int) -> Array:
    """Beliefs (M, Q), none of them too large."""
    beliefs = array(message, (points, outputs), "beliefs")
    if np.abs(beliefs).max(initial=0.0) > LARGEST:
        raise Malformed(f"`beliefs` must not exceed {LARGEST:g} in size; they reach {np.abs(beliefs).max():g}.")
    return beliefs


def encode_expectation(expectation: Expectation) -> v1.Expectation:
    """An expectation, ready to be sent."""
    said = expectation.said
    return v1.Expectation(
        answers=tensor(said.answers), tolerance=tensor(said.tolerance), errors=tensor(said.errors),
        spread=tensor(said.spread), reach=expectation.reach, low=tensor(expectation.low), high=tensor(expectation.high),
    )  # fmt: skip


def decode_expectation(message: v1.Expectation, M: int, K: int, Q: int) -> Expectation:
    """What a peer expects, if it has the right shapes."""
    said = AnswerForecast(
        array(message.answers, (M, K, Q), "answers", finite=False),
        array(message.tolerance, (M, K), "tolerance", finite=False),
        array(message.errors, (M, K), "errors", finite=False),
        array(message.spread, (M,), "spread", finite=False),
    )
    if not 0.0 <= message.reach < np.inf:
        raise Malformed(f"`reach` must be finite and not negative; got {message.reach}.")
    low, high = array(message.low, (Q,), "low"), array(message.high, (Q,), "high")
    return Expectation(said, message.reach, low, high)
