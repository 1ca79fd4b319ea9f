"""Rounds: nodes pool their beliefs among themselves until they agree; no node sees another's trust.

The asked node opens a session with everybody who takes part, as `Begin`. Every member looks at the points, tells the
asked node that it is `Ready`, and opens a stream to each other member. In each round a member sends everybody its
current beliefs, and each of them its share of the sender's weight. Under a guard the asked node first holds what all
expect of each other's models against their beliefs and tells `Bounds`; trust itself stays at home.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import grpc
import numpy as np

from degroot.compute.compiled import Array
from degroot.compute.tables import LARGEST
from degroot.exceptions import InvalidInput
from degroot.guard.bounds import Bounds, within
from degroot.guard.checks import Mask
from degroot.node.errors import LEFT, PeerError, from_rpc, late, left
from degroot.node.peers.link import Link
from degroot.node.peers.stream import write_first
from degroot.node.pooling.session import MembersLost, Session
from degroot.node.pooling.state import PoolingState
from degroot.node.protocol.codec import PROTOCOL, Malformed, UnknownMembers, array, decode_origin, encode_origin, tensor
from degroot.node.protocol.opinions import PeerOpinion
from degroot.node.protocol.v3 import collective_pb2 as wire
from degroot.node.records.chain import NO_ORIGIN, Origin
from degroot.node.scoring.scored_agent import ScoredAgent
from degroot.node.server.threads import run_in_thread

MOST = 1_000_000  # rounds
FEW = 200  # points that are pooled sooner than a thread is found for them
SLACK = 1e-9  # rounding
CHANGED = "its first beliefs are not those that it told the asked node"
OUTSIDE = "its beliefs are no averages of those before"


@dataclass(frozen=True, slots=True)
class GuardBounds:
    """What the asked node tells a member under a guard: who takes part where, and within which bounds errors stay."""

    kept: Mask  # (M, K)
    low: Array  # (M, K)
    high: Array  # (M, K)
    own: Array  # (M,)

    def encode(self) -> wire.PoolMessage:
        """Ready to be sent."""
        told = {name: tensor(getattr(self, name).astype(float)) for name in ("kept", "low", "high", "own")}
        return wire.PoolMessage(bounds=wire.Bounds(**told))

    @classmethod
    def decode(cls, message: wire.Bounds, M: int, K: int) -> "GuardBounds":
        """What was sent, if it has the right shapes."""
        low, high = (array(getattr(message, name), (M, K), name, finite=False) for name in ("low", "high"))
        if np.isnan(low).any() or np.isnan(high).any():
            raise Malformed("Bounds must be numbers; some are NaN.")
        kept = array(message.kept, (M, K), "kept") > 0.5
        if not kept.any(axis=1).all():
            raise Malformed("Somebody must be kept at every point; at some nobody is.")
        return cls(kept, low, high, array(message.own, (M,), "own", finite=False))


@dataclass(frozen=True, slots=True)
class PoolingTerms:
    """Who pools, and until when."""

    session: str
    members: tuple[str, ...]
    guard: bool
    tolerance: float
    rounds: int
    origin: Origin = NO_ORIGIN

    def begin(self, points: Array, digest: str = "") -> wire.PoolMessage:
        """The message that opens a session; `digest`: of the schema by which the points are numbers."""
        return wire.PoolMessage(
            begin=wire.Begin(
                protocol=PROTOCOL, session=self.session, members=self.members, points=tensor(points), guard=self.guard,
                tolerance=self.tolerance, rounds=self.rounds, origin=encode_origin(self.origin), schema_digest=digest,
            )
        )  # fmt: skip

    @classmethod
    def told(cls, begin: wire.Begin, me: str, roster: Sequence[str], caller: str) -> "PoolingTerms":
        """What a message says, if it makes sense."""
        members = tuple(begin.members)
        if len(set(members)) < len(members) or me not in members:
            raise Malformed("`members` must be named once each, with the node that is told.")
        if not 0.0 <= begin.tolerance < 1.0 or not begin.session or len(begin.session) > 64 or begin.rounds > MOST:
            raise Malformed(f"A session must have a short name, a tolerance from 0 to 1 and at most {MOST} rounds.")
        unknown = [name[:100] for name in members if name not in roster]
        if unknown:
            raise UnknownMembers(f"`members` must be in the roster of {me!r}; not there: {', '.join(unknown[:8])}.")
        origin = decode_origin(begin.origin, caller)
        return cls(begin.session, members, begin.guard, begin.tolerance, begin.rounds, origin)


def check_rule(seat: ScoredAgent) -> None:
    """Refuse rounds where the rule is another than the one they follow."""
    if seat.option.rule != "degroot":
        raise InvalidInput(f"Rounds pool by trust: the rule must be 'degroot'; it is {seat.option.rule!r}.")


@dataclass(frozen=True, slots=True)
class Pooled:
    """What a member knows when pooling is over."""

    part: PoolingState
    settled: Mask  # (M,) where everybody is
    rounds: int


async def take_part(
    me: str,
    terms: PoolingTerms,
    opinion: PeerOpinion,
    held: GuardBounds | None,
    session: Session,
    links: Mapping[str, Link],
    patience: float,
    first: Mapping[str, Array] | None = None,
) -> Pooled:
    """Pool with the other members until everybody is settled, or the rounds are used up.

    `first`: what the members have told the asked node to believe, (M, Q) each, which is what they have to pool.
    """
    few = len(opinion.opinion.beliefs) <= FEW
    work = partial(_part, me, terms, opinion, held)
    part = work() if few else await run_in_thread(work)
    others = [name for name in terms.members if name != me]
    gone = [name for name in others if name not in links]
    if gone:
        raise MembersLost(dict.fromkeys(gone, LEFT))
    async with BeliefSender(terms, [links[name] for name in others], patience) as sender:
        for number in range(terms.rounds + 1):
            await sender.say(number, part, terms.members)
            heard = await session.round(number, others, patience)
            told, shares, settled = _taken_in(heard, part, me, terms.members)
            if number == 0 and first is not None:
                _refuse_others(told, first, terms.members)
            if terms.guard and number > 0:
                _refuse_strays(part, told, terms.members)
            if few:
                part.listen(told, shares)
            else:
                await run_in_thread(part.listen, told, shares)
            if settled.all():
                break
        return Pooled(part, settled, number)


class BeliefSender:
    """Streams to the other members, on which beliefs are sent."""

    def __init__(self, terms: PoolingTerms, links: Sequence[Link], patience: float) -> None:
        self._terms, self._links, self._patience = terms, links, patience
        self._calls: list[Any] = []

    async def __aenter__(self) -> "BeliefSender":
        join = wire.PoolMessage(join=wire.Join(protocol=PROTOCOL, session=self._terms.session))
        self._calls = [link.pool() for link in self._links]
        try:
            await self._each(lambda call, _link: write_first(call, join))
        except BaseException:
            self._hang_up()
            raise
        return self

    async def say(self, number: int, part: PoolingState, members: Sequence[str]) -> None:
        """Send a round's beliefs to everybody, and to each its share of the weight."""
        beliefs, settled = tensor(part.beliefs), tensor(part.settled.astype(float))

        def tell(call: Any, link: Link) -> Awaitable[None]:
            share = tensor(part.share(members.index(link.name)))
            message = wire.PoolMessage(
                beliefs=wire.Beliefs(round=number, beliefs=beliefs, share=share, settled=settled)
            )
            link.record_pooling(len(part.settled), message.ByteSize(), self._terms.origin)
            written: Awaitable[None] = call.write(message)
            return written

        await self._each(tell)

    async def _each(self, tell: Callable[[Any, Link], Awaitable[None]]) -> None:
        async def one(call: Any, link: Link) -> PeerError | None:
            try:
                await asyncio.wait_for(tell(call, link), self._patience)
            except grpc.RpcError as error:
                return from_rpc(link.name, error, self._patience)
            except TimeoutError:
                return late(link.name, self._patience)
            except asyncio.CancelledError as error:
                return left(link.name, error)
            except asyncio.InvalidStateError:  # the stream has ended
                return PeerError(link.name, f"hung up: {await call.details() or await call.code()}")
            return None

        results = await asyncio.gather(*(one(*pair) for pair in zip(self._calls, self._links, strict=True)))
        losses = {error.peer: error.reason for error in results if error is not None}
        if losses:
            raise MembersLost(losses)

    async def __aexit__(self, kind: Any, *_: Any) -> None:
        if kind is not None:
            self._hang_up()
            return
        for call in self._calls:
            with suppress(asyncio.InvalidStateError, grpc.RpcError):  # it has ended already
                await call.done_writing()

    def _hang_up(self) -> None:
        for call in self._calls:
            call.cancel()


def _part(me: str, terms: PoolingTerms, opinion: PeerOpinion, held: GuardBounds | None) -> PoolingState:
    beliefs, K, place = opinion.opinion.beliefs, len(terms.members), terms.members.index(me)
    columns = {model.name: column for column, model in enumerate(opinion.scored)}
    unknown = [name for name in terms.members if name not in columns]
    if unknown:
        raise MembersLost(dict.fromkeys(unknown, f"not scored yet by: {me}"))
    measured = opinion.select(terms.members).measured
    errors = np.asarray(None if measured is None else measured.errors)[:, 0]
    M = len(beliefs)
    kept = np.ones((M, K), bool)
    if held is not None:
        own = np.zeros((M, K))
        own[:, place] = held.own
        errors = within(errors[:, None], Bounds(held.low, held.high, own), np.array([place]))[:, 0]
        kept = held.kept
    return PoolingState(place, errors, beliefs, kept, terms.tolerance)


def _taken_in(
    heard: Mapping[str, wire.Beliefs], part: PoolingState, me: str, members: Sequence[str]
) -> tuple[list[Array], list[Array], Mask]:
    """Beliefs and shares in the order of the members, and where everybody is settled."""
    M = len(part.settled)
    told, shares, settled, losses = [], [], part.settled.copy(), {}
    for place, name in enumerate(members):
        if name == me:
            told.append(part.beliefs)
            shares.append(part.share(place))
            continue
        try:
            told.append(_bounded(array(heard[name].beliefs, part.beliefs.shape, "beliefs")))
            shares.append(weight_of(heard[name].share, M, "share"))
            settled &= array(heard[name].settled, (M,), "settled") > 0.5
        except Malformed as error:
            losses[name] = str(error)
    if losses:
        raise MembersLost(losses)
    return told, shares, settled


def _bounded(beliefs: Array) -> Array:
    if np.abs(beliefs).max(initial=0.0) > 2.0 * LARGEST:  # differences from others' beliefs
        raise Malformed(f"`beliefs` must not exceed {LARGEST:g} in size; they reach {np.abs(beliefs).max():g}.")
    return beliefs


def weight_of(message: wire.Tensor, points: int, name: str) -> Array:
    """Weight (M,) that a member says it has or hands on: not below nothing, and not more than there is."""
    weight = array(message, (points,), name)
    if (weight < 0.0).any() or (weight > 1.0 + SLACK).any():
        raise Malformed(f"`{name}` must lie between 0 and 1; some of it does not.")
    return weight


def _refuse_others(told: Sequence[Array], first: Mapping[str, Array], members: Sequence[str]) -> None:
    others = [name for name, each in zip(members, told, strict=True) if (each != first[name][:, None]).any()]
    if others:
        raise MembersLost(dict.fromkeys(others, CHANGED))


def _refuse_strays(part: PoolingState, told: Sequence[Array], members: Sequence[str]) -> None:
    stray = part.stray(told)
    if stray.any():
        raise MembersLost({name: OUTSIDE for name, away in zip(members, stray, strict=True) if away})
