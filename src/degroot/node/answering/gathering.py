"""Gathering: a question goes to all peers at once, and what they say in time comes back."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from typing import TypeVar

from degroot.compute.compiled import Array
from degroot.consultation.consult import Opinion
from degroot.node.answering.answer import NodeQuestion
from degroot.node.errors import BadReply, PeerError
from degroot.node.peers.link import Link, kind_of
from degroot.node.peers.peers import Peers
from degroot.node.protocol.codec import (
    PROTOCOL,
    Malformed,
    PeerOpinion,
    PeerPrediction,
    decode_opinion,
    decode_prediction,
    tensor,
)
from degroot.node.protocol.v1 import collective_pb2 as v1
from degroot.node.scoring.scored_agent import ScoredAgent
from degroot.rules.evidence import MOMENTS

_numbers = count(1)

Said = TypeVar("Said", PeerOpinion, PeerPrediction)


def make_question(points: Array, **wanted: bool) -> v1.Question:
    """A question about points; `wanted`: what replies are to have beside what they always have."""
    return v1.Question(protocol=PROTOCOL, id=next(_numbers), points=tensor(points), **wanted)


async def gather_opinions(circle: Peers, asked: NodeQuestion, missing: dict[str, str]) -> dict[str, PeerOpinion]:
    """Everybody's opinion; who has none that can be used becomes `missing`."""
    wanted = {"spread": circle.spread, "guard": asked.guard, "interval": asked.coverage is not None}
    seat, question, rows = circle.scores.seat, make_question(asked.points, **wanted), len(asked.points)
    return await _gather(
        circle, question, missing, lambda: circle.opinion(asked.points, **wanted),
        lambda link: ask_peer(link, question, rows, seat),
    )  # fmt: skip


async def gather_predictions(
    circle: Peers, seat: ScoredAgent, points: Array, missing: dict[str, str]
) -> dict[str, PeerPrediction]:
    """Everybody's prediction, and nothing else; who has none that can be used becomes `missing`."""
    question = make_question(points, predictions=True)

    async def ask(link: Link) -> PeerPrediction | PeerError:
        try:
            return decode_prediction(await link.opinion(question), len(points), seat.outputs)
        except PeerError as error:
            return error
        except Malformed as error:
            return BadReply(link.name, f"its prediction makes no sense: {error}")

    return await _gather(circle, question, missing, lambda: circle.prediction(points, seat), ask)


async def _gather(
    circle: Peers,
    question: v1.Question,
    missing: dict[str, str],
    own: Callable[[], Awaitable[Said]],
    ask: Callable[[Link], Awaitable[Said | PeerError]],
) -> dict[str, Said]:
    links = [link for name, link in circle.links.items() if name not in missing]
    rows = question.points.shape[0]
    circle.wiring.record([link.name for link in links], kind_of(question), rows, question.ByteSize())
    waiting = [asyncio.ensure_future(ask(link)) for link in links]
    try:
        await asyncio.sleep(0)  # peers begin while this node forms its own
        said = {circle.configuration.name: await own()}
        replies = await asyncio.gather(*waiting)
    finally:
        for task in waiting:
            task.cancel()
    for link, reply in zip(links, replies, strict=True):
        if isinstance(reply, PeerError):
            missing[link.name] = reply.reason
        else:
            said[link.name] = reply
    return said


async def ask_peer(link: Link, question: v1.Question, rows: int, seat: ScoredAgent) -> PeerOpinion | PeerError:
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
