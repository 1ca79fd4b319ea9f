"""Opinions as nodes send them to each other: what one measured and expects, checked as it arrives."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array
from degroot.consultation.consult import Opinion
from degroot.guard.forecast import AnswerForecast, GuardStandards
from degroot.node.protocol.codec import Malformed, Model, array, beliefs_of, decode_models, encode_models, tensor
from degroot.node.protocol.v3 import collective_pb2 as wire
from degroot.rules.evidence import Evidence

MEASURED = ("errors", "moments", "spread", "effective")


@dataclass(frozen=True, slots=True)
class PeerOpinion:
    """What one node says of M points, and of which versions of models. It has no rows, labels or single residuals."""

    version: str  # of its own model
    scored: tuple[Model, ...]  # the columns of what it measured
    opinion: Opinion

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

    def without_models(self, unscored: NDArray[np.bool_]) -> "PeerOpinion":
        """The same without models that the node could not score, (K,)."""
        names = [model.name for model, out in zip(self.scored, unscored, strict=True) if not out]
        kept = tuple(model for model in self.scored if model.name in names)
        return replace(self, scored=kept, opinion=self.select(names))


def encode_opinion(told: PeerOpinion, number: int) -> wire.OpinionReply:
    """An opinion, ready to be sent in reply to a question."""
    reply = wire.OpinionReply(id=number, model_version=told.version, beliefs=tensor(told.opinion.beliefs))
    reply.scored.extend(encode_models(told.scored))
    for name in MEASURED:
        values = getattr(told.opinion.measured, name)
        if values is not None and (name != "errors" or _has_plain_errors(told.opinion)):
            getattr(reply, name).CopyFrom(tensor(values[:, 0]))
    if told.opinion.forecast is not None:
        reply.expectation.CopyFrom(encode_forecast(told.opinion))
    return reply


def _has_plain_errors(opinion: Opinion) -> bool:
    """Whether errors are told by themselves: with moments they are on the diagonal."""
    return opinion.measured is not None and opinion.measured.moments is None


def decode_opinion(
    reply: wire.OpinionReply, points: int, outputs: int, abstains: NDArray[np.bool_] | None = None
) -> PeerOpinion:
    """What a peer said of so many points, if it has the right shapes; whether it can be true is for the guard.

    `abstains`: the points (M,) at which its model lacks an input, so that its beliefs are NaN; None: nowhere.
    """
    M, scored = points, decode_models(reply.scored)
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
    opinion = Opinion(beliefs_of(reply.beliefs, M, outputs, abstains), measured, forecast, standards)
    return PeerOpinion(reply.model_version, scored, opinion)


def encode_forecast(opinion: Opinion) -> wire.Expectation:
    """What a node expects of others, and what is usual at its own rows, ready to be sent."""
    if opinion.forecast is None or opinion.standards is None:
        raise Malformed("Under a guard an opinion must have a forecast; it has none.")
    said, usual = opinion.forecast, opinion.standards
    return wire.Expectation(
        answers=tensor(said.answers), tolerance=tensor(said.tolerance), errors=tensor(said.errors),
        spread=tensor(said.spread), reach=usual.distance, low=tensor(usual.low), high=tensor(usual.high),
    )  # fmt: skip


def decode_forecast(message: wire.Expectation, M: int, K: int, Q: int) -> tuple[AnswerForecast, GuardStandards]:
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
