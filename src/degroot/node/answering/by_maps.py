"""The consensus from evidence maps: models are asked for predictions, and maps say how far to trust them where."""

from collections.abc import Mapping, Sequence

import numpy as np

from degroot.consultation.consult import FEW_POINTS, Opinion
from degroot.maps import CollectedMaps, split_by_agent
from degroot.node.answering.answer import NodeQuestion, solve
from degroot.node.answering.gathering import gather_predictions
from degroot.node.peers.membership import Membership
from degroot.node.peers.peers import NO_MAP, Peers
from degroot.node.protocol.codec import Model, NodeAnswer, PeerPrediction
from degroot.node.protocol.opinions import PeerOpinion
from degroot.node.server.threads import run_in_thread

FEWEST = 3  # members: nobody's map has its own model


async def consult_maps(circle: Peers, asked: NodeQuestion) -> NodeAnswer:
    """The consensus of those whose models can be asked, and are in the maps that are here."""
    seat, roster = circle.scores.seat, circle.names
    missing = circle.find_hindrances(seat)
    said = await gather_predictions(circle, seat, asked, missing, lambda _own: None)
    members = find_members(circle, [name for name in roster if name in said])
    away = {name: missing.get(name, NO_MAP) for name in roster if name not in members}
    who = Membership(members, away)
    who.check(max(circle.configuration.needed, FEWEST))
    uses, told = seat.option.definition.uses, {name: said[name] for name in members}
    collected = await circle.maps.collect(members, uses)

    def work() -> NodeAnswer:
        evidence = collected.at(circle.maps.fill_gaps(asked.points), uses)
        opinions = {
            name: PeerOpinion(said[name].version, _list_versions(circle, name, told), Opinion(said[name].beliefs, part))
            for name, part in zip(members, split_by_agent(evidence), strict=True)
        }
        return solve(
            roster, who, opinions, seat.option, list(asked.fields), guard=False, points=asked.points,
            features=seat.feature_names,
        )  # fmt: skip

    return work() if len(asked.points) <= FEW_POINTS else await run_in_thread(work)


def _list_versions(circle: Peers, scorer: str, said: Mapping[str, PeerPrediction]) -> tuple[Model, ...]:
    """The versions of the models in a member's map; what it does not have is as it is now."""
    known = circle.maps.find_versions(scorer)
    return tuple(Model(name, known.get(name, each.version)) for name, each in said.items())


def find_members(circle: Peers, names: Sequence[str]) -> tuple[str, ...]:
    """The largest set found greedily in which every pair of models is scored by a third member."""
    left, maps = list(names), circle.maps.all_maps
    while len(left) >= FEWEST and maps:
        scorers = CollectedMaps(maps, tuple(left)).scorers
        lonely = np.tril(scorers.sum(axis=0) == 0)
        count = lonely.sum(axis=0) + lonely.sum(axis=1)
        if not count.any():
            return tuple(left)
        count[[name == circle.configuration.name for name in left]] = 0
        del left[int(np.argmax(count))]
    return ()
