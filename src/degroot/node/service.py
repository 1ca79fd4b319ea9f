"""The service: what a node answers to peers and to those who ask, `degroot.v1`."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

from grpc import StatusCode

from degroot.answers import FIELDS, asked
from degroot.exceptions import DeGrootError, InvalidInput
from degroot.node.access import Access, Visit
from degroot.node.circle import Circle
from degroot.node.configuration import ASK, OPINION
from degroot.node.membership import TooFew
from degroot.node.metrics import Metrics
from degroot.node.opinion import encode, encode_expectation
from degroot.node.pooling import Until, pool
from degroot.node.questions import Asked, checked, consult
from degroot.node.rounds import Held, Terms, take_part
from degroot.node.session import Lost, Sessions
from degroot.node.solving import Answered
from degroot.node.threads import computed
from degroot.node.v1 import collective_pb2 as v1
from degroot.node.v1 import collective_pb2_grpc
from degroot.node.wire import Malformed, UnknownVersion, array, check_protocol, tensor
from degroot.points import Array

SOLVE, ROUNDS = "solve", "rounds"
AHEAD = 2  # batches of one stream that wait while one is at work


class CollectiveService(collective_pb2_grpc.CollectiveServicer):
    """One node, for whoever may ask it and whoever it answers with."""

    def __init__(self, circle: Circle, access: Access, metrics: Metrics, log: Any) -> None:
        self._circle, self._access, self._metrics, self._log = circle, access, metrics, log
        self._sessions = Sessions()

    async def Describe(self, request: v1.DescribeRequest, context: Any) -> v1.Description:  # noqa: N802
        """Who this node is."""
        async with self._access.admitted(context, None) as visit:
            await self._refusing(context, visit, check_protocol, request.protocol)
            await visit.message("describe", 0, request.ByteSize())
            description = self._circle.description()
            visit.answered("describe", 0, description.ByteSize())
            return description

    async def Opinion(self, _requests: Any, context: Any) -> None:  # noqa: N802
        """What this node says of points, question by question."""
        async with self._access.admitted(context, OPINION) as visit:
            while (question := await visit.next_message()) is not None:
                await self._refusing(context, visit, check_protocol, question.protocol)
                points = await self._refusing(context, visit, self._points, question.points)
                await visit.message("opinion", len(points), question.ByteSize())
                reply = await self._opinion(question, points)
                visit.answered("opinion", len(points), reply.ByteSize())
                await context.write(reply)

    async def Pool(self, _requests: Any, context: Any) -> None:  # noqa: N802
        """Take part in pooling: with `begin` as a member, with `join` as one that others send beliefs to."""
        async with self._access.admitted(context, OPINION) as visit:
            message = await visit.next_message()
            kind = None if message is None else message.WhichOneof("kind")
            if kind == "begin":
                await self._member(message, context, visit)
            elif kind == "join":
                await self._listen(message, context, visit)
            else:
                await context.abort(StatusCode.INVALID_ARGUMENT, "Pooling must open with `begin` or `join`.")

    async def Ask(self, request: v1.ConsultRequest, context: Any) -> v1.Answer:  # noqa: N802
        """A collective prediction for one batch."""
        async with self._access.admitted(context, ASK) as visit:
            return await self._answer(request, context, visit)

    async def Consult(self, _requests: Any, context: Any) -> None:  # noqa: N802
        """Collective predictions, batch by batch, in order; while one is sent the next are at work."""
        async with self._access.admitted(context, ASK) as visit:
            async for answer in self._ahead(context, visit):
                await context.write(await answer)

    async def _ahead(self, context: Any, visit: Visit) -> AsyncIterator[asyncio.Task[v1.Answer]]:
        """Answers to the batches that have come, `AHEAD` of them at the same time."""
        begun: asyncio.Queue[asyncio.Task[v1.Answer] | BaseException | None] = asyncio.Queue(AHEAD)

        async def read() -> None:
            try:
                while (request := await visit.next_message()) is not None:
                    await begun.put(asyncio.create_task(self._answer(request, context, visit)))
                await begun.put(None)
            except BaseException as error:
                await begun.put(error)

        reading, answering = asyncio.create_task(read()), None
        try:
            while (answering := await begun.get()) is not None:
                if isinstance(answering, BaseException):
                    raise answering
                yield answering
        finally:
            reading.cancel()
            for left in (answering, *(begun.get_nowait() for _ in range(begun.qsize()))):
                if isinstance(left, asyncio.Task):
                    left.cancel()

    async def _answer(self, request: v1.ConsultRequest, context: Any, visit: Visit) -> v1.Answer:
        begun = time.perf_counter()
        question = await self._refusing(context, visit, self._asked, request)
        await visit.message("consult", len(question.points), request.ByteSize())
        try:
            answered = await self._answered(request, question)
        except TooFew as error:
            await self._access.refuse(context, visit.name, "quorum", StatusCode.UNAVAILABLE, str(error))
        except InvalidInput as error:
            await self._access.refuse(context, visit.name, "malformed", StatusCode.INVALID_ARGUMENT, str(error))
        answer = _encoded(answered, self._circle.scores.seat.agent.outputs)
        visit.answered("consult", len(question.points), answer.ByteSize())
        self._metrics.answered(time.perf_counter() - begun, answered.rounds)
        return answer

    async def _answered(self, request: v1.ConsultRequest, question: Asked) -> Answered:
        if request.way in ("", SOLVE):
            return await consult(self._circle, question)
        return await pool(self._circle, self._sessions, question, Until(request.tolerance, request.rounds))

    def _asked(self, request: v1.ConsultRequest) -> Asked:
        """What is asked, if it makes sense."""
        check_protocol(request.protocol)
        if request.way not in ("", SOLVE, ROUNDS):
            raise Malformed(f"`way` must be {SOLVE!r} or {ROUNDS!r}; got {request.way[:100]!r}.")
        if request.way == ROUNDS and not (0.0 <= request.tolerance < 1.0 and request.rounds > 0):
            raise Malformed(
                "Rounds must have a tolerance from 0 to 1 and a positive number; "
                f"got {request.tolerance} and {request.rounds}."
            )
        seat = self._circle.scores.seat
        points = checked(self._points(request.points, None), list(request.feature_names), seat)
        fields = asked(list(request.fields), FIELDS)
        return Asked(points, fields, seat.guarded and not request.unguarded)

    def _points(self, message: v1.Tensor, features: int | None = -1) -> Array:
        known = self._circle.scores.seat.agent.n_features if features == -1 else features
        return array(message, (None, known), "points")

    async def _opinion(self, question: v1.Question, points: Array) -> v1.OpinionReply:
        try:
            seat = await self._circle.scores.seat_for(points, self._circle.links)
            if question.guard and not seat.guarded:
                raise InvalidInput("The guard must be on at all nodes; here it is off.")
            opinion = await computed(
                seat.quick(len(points)), lambda: seat.opinion(points, spread=question.spread, guard=question.guard)
            )
            return encode(opinion, question.id)
        except DeGrootError as error:
            self._log.warning("no opinion", reason=str(error))
            return v1.OpinionReply(id=question.id, fault=str(error))

    async def _member(self, message: v1.PoolMessage, context: Any, visit: Visit) -> None:
        """Take part in a session that another node was asked for."""
        begin = message.begin
        await self._refusing(context, visit, check_protocol, begin.protocol)
        me, names = self._circle.configuration.name, self._circle.names
        terms = await self._refusing(context, visit, Terms.told, begin, me, names)
        points = await self._refusing(context, visit, self._points, begin.points)
        await visit.message("pool", len(points), message.ByteSize())
        session = self._sessions.of(terms.session)
        session.begun = True
        try:
            await self._pooled(terms, points, context, visit, session)
        finally:
            self._sessions.close(terms.session)

    async def _pooled(self, terms: Terms, points: Array, context: Any, visit: Visit, session: Any) -> None:
        me, patience = self._circle.configuration.name, self._circle.configuration.timing.deadline_seconds
        try:
            seat = await self._circle.scores.seat_for(points, self._circle.links)
            if terms.guard and not seat.guarded:
                raise InvalidInput("The guard must be on at all nodes; here it is off.")
            opinion = await computed(seat.quick(len(points)), lambda: seat.opinion(points, guard=terms.guard))
        except DeGrootError as error:
            await self._reply(context, visit, v1.PoolReply(ready=v1.Ready(fault=str(error))), 0)
            return
        ready = v1.Ready(model_version=opinion.version, beliefs=tensor(opinion.beliefs))
        ready.scored.extend(v1.Model(name=name, version=version) for name, version in opinion.scored)
        if opinion.expectation is not None:
            ready.expectation.CopyFrom(encode_expectation(opinion.expectation))
        await self._reply(context, visit, v1.PoolReply(ready=ready), len(points))
        held = await self._held(terms, len(points), context, visit) if terms.guard else None
        try:
            pooled = await take_part(me, terms, opinion, held, session, self._circle.links, patience)
            outcome = v1.Outcome(weight=tensor(pooled.part.weight))
        except Lost as lost:
            losses = [v1.Loss(name=name, reason=reason) for name, reason in lost.losses.items()]
            outcome = v1.Outcome(lost=losses)
        except Malformed as error:
            outcome = v1.Outcome(lost=[v1.Loss(name=me, reason=str(error))])
        await self._reply(context, visit, v1.PoolReply(outcome=outcome), len(points))

    async def _held(self, terms: Terms, points: int, context: Any, visit: Visit) -> Held:
        message = await visit.next_message()
        if message is None or message.WhichOneof("kind") != "bounds":
            await context.abort(StatusCode.INVALID_ARGUMENT, "Under a guard `bounds` must follow `begin`.")
        held: Held = await self._refusing(context, visit, Held.decode, message.bounds, points, len(terms.members))
        return held

    async def _reply(self, context: Any, visit: Visit, reply: v1.PoolReply, rows: int) -> None:
        visit.answered("pool", rows, reply.ByteSize())
        await context.write(reply)

    async def _listen(self, message: v1.PoolMessage, context: Any, visit: Visit) -> None:
        """Take in a member's beliefs, round by round. It cannot be ahead by more than one: there is no flood."""
        await self._refusing(context, visit, check_protocol, message.join.protocol)
        await visit.message("pool", 0, message.ByteSize())
        session, finished = self._sessions.of(message.join.session[:64]), False
        try:
            while (message := await visit.next_message()) is not None:
                if message.WhichOneof("kind") != "beliefs":
                    await context.abort(StatusCode.INVALID_ARGUMENT, "After `join` there must be beliefs.")
                visit.received("pool", message.ByteSize())
                await self._refusing(context, visit, session.receive, visit.name, message.beliefs)
            finished = True
        finally:
            if not finished:
                session.lose(visit.name, "hung up")

    async def _refusing(self, context: Any, visit: Visit, work: Any, *arguments: Any) -> Any:
        """What `work` gives; if it refuses, so is the call."""
        try:
            return work(*arguments)
        except UnknownVersion as error:
            await self._access.refuse(context, visit.name, "version", StatusCode.FAILED_PRECONDITION, str(error))
        except InvalidInput as error:
            await self._access.refuse(context, visit.name, "malformed", StatusCode.INVALID_ARGUMENT, str(error))


def _encoded(answered: Answered, outputs: int | None) -> v1.Answer:
    answer = v1.Answer(names=answered.names, rounds=answered.rounds, outputs=outputs or 0)
    for name, values in answered.fields.items():
        answer.fields[name].CopyFrom(tensor(values))
    for flag in answered.flags:
        answer.flags.add(agent=flag.agent, reason=flag.reason, points=_points_of(flag.points))
    return answer


def _points_of(points: Any) -> Sequence[int]:
    listed: Sequence[int] = points.tolist()
    return listed
