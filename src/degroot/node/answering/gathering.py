"""Gathering: a question goes to the peers whose answers are needed, all at once; what comes in time is used."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import Any, TypeVar

import numpy as np

from degroot.agents.abstention import ColumnMask, Mask, has_gaps, join_columns
from degroot.compute.compiled import Array
from degroot.consultation.consult import FEW_POINTS, Opinion
from degroot.node.answering.answer import NodeQuestion
from degroot.node.config import OPINION
from degroot.node.copies.copy import CopyError, ModelCopy
from degroot.node.errors import BadReply, PeerError
from degroot.node.peers.link import PREDICTION, Link, Question
from degroot.node.peers.peers import Peers
from degroot.node.protocol.codec import PROTOCOL, Malformed, PeerPrediction, decode_prediction, encode_origin, tensor
from degroot.node.protocol.opinions import PeerOpinion, decode_opinion
from degroot.node.protocol.v3 import collective_pb2 as wire
from degroot.node.records.chain import NO_ORIGIN, Origin
from degroot.node.scoring.scored_agent import ScoredAgent
from degroot.rules.evidence import MOMENTS

_numbers = count(1)

Said = TypeVar("Said", PeerOpinion, PeerPrediction)


def make_question(points: Array, origin: Origin = NO_ORIGIN, digest: str = "", **wanted: bool) -> wire.Question:
    """A question for opinions; `wanted`: what replies are to have beside what they always have."""
    about = encode_origin(origin)
    return wire.Question(
        protocol=PROTOCOL, id=next(_numbers), points=tensor(points), origin=about, schema_digest=digest, **wanted
    )


async def gather_opinions(circle: Peers, asked: NodeQuestion, missing: dict[str, str]) -> dict[str, PeerOpinion]:
    """Everybody's opinion; who has none that can be used becomes `missing`."""
    wanted = {"spread": circle.spread, "guard": asked.guard}
    seat, rows = circle.scores.seat, len(asked.points)
    question = make_question(asked.points, asked.origin, seat.schema_digest, **wanted)
    links = [link for name, link in circle.links.items() if name not in missing]

    gaps = has_gaps(asked.points)

    def decode(reply: wire.OpinionReply, link: Link) -> PeerOpinion:
        abstains = link.inputs.find_abstentions(asked.points) if gaps else None
        told = decode_opinion(reply, rows, seat.outputs, abstains)
        lacking = _find_lacking(told.opinion, question, seat)
        if lacking:
            raise Malformed(f"it lacks {', '.join(lacking)}")
        return told

    def give_own() -> Awaitable[PeerOpinion]:
        return circle.opinion(asked.points, **wanted)

    return await _gather(circle, question, OPINION, links, missing, give_own, decode, asked.origin)


async def gather_predictions(
    circle: Peers, seat: ScoredAgent, asked: NodeQuestion, missing: dict[str, str], meanwhile: Callable[[Array], None]
) -> dict[str, PeerPrediction]:
    """Everybody's prediction: of models that are copied here without a word, of others from their owners.

    Parameters
    ----------
    missing : whose model cannot be asked, and why; who does not answer is added
    meanwhile : called with the own prediction while peers are at work
    """
    points, absent = asked.points, join_columns(asked.absent, seat.agent.lacks)

    async def predict_own() -> PeerPrediction:
        own = await circle.prediction(points, seat, absent)
        meanwhile(own.beliefs)
        return own

    links = [link for name, link in circle.links.items() if name not in missing and name not in seat.copies]
    copies = [each for name, each in seat.copies.items() if name in circle.links and name not in missing]
    asking = asyncio.ensure_future(_ask_copies(copies, points, absent)) if copies else None  # beside the peers
    try:
        said = await _ask_owners(circle, seat, links, asked, absent, missing, predict_own)
        replies = [] if asking is None else await asking
    finally:
        if asking is not None:
            asking.cancel()
    for copy, reply in zip(copies, replies, strict=True):
        if isinstance(reply, CopyError):
            missing[copy.model.name] = str(reply)
        else:
            said[copy.model.name] = PeerPrediction(copy.model.version, reply)
    return said


async def _ask_owners(
    circle: Peers, seat: ScoredAgent, links: Sequence[Link], asked: NodeQuestion, absent: ColumnMask,
    missing: dict[str, str], predict_own: Callable[[], Awaitable[PeerPrediction]],
) -> dict[str, PeerPrediction]:  # fmt: skip
    """The own prediction, and those of models that are asked at their owners'.

    A model is asked about the points for which it does not lack an input, with the others that take the same.
    """
    said, groups = dict[str, PeerPrediction](), dict[bytes, tuple[Mask | None, list[Link]]]()
    for link in links:
        abstains = link.inputs.find_abstentions(asked.points, absent)
        if abstains is not None and abstains.all():
            silence = np.full((len(asked.points), seat.outputs), np.nan)
            said[link.name] = PeerPrediction(seat.versions.get(link.name, link.version), silence)
        else:
            key = b"" if abstains is None else abstains.tobytes()
            groups.setdefault(key, (abstains, []))[1].append(link)
    if not groups:
        return said | {circle.configuration.name: await predict_own()}
    (abstains, first), *others = groups.values()
    asking = [
        asyncio.ensure_future(_ask_group(circle, seat, some, asked, mask, missing, None)) for mask, some in others
    ]
    try:
        said |= await _ask_group(circle, seat, first, asked, abstains, missing, predict_own)
        for task in asking:
            said |= await task
    finally:
        for task in asking:
            task.cancel()
    return said


async def _ask_group(
    circle: Peers, seat: ScoredAgent, links: Sequence[Link], asked: NodeQuestion, abstains: Mask | None,
    missing: dict[str, str], predict_own: Callable[[], Awaitable[PeerPrediction]] | None,
) -> dict[str, PeerPrediction]:  # fmt: skip
    """What models say of the same points, NaN where they abstain; and what the own model says, where it is given."""
    points = asked.points if abstains is None else asked.points[~abstains]
    request = wire.PredictRequest(
        protocol=PROTOCOL, id=next(_numbers), points=tensor(points), origin=encode_origin(asked.origin),
        schema_digest=seat.schema_digest,
    )  # fmt: skip

    def decode(reply: wire.Prediction, _link: Link) -> PeerPrediction:
        told = decode_prediction(reply, len(points), seat.outputs)
        if abstains is None:
            return told
        beliefs = np.full((len(abstains), seat.outputs), np.nan)
        beliefs[~abstains] = told.beliefs
        return told._replace(beliefs=beliefs)

    return await _gather(circle, request, PREDICTION, links, missing, predict_own, decode, asked.origin)


async def _ask_copies(copies: Sequence[ModelCopy], points: Array, absent: ColumnMask) -> list[Array | CopyError]:
    """What copies say of points: a few points at once where that takes no time, all else on threads side by side."""

    async def predict(copy: ModelCopy) -> Array | CopyError:
        abstains = copy.inputs.find_abstentions(points, absent)
        able = points if abstains is None else points[~abstains]
        try:
            if not len(able) or (copy.near_by and len(able) <= FEW_POINTS):
                said = copy.predict(able)
            else:
                said = await copy.predict_in_thread(able)
        except CopyError as error:
            return error
        if abstains is None:
            return said
        beliefs = np.full((len(points), said.shape[1]), np.nan)
        beliefs[~abstains] = said
        return beliefs

    return list(await asyncio.gather(*map(predict, copies)))


async def _gather(
    circle: Peers, question: Question, kind: str, links: Sequence[Link], missing: dict[str, str],
    own: Callable[[], Awaitable[Said]] | None, decode: Callable[[Any, Link], Said], origin: Origin,
) -> dict[str, Said]:  # fmt: skip
    """What this node and its peers say; each reply is decoded as it comes, while others are waited for."""
    rows, wiring = question.points.shape[0], circle.wiring
    protocols = {link.name: link.protocol for link in links}
    bodies = {protocol: link.encode(question) for protocol, link in {link.protocol: link for link in links}.items()}
    wiring.record(list(protocols), kind, rows, question.ByteSize(), origin)
    loop, came = asyncio.get_running_loop(), list[tuple[str, Any]]()
    waiting = [loop.create_task(_ask(link, question, kind, decode, came)) for link in links]

    def record_replies() -> None:
        for protocol, body in bodies.items():
            replies = [(name, reply.SerializeToString()) for name, reply in came if protocols[name] == protocol]
            wiring.record_replies(kind, rows, body, replies, origin)

    try:
        await asyncio.sleep(0)  # peers begin while this node forms its own
        said = {} if own is None else {circle.configuration.name: await own()}
        replies = [await task for task in waiting]  # they run side by side
    finally:
        for task in waiting:
            task.cancel()
        if came:
            loop.call_soon(record_replies)  # nobody waits for it
    for link, reply in zip(links, replies, strict=True):
        if isinstance(reply, PeerError):
            missing[link.name] = reply.reason
        else:
            said[link.name] = reply
            if reply.version != link.version:
                link.wake()
    return said


async def _ask(
    link: Link, question: Question, kind: str, decode: Callable[[Any, Link], Said], came: list[tuple[str, Any]]
) -> Said | PeerError:
    """What a peer says, or why it says nothing that can be used; its reply is added to those that `came`."""
    try:
        reply = await link.ask(question, kind)
        came.append((link.name, reply))
        return decode(reply, link)
    except PeerError as error:
        return error
    except Malformed as error:
        return BadReply(link.name, f"its reply is malformed: {error}")


def _find_lacking(opinion: Opinion, question: wire.Question, seat: ScoredAgent) -> list[str]:
    """What was asked for and is not in the opinion."""
    wanted = ["moments"] if seat.option.definition.uses == MOMENTS else []
    wanted += ["spread", "effective"] if question.spread else []
    lacking = [name for name in wanted if getattr(opinion.measured, name) is None]
    if seat.option.definition.uses != MOMENTS and opinion.measured is not None and opinion.measured.moments is not None:
        lacking.append("errors")
    return [*lacking, "expectation"] if question.guard and opinion.forecast is None else lacking
