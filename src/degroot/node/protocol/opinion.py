"""Opinions on the wire: a codec between messages and `Opinion`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from degroot.compute.compiled import Array
from degroot.compute.tables import LARGEST
from degroot.consultation.consult import Opinion
from degroot.guard.forecast import AnswerForecast, GuardStandards
from degroot.node.protocol import calibration
from degroot.node.protocol.calibration import CalibrationSummary
from degroot.node.protocol.models import Model, listed, models
from degroot.node.protocol.tensors import Malformed, array, tensor
from degroot.node.protocol.v1 import collective_pb2 as v1
from degroot.rules.evidence import Evidence

MEASURED = ("errors", "moments", "spread", "effective")


@dataclass(frozen=True, slots=True)
class PeerOpinion:
    """What one node says of M points, and of which versions of models. It has no rows, labels or single residuals."""

    version: str  # of its own model
    scored: tuple[Model, ...]  # the columns of what it measured
    opinion: Opinion
    calibrated: CalibrationSummary | None = None  # for intervals

    def select(self, members: Sequence[str]) -> Opinion:
        """The opinion with the members' models as its columns, in their order."""
        names = [model.name for model in self.scored]
        if names == list(members):
            return self.opinion
        columns = np.array([names.index(name) for name in members])
        measured, forecast = self.opinion.measured, self.opinion.forecast
        if measured is not None:
            measured = measured.select_models(columns)
        if forecast is not None:
            forecast = forecast.select_models(columns)
        return replace(self.opinion, measured=measured, forecast=forecast)


def encode_opinion(told: PeerOpinion, number: int) -> v1.OpinionReply:
    """An opinion, ready to be sent in reply to a question."""
    reply = v1.OpinionReply(id=number, model_version=told.version, beliefs=tensor(told.opinion.beliefs))
    reply.scored.extend(listed(told.scored))
    for name in MEASURED:
        values = getattr(told.opinion.measured, name)
        if values is not None and (name != "errors" or _has_plain_errors(told.opinion)):
            getattr(reply, name).CopyFrom(tensor(values[:, 0]))
    if told.opinion.forecast is not None:
        reply.expectation.CopyFrom(encode_forecast(told.opinion))
    if told.calibrated is not None:
        reply.calibrated.CopyFrom(calibration.encode(told.calibrated))
    return reply


def _has_plain_errors(opinion: Opinion) -> bool:
    """Whether errors are told by themselves: with moments they are on the diagonal."""
    return opinion.measured is not None and opinion.measured.moments is None


def decode_opinion(reply: v1.OpinionReply, points: int, outputs: int, *, classes: bool = False) -> PeerOpinion:
    """What a peer said of so many points, if it has the right shapes; whether it can be true is for the guard."""
    M, scored = points, models(reply.scored)
    K = len(scored)
    sizes = {"errors": (M, K), "moments": (M, K * (K + 1) // 2), "spread": (M,), "effective": (M,)}
    found: dict[str, Array] = {
        name: array(getattr(reply, name), shape, name, finite=False)[:, None]
        for name, shape in sizes.items()
        if reply.HasField(name)
    }
    if ("errors" in found) == ("moments" in found) or not scored:
        raise Malformed("An opinion must have either errors or second moments of some models.")
    errors = found.get("errors", np.empty((0, 1, K)))
    measured = Evidence(errors, found.get("moments"), found.get("spread"), found.get("effective"))
    forecast, standards = None, None
    if reply.HasField("expectation"):
        forecast, standards = decode_forecast(reply.expectation, M, K, outputs)
    told = calibration.decode(reply.calibrated, M, outputs, classes=classes) if reply.HasField("calibrated") else None
    opinion = Opinion(beliefs_of(reply.beliefs, M, outputs), measured, forecast, standards)
    return PeerOpinion(reply.model_version, scored, opinion, told)


def beliefs_of(message: v1.Tensor, points: int, outputs: int) -> Array:
    """Beliefs (M, Q), none of them too large."""
    beliefs = array(message, (points, outputs), "beliefs")
    if np.abs(beliefs).max(initial=0.0) > LARGEST:
        raise Malformed(f"`beliefs` must not exceed {LARGEST:g} in size; they reach {np.abs(beliefs).max():g}.")
    return beliefs


def encode_forecast(opinion: Opinion) -> v1.Expectation:
    """What a node expects of others, and what is usual at its own rows, ready to be sent."""
    if opinion.forecast is None or opinion.standards is None:
        raise Malformed("Under a guard an opinion must have a forecast; it has none.")
    said, usual = opinion.forecast, opinion.standards
    return v1.Expectation(
        answers=tensor(said.answers), tolerance=tensor(said.tolerance), errors=tensor(said.errors),
        spread=tensor(said.spread), reach=usual.distance, low=tensor(usual.low), high=tensor(usual.high),
    )  # fmt: skip


def decode_forecast(message: v1.Expectation, M: int, K: int, Q: int) -> tuple[AnswerForecast, GuardStandards]:
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
    return said, GuardStandards(message.reach, low, high)
