"""The service: what a node answers to peers and to those who ask, `degroot.v1`."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import grpc
from grpc import StatusCode

from degroot.answers.answer import ASKER_FIELDS, FIELDS, check_fields
from degroot.compute.compiled import Array
from degroot.exceptions import AgentError, DeGrootError, InvalidInput
from degroot.node.answering.answer import (
    CONSENSUS,
    OWN,
    ROUNDS,
    SOLVE,
    NodeQuestion,
    check_coverage,
    check_view,
    check_way,
)
from degroot.node.answering.answering import Answering, check_columns
from degroot.node.config import ASK, OPINION
from degroot.node.errors import told_to_peers
from degroot.node.peers.link import kind_of
from degroot.node.peers.peers import TooFew
from degroot.node.pooling.coordinator import Until
from degroot.node.pooling.member import PoolingMember
from degroot.node.pooling.rounds import MOST
from degroot.node.protocol.codec import (
    Malformed,
    array,
    check_protocol,
    encode_answer,
    encode_opinion,
    encode_prediction,
)
from degroot.node.protocol.v1 import collective_pb2 as v1
from degroot.node.protocol.v1 import collective_pb2_grpc
from degroot.node.server.access import Access, Exceeded, Visit

OURS = "degroot.v1"


class OtherVersions(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Answers calls of services that this node does not have."""

    def service(self, details: Any) -> Any:
        """A handler that refuses, if the service is ours in another version."""
        path = details.method
        if not path.startswith("/degroot.") or path.startswith(f"/{OURS}."):
            return None

        async def refuse(_requests: Any, context: Any) -> None:
            asked = path[1:].rsplit("/", 1)[0][:100]
            await context.abort(StatusCode.UNIMPLEMENTED, f"This node speaks {OURS}; {asked!r} was asked for.")

        return grpc.stream_stream_rpc_method_handler(refuse)


AHEAD = 2  # batches of one stream that wait for those before them


class CollectiveService(collective_pb2_grpc.CollectiveServicer):
    """One node, for whoever may ask it and whoever it answers with."""

    def __init__(self, answering: Answering, access: Access, log: Any) -> None:
        self._answering, self._access, self._log = answering, access, log
        self._circle = answering.circle
        self._member = PoolingMember(self._circle, answering.sessions, access)

    async def Describe(self, request: v1.DescribeRequest, context: Any) -> v1.Description:  # noqa: N802
        """Who this node is."""
        async with self._access.admitted(context, None) as visit:
            await visit.refusing(check_protocol, request.protocol)
            await visit.message("describe", 0, request.ByteSize())
            description = self._circle.description()
            visit.answered("describe", 0, description.ByteSize())
            return description

    async def Opinion(self, _requests: Any, context: Any) -> None:  # noqa: N802
        """What this node says of points, question by question."""
        async with self._access.admitted(context, OPINION) as visit:
            while (question := await visit.next_message()) is not None:
                await visit.refusing(check_protocol, question.protocol)
                points = await visit.refusing(self._points, question.points)
                kind = kind_of(question)
                await visit.message(kind, len(points), question.ByteSize())
                reply = await self._opinion(question, points)
                await visit.reply(kind, len(points), reply)

    async def Pool(self, _requests: Any, context: Any) -> None:  # noqa: N802
        """Take part in pooling: with `begin` as a member, with `join` as one that others send beliefs to."""
        async with self._access.admitted(context, OPINION) as visit:
            message = await visit.next_message()
            kind = None if message is None else message.WhichOneof("kind")
            if kind == "begin":
                await self._member.take_part(message, visit)
            elif kind == "join":
                await self._member.listen(message, visit)
            else:
                told = f"Pooling must open with `begin` or `join`; got {kind}."
                await visit.refuse("malformed", StatusCode.INVALID_ARGUMENT, told)

    async def Ask(self, request: v1.ConsultRequest, context: Any) -> v1.Answer:  # noqa: N802
        """A collective prediction for one batch."""
        async with self._access.admitted(context, ASK) as visit:
            return await self._answer(request, visit)

    async def Consult(self, _requests: Any, context: Any) -> None:  # noqa: N802
        """Collective predictions, batch by batch, in order; while one is sent the next are at work."""
        async with self._access.admitted(context, ASK) as visit, aclosing(self._ahead(visit)) as answers:
            async for answer in answers:
                await context.write(answer)

    async def _ahead(self, visit: Visit) -> AsyncGenerator[v1.Answer, None]:
        """Answers to the batches as they come, in order; up to `AHEAD` are at work while one is waited for."""
        begun: asyncio.Queue[asyncio.Task[v1.Answer] | None] = asyncio.Queue(AHEAD)
        work: set[asyncio.Task[Any]] = set()

        async def read() -> None:
            try:
                while (request := await visit.next_message()) is not None:
                    task = asyncio.create_task(self._answer(request, visit))
                    work.add(task)
                    task.add_done_callback(work.discard)
                    await begun.put(task)
            finally:
                await begun.put(None)

        reading = asyncio.create_task(read())
        try:
            while (task := await begun.get()) is not None:
                yield await task
            await reading  # which has failed if the last message was refused
        finally:
            for task in (left := [*work, reading]):
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    async def _answer(self, request: v1.ConsultRequest, visit: Visit) -> v1.Answer:
        question = await visit.refusing(self._asked, request)
        await visit.message("consult", len(question.points), request.ByteSize())
        try:
            until = None if request.way in ("", SOLVE) else Until(request.tolerance, request.rounds)
            answered = await self._answering.answer(visit.name, question, until)
        except TooFew as error:
            await visit.refuse("quorum", StatusCode.UNAVAILABLE, str(error))
        except AgentError as error:
            await visit.refuse("model", StatusCode.INTERNAL, str(error))
        except InvalidInput as error:
            await visit.refuse("malformed", StatusCode.INVALID_ARGUMENT, str(error))
        except Exceeded as exceeded:
            await visit.refuse(exceeded.limit, StatusCode.RESOURCE_EXHAUSTED, str(exceeded))
        answer = encode_answer(answered, self._circle.scores.seat.agent.outputs)
        visit.answered("consult", len(question.points), answer.ByteSize())
        return answer

    def _asked(self, request: v1.ConsultRequest) -> NodeQuestion:
        """What is asked, if it makes sense."""
        check_protocol(request.protocol)
        check_way(request.way or SOLVE)
        if request.way == ROUNDS and not (0.0 <= request.tolerance < 1.0 and 0 < request.rounds <= MOST):
            raise Malformed(
                f"Rounds must have a tolerance from 0 to 1 and a number from 1 to {MOST}; "
                f"got {request.tolerance} and {request.rounds}."
            )
        seat = self._circle.scores.seat
        points = check_columns(self._points(request.points, None), list(request.feature_names), seat)
        view = request.view or CONSENSUS  # whoever does not know of views expects the consensus
        check_view(view, request.way or SOLVE)
        fields = check_fields(list(request.fields), ASKER_FIELDS if view == OWN else FIELDS)
        coverage = request.coverage if request.HasField("coverage") else None
        check_coverage(coverage, request.way or SOLVE)
        if request.correct and view != OWN:
            raise InvalidInput("`correct` must be asked for with a node's own view; got the consensus.")
        return NodeQuestion(points, fields, seat.guarded and not request.unguarded, coverage, view, request.correct)

    def _points(self, message: v1.Tensor, features: int | None = -1) -> Array:
        known = self._circle.scores.seat.agent.n_features if features == -1 else features
        return array(message, (None, known), "points")

    async def _opinion(self, question: v1.Question, points: Array) -> v1.OpinionReply:
        try:
            if question.predictions:
                return encode_prediction(await self._circle.prediction(points), question.id)
            opinion = await self._circle.opinion(
                points, spread=question.spread, guard=question.guard, interval=question.interval
            )
            return encode_opinion(opinion, question.id)
        except DeGrootError as error:
            self._log.warning("no opinion", reason=str(error))
            return v1.OpinionReply(id=question.id, fault=told_to_peers(error))
