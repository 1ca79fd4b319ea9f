"""What a node is asked, and the answer that its members' opinions give."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from degroot.agents.abstention import ColumnMask, has_gaps
from degroot.answers.flags import MISSING, Flag
from degroot.compute.compiled import Array
from degroot.consultation.abstention import NobodyAnswers, describe_nobody
from degroot.consultation.consult import AnswerBuffer, Panel, conclude_in_blocks, list_gap_flags
from degroot.node.answering.terms import OWN, expand_to_roster
from degroot.node.peers.membership import Membership
from degroot.node.protocol.codec import NodeAnswer
from degroot.node.protocol.opinions import PeerOpinion
from degroot.node.records.chain import NO_ORIGIN, Origin
from degroot.rules.rules import RuleSettings

STALE = "stale: an earlier version of its model was scored by"


@dataclass(frozen=True, slots=True)
class NodeQuestion:
    """A batch of points, and what is asked about them."""

    points: Array  # (M, d)
    fields: Sequence[str]
    guard: bool
    coverage: float | None = None  # of intervals; None: without them
    view: str = OWN
    correct: bool = False  # of an own view
    origin: Origin = NO_ORIGIN
    absent: ColumnMask = None  # (d,) columns that the points do not have at all


def solve(
    roster: Sequence[str],
    who: Membership,
    opinions: Mapping[str, PeerOpinion],
    settings: RuleSettings,
    fields: Iterable[str],
    *,
    guard: bool,
    aside: Iterable[str] = (),
    points: Array,
    features: Sequence[str] = (),
) -> NodeAnswer:
    """Weigh the members' opinions of `points`. `aside`: those whose models are scored by their peers."""
    told = [opinions[name].select(who.members) for name in who.members]
    M, Q = told[0].beliefs.shape
    by_peers = peers_score(who.members, aside)
    panel = Panel(tuple(who.members), Q, settings, guard, by_peers, features=tuple(features) or None)
    names, gaps = list(fields), has_gaps(points)
    buffer, question = AnswerBuffer.allocate(panel, names, M, gaps=gaps), panel.make_question(names, gaps=gaps)
    try:
        conclude_in_blocks(told, panel, question, buffer)
    except NobodyAnswers as error:
        raise describe_nobody(error.point, points, None, panel.features) from error
    notes = [*flag_missing_members(who, M), *flag_stale_models(who.members, opinions, M), *buffer.flags(who.members)]
    notes += list_gap_flags(panel, question, points, buffer.abstains)
    return NodeAnswer(tuple(roster), expand_to_roster(buffer.fields, roster, who.members), tuple(notes))


def peers_score(members: Sequence[str], aside: Iterable[str]) -> tuple[int, ...]:
    """The places of members whose models are scored by their peers."""
    return tuple(place for place, name in enumerate(members) if name in set(aside))


def flag_missing_members(who: Membership, M: int) -> Iterable[Flag]:
    """Who is missing, and why."""
    for name, reason in who.missing.items():
        yield Flag(name, f"{MISSING}: {reason}", np.arange(M))


def flag_stale_models(members: Sequence[str], opinions: Mapping[str, PeerOpinion], M: int) -> Iterable[Flag]:
    """Whose model is another by now than the one that was scored."""
    known = {scorer: dict(opinions[scorer].scored) for scorer in members}
    for name in members:
        by = [scorer for scorer in members if known[scorer][name] != opinions[name].version]
        if by:
            yield Flag(name, f"{STALE} {', '.join(by)}", np.arange(M))
