"""Solving: from the opinions of all who answered to what the collective answers, in one round."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from degroot.answers.flags import MISSING, Flag
from degroot.compute.compiled import Array
from degroot.consultation.consult import AnswerBuffer, Panel, conclude_in_blocks
from degroot.node.peers.quorum import Membership
from degroot.node.protocol.codec import NodeAnswer, PeerOpinion
from degroot.rules.rules import RuleSettings

OF_AGENTS = {"weights": 0.0, "influence": 0.0, "beliefs": np.nan, "trust": np.nan}  # what those who are missing have
STALE = "stale: an earlier version of its model was scored by"


def solve(
    roster: Sequence[str],
    who: Membership,
    opinions: Mapping[str, PeerOpinion],
    settings: RuleSettings,
    fields: Iterable[str],
    *,
    guard: bool,
    aside: Iterable[str] = (),
) -> NodeAnswer:
    """Weigh the members' opinions. `aside`: those whose models are scored by their peers."""
    told = [opinions[name].select(who.members) for name in who.members]
    M, Q = told[0].beliefs.shape
    panel = Panel(tuple(who.members), Q, settings, guard, peers_score(who.members, aside))
    names = list(fields)
    buffer = AnswerBuffer.allocate(panel, names, M)
    conclude_in_blocks(told, panel, panel.ask(names), buffer)
    notes = [*absent(who, M), *stale(who.members, opinions, M), *buffer.flags(who.members)]
    return NodeAnswer(tuple(roster), expand_to_roster(buffer.fields, roster, who.members), tuple(notes))


def peers_score(members: Sequence[str], aside: Iterable[str]) -> tuple[int, ...]:
    """The places of members whose models are scored by their peers."""
    return tuple(place for place, name in enumerate(members) if name in set(aside))


def expand_to_roster(found: dict[str, Array], roster: Sequence[str], members: Sequence[str]) -> dict[str, Array]:
    """The same fields with a place for everybody in the roster."""
    if list(roster) == list(members):
        return found
    places, K = [list(roster).index(name) for name in members], len(roster)
    wide = dict(found)
    for name, empty in OF_AGENTS.items():
        if name in found:
            array = found[name]
            shape = (len(array), K, K) if name == "trust" else (len(array), K, *array.shape[2:])
            wide[name] = np.full(shape, empty)
            wide[name][np.ix_(range(len(array)), places, places) if name == "trust" else (slice(None), places)] = array
    return wide


def absent(who: Membership, M: int) -> Iterable[Flag]:
    """Who is missing, and why."""
    for name, reason in who.missing.items():
        yield Flag(name, f"{MISSING}: {reason}", np.arange(M))


def stale(members: Sequence[str], opinions: Mapping[str, PeerOpinion], M: int) -> Iterable[Flag]:
    """Whose model is another by now than the one that was scored."""
    known = {scorer: dict(opinions[scorer].scored) for scorer in members}
    for name in members:
        by = [scorer for scorer in members if known[scorer][name] != opinions[name].version]
        if by:
            yield Flag(name, f"{STALE} {', '.join(by)}", np.arange(M))
