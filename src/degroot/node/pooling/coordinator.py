"""Pooling: the asked node opens a session, takes part like everybody else, and puts the outcome together."""

import asyncio
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import grpc
import numpy as np

from degroot.answers.flags import Flag
from degroot.compute.compiled import Array
from degroot.consultation.consult import Opinion
from degroot.consultation.guarding import Verdict, examine, list_flags
from degroot.exceptions import InvalidInput
from degroot.guard.checks import Mask
from degroot.jackknife.delete_one import influence, standard_error
from degroot.node.answering.answer import NodeQuestion, flag_missing_members, flag_stale_models
from degroot.node.answering.terms import expand_to_roster
from degroot.node.errors import PeerError, PeerLate, PeerUnreachable, RosterMismatch, from_rpc, late, left
from degroot.node.peers.link import POOL
from degroot.node.peers.membership import Membership
from degroot.node.peers.peers import ABSENT, Peers
from degroot.node.peers.stream import read_ending, write_first
from degroot.node.pooling.rounds import FEW, GuardBounds, Pooled, PoolingTerms, check_rule, take_part, weight_of
from degroot.node.pooling.session import HUNG_UP, MembersLost, Sessions
from degroot.node.protocol.codec import Malformed, NodeAnswer, beliefs_of, decode_models
from degroot.node.protocol.opinions import PeerOpinion, decode_forecast
from degroot.node.protocol.v3 import collective_pb2 as wire
from degroot.node.server.threads import run_in_thread

ATTEMPTS = 3  # sessions that a peer may refuse because its roster differs
NOT_AGREED = "not agreed: the rounds were used up before all members were settled"


@dataclass(frozen=True, slots=True)
class Until:
    """When pooling ends."""

    tolerance: float
    rounds: int


async def pool(circle: Peers, sessions: Sessions, asked: NodeQuestion, until: Until) -> NodeAnswer:
    """The collective's answer by rounds; whoever is lost on the way is left out, and pooling starts again."""
    _check(circle, asked)
    candidates = Candidates(circle)
    await candidates.refresh()
    while True:
        who = candidates.choose()
        who.check(circle.configuration.needed)
        try:
            return await _session(circle, sessions, asked, until, who)
        except MembersLost as lost:
            await candidates.learn(lost)


class Candidates:
    """Who can pool together: by what peers say of themselves, and by what was found out since the question came.

    Nodes take a new roster in one after the other, so for a while rosters differ. A peer that refuses a session for
    that is not at fault: it describes itself again, and those who do not have each other in their rosters do not take
    part together. Only a peer that refuses `ATTEMPTS` times is missing.
    """

    def __init__(self, circle: Peers) -> None:
        self._circle, self._me = circle, circle.configuration.name
        self._missing = circle.without_evidence()
        self._apart: set[tuple[str, str]] = set()  # who cannot hear each other
        self._unscored: set[tuple[str, str]] = set()  # who has not scored whom, whatever it said before
        self._mismatches: Counter[str] = Counter()

    async def refresh(self) -> None:
        """Hear again from those who did not know everybody, or had not scored everybody, when last heard of."""
        names = set(self._circle.names)
        lacking = {name for name, _ in self._circle.unlisted()}
        lacking |= {name for name, scored in self._scored().items() if names - scored}
        behind = [name for name in self._circle.links if name in lacking and name not in self._missing]
        self._missing |= await self._circle.describe_again(behind)
        self._apart = _apart(self._circle)

    def choose(self) -> Membership:
        """Who takes part, as things are now, and why the others do not."""
        found = {
            name: [model for model in scored if (name, model) not in self._unscored]
            for name, scored in self._scored().items()
        }
        return self._circle.membership(found, self._missing, self._apart, self._circle.unlisted())

    async def learn(self, lost: MembersLost) -> None:
        """Take in why pooling failed."""
        for name, reason in lost.losses.items():
            if lost.witness in (None, self._me) or lost.witness == name:
                self._missing[name] = reason
            else:
                self._apart.add((lost.witness, name))
        self._unscored |= lost.unscored
        self._mismatches.update(lost.mismatched.keys())
        self._missing |= {
            name: reason for name, reason in lost.mismatched.items() if self._mismatches[name] >= ATTEMPTS
        }
        self._missing |= await self._circle.describe_again(lost.mismatched)

    def _scored(self) -> dict[str, set[str]]:
        """Whose models each node at hand has scored, as it last said."""
        told = {name: link.description.scored for name, link in self._circle.links.items() if link.description}
        own = {self._me: {model.name for model in self._circle.scores.seat.scored}}
        return own | {name: {model.name for model in scored} for name, scored in told.items()}


def _check(circle: Peers, asked: NodeQuestion) -> None:
    seat = circle.scores.seat
    check_rule(seat)
    if "trust" in asked.fields:
        raise InvalidInput("Rounds show nobody's trust: `fields` must not include 'trust'; it does.")
    if circle.set_aside():
        raise InvalidInput(
            "Rounds need agents that score their own models; "
            f"{', '.join(circle.set_aside())} leave that to peers. Ask by solving."
        )


def _apart(circle: Peers) -> set[tuple[str, str]]:
    """Pairs of which each has said that it cannot reach the other."""
    told = [(name, link.description) for name, link in circle.links.items() if link.description is not None]
    said = {(name, other.name) for name, description in told for other in description.members if other.state == ABSENT}
    return {(one, other) for one, other in said if (other, one) in said}


async def _session(circle: Peers, sessions: Sessions, asked: NodeQuestion, until: Until, who: Membership) -> NodeAnswer:
    me, patience, roster = circle.configuration.name, circle.configuration.timing.deadline_seconds, circle.names
    terms = PoolingTerms(uuid.uuid4().hex, who.members, asked.guard, until.tolerance, until.rounds, asked.origin)
    others, few = [name for name in who.members if name != me], len(asked.points) <= FEW
    calls: dict[str, Any] = {}
    work: list[asyncio.Task[Any]] = []
    session = sessions.begun(terms.session, who.members)
    try:
        calls = {name: circle.links[name].pool() for name in others}
        opinions = await _opinions(circle, asked, terms, calls, patience)
        examine_all = partial(_examine, terms, opinions, asked)
        verdict, held = examine_all() if few else await run_in_thread(examine_all)
        if asked.guard:
            await asyncio.gather(*(_send(calls[name], held[name].encode(), name, patience) for name in others))
        first = {name: opinion.opinion.beliefs for name, opinion in opinions.items()}
        taken = take_part(me, terms, opinions[me], held.get(me), session, circle.links, patience, first)
        own = asyncio.create_task(taken)
        outcomes = {name: asyncio.create_task(_outcome(calls[name], name, asked, who.members)) for name in others}
        work = [own, *outcomes.values()]
        await _all(own, outcomes, patience)
        weights = {me: own.result().part.weight} | {name: task.result() for name, task in outcomes.items()}
        conclude = partial(_conclude, me, roster, who, asked, own.result(), weights, opinions, verdict)
        return conclude() if few else await run_in_thread(conclude)
    finally:
        for each in (*work, *calls.values()):
            each.cancel()
        sessions.close(terms.session)
        await asyncio.gather(*work, return_exceptions=True)


async def _opinions(
    circle: Peers, asked: NodeQuestion, terms: PoolingTerms, calls: Mapping[str, Any], patience: float
) -> dict[str, PeerOpinion]:
    """What everybody starts from; of peers their beliefs and expectations, of oneself all."""
    seat = circle.scores.seat
    begin, outputs = terms.begin(asked.points, seat.schema_digest), seat.outputs
    rows, came = len(asked.points), list[tuple[str, bytes]]()
    bodies = {name: circle.links[name].encode(begin) for name in calls}
    circle.wiring.record(list(calls), POOL, rows, begin.ByteSize(), asked.origin)
    waiting = [
        asyncio.create_task(_start_member(call, begin, name, asked, outputs, patience, came))
        for name, call in calls.items()
    ]
    try:
        await asyncio.sleep(0)  # peers begin while this node forms its own opinion
        own = await circle.opinion(asked.points, guard=asked.guard)
        replies = await asyncio.gather(*waiting)
    finally:
        for task in waiting:
            task.cancel()
        for replied in came:
            circle.wiring.record_replies(POOL, rows, bodies[replied[0]], [replied], asked.origin)
    opinions = {circle.configuration.name: own}
    losses, mismatched = {}, {}
    for name, reply in zip(calls, replies, strict=True):
        if isinstance(reply, RosterMismatch):
            mismatched[name] = reply.reason
        elif isinstance(reply, PeerError):
            losses[name] = reply.reason
            if name in circle.links and isinstance(reply, PeerLate | PeerUnreachable):
                circle.links[name].fault = reply  # it is not asked again until it has described itself
        else:
            opinions[name] = reply
    unscored = [(name, model) for name, opinion in opinions.items() for model in _lacking(opinion, terms.members)]
    if losses or mismatched or unscored:
        raise MembersLost(losses, mismatched=mismatched, unscored=unscored)
    return opinions


def _lacking(opinion: PeerOpinion, members: Sequence[str]) -> list[str]:
    """Which members' models are not in an opinion: the roster may have changed since it was said who is scored."""
    scored = {model.name for model in opinion.scored}
    return [name for name in members if name not in scored]


async def _start_member(
    call: Any, begin: wire.PoolMessage, name: str, asked: NodeQuestion, outputs: int, patience: float,
    came: list[tuple[str, bytes]],
) -> PeerOpinion | PeerError:  # fmt: skip
    try:
        async with asyncio.timeout(patience):
            await write_first(call, begin)
            reply = await call.read()
        if reply is grpc.aio.EOF or reply.WhichOneof("kind") != "ready":
            return PeerError(name, HUNG_UP if reply is grpc.aio.EOF else "did not get ready")
        came.append((name, reply.SerializeToString()))
        if reply.ready.fault:
            return PeerError(name, reply.ready.fault[:300])
        M, scored = len(asked.points), decode_models(reply.ready.scored)
        opinion = Opinion(beliefs_of(reply.ready.beliefs, M, outputs))
        if asked.guard:
            forecast, standards = decode_forecast(reply.ready.expectation, M, len(scored), outputs)
            opinion = replace(opinion, forecast=forecast, standards=standards)
        return PeerOpinion(reply.ready.model_version, scored, opinion)
    except TimeoutError:
        return late(name, patience)
    except asyncio.CancelledError as error:
        return left(name, error)
    except grpc.RpcError as error:
        return from_rpc(name, error, patience)
    except Malformed as error:
        return PeerError(name, str(error))


def _examine(
    terms: PoolingTerms, opinions: Mapping[str, PeerOpinion], asked: NodeQuestion
) -> tuple[Verdict | None, dict[str, GuardBounds]]:
    """Under a guard, what each member is told: who is kept, and the bounds of what may be said."""
    if not asked.guard:
        return None, {}
    told = [opinions[name].select(terms.members) for name in terms.members]
    verdict = examine(
        [o.forecast for o in told], [o.standards for o in told], np.stack([o.beliefs for o in told], axis=1)
    )
    low, high = verdict.bounds.low, verdict.bounds.high
    return verdict, {
        name: GuardBounds(verdict.kept, low, high, verdict.bounds.own[:, place])
        for place, name in enumerate(terms.members)
    }


async def _send(call: Any, message: wire.PoolMessage, name: str, patience: float) -> None:
    try:
        await asyncio.wait_for(call.write(message), patience)
    except grpc.RpcError as error:
        raise MembersLost({name: from_rpc(name, error, patience).reason}) from error
    except TimeoutError:
        raise MembersLost({name: late(name, patience).reason}) from None
    except asyncio.InvalidStateError:  # the stream has ended
        raise MembersLost({name: from_rpc(name, await read_ending(call), patience).reason}) from None
    except asyncio.CancelledError as error:
        raise MembersLost({name: left(name, error).reason}) from error


async def _outcome(call: Any, name: str, asked: NodeQuestion, members: Sequence[str]) -> Array:
    """A member's weight in the end; or whom of the members it lost."""
    try:
        reply = await call.read()
        if reply is grpc.aio.EOF or reply.WhichOneof("kind") != "outcome":
            raise MembersLost({name: HUNG_UP})
        if reply.outcome.lost:
            losses = {each.name: each.reason[:300] for each in reply.outcome.lost if each.name in members}
            raise MembersLost(losses or {name: "lost somebody who is no member"}, name)
        return weight_of(reply.outcome.weight, len(asked.points), "weight")
    except grpc.RpcError as error:
        raise MembersLost({name: from_rpc(name, error, 0.0).reason}) from error
    except asyncio.CancelledError as error:
        raise MembersLost({name: left(name, error).reason}) from error
    except Malformed as error:
        raise MembersLost({name: str(error)}) from error


async def _all(own: asyncio.Task[Pooled], outcomes: Mapping[str, asyncio.Task[Array]], patience: float) -> None:
    """Wait for everybody, as long as one is at work oneself and a little longer; raise what went wrong first."""
    open_: set[asyncio.Task[Any]] = {own, *outcomes.values()}
    while open_:
        done, open_ = await asyncio.wait(
            open_, return_when=asyncio.FIRST_COMPLETED, timeout=patience if own.done() else None
        )
        if not done:
            raise MembersLost({name: "silent at the end" for name, task in outcomes.items() if task in open_})
        failures = [failure for failure in (task.exception() for task in done) if failure is not None]
        if failures:
            raise await _find_cause(failures[0], outcomes, patience)


async def _find_cause(
    failure: BaseException, outcomes: Mapping[str, asyncio.Task[Array]], patience: float
) -> BaseException:
    """The failure behind a failure: a member that hung up has lost somebody itself, and says whom in its outcome."""
    failures, asked = [failure], set[str]()
    while True:
        cause = min(failures, key=lambda each: len(_who_hung_up(each)))
        silent = {name for each in failures for name in _who_hung_up(each) if name in outcomes} - asked
        if not _who_hung_up(cause) or not silent:
            return cause
        asked |= silent
        done, _ = await asyncio.wait([outcomes[name] for name in silent], timeout=patience)
        failures = [error for error in (task.exception() for task in done) if error is not None] or failures


def _who_hung_up(failure: BaseException) -> list[str]:
    losses = failure.losses if isinstance(failure, MembersLost) else {}
    return [name for name, reason in losses.items() if reason == HUNG_UP]


def _conclude(
    me: str,
    roster: Sequence[str],
    who: Membership,
    asked: NodeQuestion,
    pooled: Pooled,
    weights: Mapping[str, Array],
    opinions: Mapping[str, PeerOpinion],
    verdict: Verdict | None,
) -> NodeAnswer:
    M = len(asked.points)
    told = np.stack([opinions[name].opinion.beliefs for name in who.members], axis=1)
    value, without = pooled.part.agreed()
    weight = np.stack([weights[name] for name in who.members], axis=1)
    known = {
        "value": value + np.asarray(pooled.part.base), "beliefs": told,
        "weights": weight / weight.sum(axis=1, keepdims=True),
        "standard_error": _errors(without, pooled.part.kept),
        "influence": _influence(value, without, pooled.part.kept),
    }  # fmt: skip
    notes = [*flag_missing_members(who, M), *flag_stale_models(who.members, opinions, M)]
    notes += list_flags(verdict.codes, who.members) if verdict is not None else ()
    open_ = np.flatnonzero(~pooled.settled)
    notes += [Flag(me, NOT_AGREED, open_)] if len(open_) else []
    found = {name: known[name] for name in asked.fields}
    return NodeAnswer(tuple(roster), expand_to_roster(found, roster, who.members), tuple(notes), pooled.rounds)


def _errors(without: Array, kept: Mask) -> Array:
    """Standard errors (M, Q) over those who are kept."""
    out = np.empty((len(without), without.shape[-1]))
    for pattern in np.unique(kept, axis=0):
        points = np.flatnonzero((kept == pattern).all(axis=1))
        out[points] = standard_error(without[points][:, pattern].swapaxes(1, 2))
    return out


def _influence(value: Array, without: Array, kept: Mask) -> Array:
    """What each member adds, (M, K, Q): nothing where it is not kept, and NaN where it is alone."""
    added = influence(value, without.swapaxes(1, 2)).swapaxes(1, 2)
    alone = kept.sum(axis=1) == 1
    return np.where(kept[..., None], np.where(alone[:, None, None], np.nan, added), 0.0)
