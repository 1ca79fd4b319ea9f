"""The own view: a node answers for itself, from everybody's predictions and the evidence of its own rows.

Peers' models are asked for predictions only, at their owners' or as copies here. Nothing that others say of errors or
distances enters, so that no quorum is needed: where everybody else is missing, the node's own model answers.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from degroot.agents.abstention import join_columns
from degroot.answers.answer import interval_fields
from degroot.answers.choice import Mixture
from degroot.answers.flags import Flag
from degroot.compute.compiled import Array
from degroot.consultation.abstention import NobodyAnswers, describe_nobody, flag_abstentions
from degroot.consultation.asker import AskerView, PreparedAnswer, ViewQuestion, flag_for_asker
from degroot.consultation.consult import FEW_POINTS, Panel, field_shape
from degroot.exceptions import InvalidInput
from degroot.node.answering.answer import STALE, NodeQuestion, flag_missing_members
from degroot.node.answering.gathering import gather_predictions
from degroot.node.answering.terms import expand_to_roster
from degroot.node.peers.membership import Membership
from degroot.node.peers.peers import Peers
from degroot.node.protocol.codec import NodeAnswer
from degroot.node.scoring.scored_agent import ScoredAgent


async def consult_own_view(circle: Peers, asked: NodeQuestion) -> NodeAnswer:
    """The answer from this node's own view, of those who are there and whose models it has scored."""
    me, seat, M = circle.configuration.name, circle.scores.seat, len(asked.points)
    if circle.no_view:
        raise InvalidInput(
            f"A node must have scored all models on its own rows to answer from its own view; {me}: {circle.no_view}."
        )
    scored, roster = seat.versions, circle.names
    missing = circle.find_hindrances(seat)
    expected = tuple([name for name in roster if name not in missing and name in scored])
    question = ViewQuestion(frozenset(asked.fields), asked.guard, asked.correct, asked.coverage)
    few = 0 < M <= FEW_POINTS  # which are answered sooner than a thread is found for them
    view = seat.views.find_prepared(expected, question) if few else None
    if view is not None and asked.coverage is not None:
        view.calibration.threshold(asked.coverage)  # raises where there are too few rows, before anybody is asked
    prepared: PreparedAnswer | None = None
    changed: list[str] = []

    def prepare(own: Array) -> None:  # while peers are at work: all that need not wait for them
        nonlocal prepared
        changed.extend([name for name in expected if circle.has_changed(name, scored[name])])
        if view is not None and not np.isnan(own).any():
            prepared = view.prepare(asked.points, own, question)

    said = await gather_predictions(circle, seat, asked, missing, prepare)
    members = tuple([name for name in expected if name in said])
    beliefs = [said[name].beliefs for name in members]
    if members != expected:
        view, prepared = (seat.views.find_prepared(members, question) if few else None), None
    try:
        if view is not None:
            fields, flags, choice = _answer(view, asked, question, beliefs, prepared)
        else:
            view = await seat.views.among(members)
            answer = partial(_answer, view, asked, question, beliefs, None)
            fields, flags, choice = await circle.views.compute(M, answer)
    except NobodyAnswers as error:
        absent, names = join_columns(asked.absent, seat.agent.lacks), seat.feature_names
        raise describe_nobody(error.point, asked.points, absent, names) from error
    if seat.agent.schema is not None:
        flags = (*flags, *_flag_gaps(circle, seat, view, asked, np.stack(beliefs, axis=1)))
    notes = [
        Flag(name, f"{STALE} {me}", np.arange(M))
        for name in members
        if said[name].version != scored[name] or name in changed
    ]
    if members != roster:
        away = {name: missing.get(name, f"not scored yet by: {me}") for name in roster if name not in members}
        notes = [*flag_missing_members(Membership(members, away), M), *notes]
        fields = expand_to_roster(fields, roster, members)
    return NodeAnswer(roster, fields, (*notes, *flags), asker=me, choice=choice)


def _flag_gaps(circle: Peers, seat: ScoredAgent, view: AskerView, asked: NodeQuestion, beliefs: Array) -> list[Flag]:
    """Whose models lack inputs of the points, where `beliefs` (M, K, Q) are NaN, and whose could not be scored here."""
    me, absent = circle.configuration.name, join_columns(asked.absent, seat.agent.lacks)
    agent = seat.agent
    lacks = tuple(agent.lacks if name == me else None for name in view.names)
    optional = tuple(agent.optional if name == me else circle.find_inputs(name, seat).optional for name in view.names)
    panel = Panel(view.names, agent.outputs, seat.option, lacks=lacks, optional=optional, features=seat.feature_names)
    abstains = np.isnan(beliefs[..., 0])
    told = flag_abstentions(panel.about_columns, asked.points, absent, abstains) if abstains.any() else ()
    return flag_for_asker(view, panel, list(told), len(beliefs))


def _answer(
    view: AskerView, asked: NodeQuestion, question: ViewQuestion, beliefs: Sequence[Array],
    prepared: PreparedAnswer | None,
) -> tuple[dict[str, Array], tuple[Flag, ...], Mixture]:  # fmt: skip
    """The fields and flags that those who take part give, and what was mixed; `beliefs`: of each of them, (M, Q)."""
    M = len(asked.points)
    if not M:
        names = [*asked.fields, *interval_fields(asked.coverage, view.agent.class_names)]
        return {name: np.empty(field_shape(name, 0, view.K, view.Q)) for name in names}, (), view.choice(asked.correct)
    everybody = np.concatenate(beliefs, axis=1).reshape(M, view.K, view.Q)
    known = view.answer(asked.points, everybody, question, prepared=prepared)
    flags: tuple[Flag, ...] = known.pop("flags")
    fields = {name: np.asarray(values, np.float64) for name, values in known.items()}
    return fields, flags, view.choice(asked.correct)
