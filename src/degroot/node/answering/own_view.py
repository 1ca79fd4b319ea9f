"""The own view: a node answers for itself, from everybody's predictions and the evidence of its own rows.

Peers are asked for predictions only. Nothing that they say of errors or distances enters, so that no quorum is needed:
where everybody else is missing, the node's own model answers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from degroot.answers.answer import interval_fields
from degroot.answers.flags import Flag
from degroot.compute.compiled import Array
from degroot.consultation.asker import AskerView
from degroot.consultation.consult import field_shape
from degroot.exceptions import InvalidInput
from degroot.node.answering.answer import STALE, NodeQuestion, expand_to_roster, flag_missing_members
from degroot.node.answering.gathering import gather_predictions
from degroot.node.peers.peers import Membership, Peers
from degroot.node.protocol.codec import NodeAnswer, PeerPrediction
from degroot.node.server.threads import run_in_thread


async def consult_own_view(circle: Peers, asked: NodeQuestion) -> NodeAnswer:
    """The answer from this node's own view, of those who are there and whose models it has scored."""
    me, seat, missing = circle.configuration.name, circle.scores.seat, circle.troubled()
    if circle.no_view:
        raise InvalidInput(
            f"A node must have scored all models on its own rows to answer from its own view; {me}: {circle.no_view}. "
            "Ask for the consensus."
        )
    said = await gather_predictions(circle, seat, asked.points, missing)
    scored, roster = {model.name: model.version for model in seat.scored}, circle.names
    members = tuple(name for name in roster if name in said and name in scored)
    away = {name: missing.get(name, f"not scored yet by: {me}") for name in roster if name not in members}
    view = await seat.views.among(members)
    told = await run_in_thread(_answer, view, asked, [said[name].beliefs for name in members])
    M = len(asked.points)
    notes = [*flag_missing_members(Membership(members, away), M), *_flag_stale(me, members, said, scored, M)]
    wide = expand_to_roster(told.fields, roster, members)
    return replace(told, names=tuple(roster), fields=wide, flags=(*notes, *told.flags))


def _answer(view: AskerView, asked: NodeQuestion, beliefs: Sequence[Array]) -> NodeAnswer:
    """The answer of those who take part; `beliefs`: of each of them, (M, Q)."""
    fields, flags = _empty_fields(view, asked), ()
    if len(asked.points):
        known = view.answer(
            asked.points, np.stack(beliefs, axis=1), asked.fields, guard=asked.guard, correct=asked.correct,
            coverage=asked.coverage,
        )  # fmt: skip
        flags = known.pop("flags")
        fields = {name: np.asarray(values, np.float64) for name, values in known.items()}
    return NodeAnswer(view.names, fields, flags, asker=view.agent.name, choice=view.choice(asked.correct))


def _empty_fields(view: AskerView, asked: NodeQuestion) -> dict[str, Array]:
    """The asked fields of no points."""
    names = [*asked.fields, *interval_fields(asked.coverage, view.agent.class_names)]
    return {name: np.empty(field_shape(name, 0, view.K, view.Q)) for name in names}


def _flag_stale(
    me: str, members: Sequence[str], said: Mapping[str, PeerPrediction], scored: Mapping[str, str], M: int
) -> list[Flag]:
    """Whose model is another by now than the one that this node has scored."""
    return [Flag(name, f"{STALE} {me}", np.arange(M)) for name in members if said[name].version != scored[name]]
