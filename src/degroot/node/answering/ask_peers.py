"""Questions: the asked node gathers everybody's opinion, leaves out who does not answer in time, and solves."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count

from degroot.compute.compiled import Array
from degroot.consultation.consult import FEW_POINTS, INVALID, MalformedOpinions, Opinion
from degroot.exceptions import InvalidInput
from degroot.node.answering.solve import solve
from degroot.node.errors import BadReply, PeerError
from degroot.node.intervals.bounds import bounded, calibrated
from degroot.node.peers.link import Link, kind_of
from degroot.node.peers.peers import Peers
from degroot.node.peers.quorum import Membership
from degroot.node.protocol.codec import PROTOCOL, Malformed, NodeAnswer, PeerOpinion, decode_opinion, tensor
from degroot.node.protocol.v1 import collective_pb2 as v1
from degroot.node.scoring.scored_agent import ScoredAgent
from degroot.node.server.threads import run_in_thread
from degroot.rules.evidence import MOMENTS

IMPOSSIBLE = INVALID.rstrip(".")
_numbers = count(1)


@dataclass(frozen=True, slots=True)
class NodeQuestion:
    """A batch of points, and what is asked about them."""

    points: Array  # (M, d)
    fields: Sequence[str]
    guard: bool
    coverage: float | None = None  # of intervals; None: without them


async def consult(circle: Peers, asked: NodeQuestion) -> NodeAnswer:
    """The collective's answer in one round."""
    aside, missing = circle.set_aside(), circle.troubled()
    opinions = await _gathered(circle, asked, missing)
    while True:
        scored = {name: [model.name for model in opinion.scored] for name, opinion in opinions.items()}
        roster, who = circle.names, circle.membership(scored, missing)
        who.check(circle.configuration.needed)
        work = partial(_solved, circle.scores.seat, asked, roster, who, opinions, aside)
        try:
            return await run_in_thread(len(asked.points) <= FEW_POINTS, work)
        except MalformedOpinions as error:
            for name in [who.members[place] for place in error.agents]:
                missing[name] = IMPOSSIBLE
                del opinions[name]


def _solved(
    seat: ScoredAgent,
    asked: NodeQuestion,
    roster: Sequence[str],
    who: Membership,
    opinions: dict[str, PeerOpinion],
    aside: Sequence[str],
) -> NodeAnswer:
    """The answer of those who take part, with intervals if they are asked for."""
    fields = list(asked.fields)
    if asked.coverage is None:
        return solve(roster, who, opinions, seat.option, fields, guard=asked.guard, aside=aside)
    told = calibrated(who.members, opinions)
    with_value = list(dict.fromkeys([*fields, "value"]))
    answered = solve(roster, who, opinions, seat.option, with_value, guard=asked.guard, aside=aside)
    answered = bounded(answered, told, asked.coverage, classes=seat.agent.classes is not None)
    if "value" not in fields:
        del answered.fields["value"]
    return answered


def asking(points: Array, **wanted: bool) -> v1.Question:
    """A question about points; `wanted`: what opinions are to have beside what they always have."""
    return v1.Question(protocol=PROTOCOL, id=next(_numbers), points=tensor(points), **wanted)


async def _gathered(circle: Peers, asked: NodeQuestion, missing: dict[str, str]) -> dict[str, PeerOpinion]:
    """Everybody's opinion; who has none that can be used becomes `missing`."""
    wanted = {"spread": circle.spread, "guard": asked.guard, "interval": asked.coverage is not None}
    seat, question = circle.scores.seat, asking(asked.points, **wanted)
    links = [link for name, link in circle.links.items() if name not in missing]
    circle.wiring.record([link.name for link in links], kind_of(question), len(asked.points), question.ByteSize())
    waiting = [asyncio.create_task(heard(link, question, len(asked.points), seat)) for link in links]
    try:
        await asyncio.sleep(0)  # peers begin while this node forms its own opinion
        opinions = {circle.configuration.name: await circle.opinion(asked.points, **wanted)}
        replies = await asyncio.gather(*waiting)
    finally:
        for task in waiting:
            task.cancel()
    for link, reply in zip(links, replies, strict=True):
        if isinstance(reply, PeerOpinion):
            opinions[link.name] = reply
        else:
            missing[link.name] = reply.reason
    return opinions


async def heard(link: Link, question: v1.Question, rows: int, seat: ScoredAgent) -> PeerOpinion | PeerError:
    """What a peer says, or why it says nothing that can be used."""
    try:
        reply = await link.opinion(question)
        told = decode_opinion(reply, rows, seat.outputs, classes=seat.agent.classes is not None)
    except PeerError as error:
        return error
    except Malformed as error:
        return BadReply(link.name, f"its opinion makes no sense: {error}")
    lacking = _find_lacking(told.opinion, question, seat)
    return BadReply(link.name, f"its opinion lacks {', '.join(lacking)}") if lacking else told


def _find_lacking(opinion: Opinion, question: v1.Question, seat: ScoredAgent) -> list[str]:
    """What was asked for and is not in the opinion."""
    wanted = ["moments"] if seat.option.definition.uses == MOMENTS else []
    wanted += ["spread", "effective"] if question.spread else []
    lacking = [name for name in wanted if getattr(opinion.measured, name) is None]
    if seat.option.definition.uses != MOMENTS and opinion.measured is not None and opinion.measured.moments is not None:
        lacking.append("errors")
    return [*lacking, "expectation"] if question.guard and opinion.forecast is None else lacking


def checked(points: Array, names: Sequence[str], seat: ScoredAgent) -> Array:
    """Points to ask about, if they have the features that the nodes have."""
    if points.shape[1] != seat.agent.n_features:
        raise InvalidInput(
            f"`X` must have {seat.agent.n_features} features, as the nodes' rows do; got {points.shape[1]}."
        )
    if names and len(names) != points.shape[1]:
        raise InvalidInput(f"`X` must have a name for each of {points.shape[1]} features, or none; got {len(names)}.")
    for k, (given, known) in enumerate(zip(names, seat.feature_names, strict=False)):
        if given != known:
            raise InvalidInput(
                f"`X` must have the same features in the same order; feature {k} is {given[:100]!r}, not {known!r}."
            )
    return points
