"""The service: what a node answers to peers and to those who ask, in the present version of the protocol."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any

import grpc
from grpc import StatusCode

from degroot.answers.answer import ASKER_FIELDS, FIELDS, check_fields
from degroot.answers.flags import MISSING
from degroot.compute.compiled import Array
from degroot.exceptions import AgentError, DeGrootError, InvalidInput
from degroot.node.answering.answer import NodeQuestion
from degroot.node.answering.answering import Answering, NotPooled, check_columns
from degroot.node.answering.terms import GRANT_OF, OWN, ROUNDS, SOLVE, check_coverage, check_view, check_way
from degroot.node.config import ASK, COPY, INTERVAL, OPINION, POOLED, QUERY
from degroot.node.copies.bundle import OVERHEAD_BYTES
from degroot.node.copies.offer import NotOffered
from degroot.node.errors import told_to_peers
from degroot.node.peers.link import COPIED, DESCRIBE, MAP, PREDICTION, PUSHED, cut_bundle
from degroot.node.peers.membership import TooFew
from degroot.node.peers.peers import Peers
from degroot.node.pooling.coordinator import Until
from degroot.node.pooling.member import PoolingMember
from degroot.node.pooling.rounds import MOST
from degroot.node.protocol import version2
from degroot.node.protocol.codec import (
    PROTOCOL,
    Malformed,
    NodeAnswer,
    array,
    check_protocol,
    check_purpose,
    check_question,
    decode_origin,
    draw_question,
    encode_answer,
    encode_prediction,
)
from degroot.node.protocol.opinions import encode_opinion
from degroot.node.protocol.schemas import check_digest, decode_absent, decode_points
from degroot.node.protocol.v3 import collective_pb2 as wire
from degroot.node.protocol.v3 import collective_pb2_grpc
from degroot.node.records.chain import NO_ORIGIN, Origin
from degroot.node.records.receipts import RECEIPT
from degroot.node.server.access import Access, Exceeded, Visit
from degroot.node.server.threads import run_in_thread

SPOKEN_PACKAGES = (f"degroot.v{PROTOCOL}", version2.SERVICE.rpartition(".")[0])


class OtherMethods(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Refuses calls that this node does not know, of another version or service; gRPC would do so without a trace."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def service(self, details: Any) -> Any:
        """A handler that refuses whatever is called; it is to be asked after all others."""
        service, _, method = details.method[1:].rpartition("/")
        if service.startswith("degroot.") and service.rpartition(".")[0] not in SPOKEN_PACKAGES:
            told = f"This node speaks {' and '.join(SPOKEN_PACKAGES)}; {service[:100]!r} was asked for."
        else:
            told = f"A call must name a method of this node; it has no {method[:100]!r} in {service[:100]!r}."

        async def refuse(_requests: Any, context: Any) -> None:
            async with self._access.admitted(context, None) as visit:
                visit.refuse("method", StatusCode.UNIMPLEMENTED, told)

        return grpc.stream_stream_rpc_method_handler(refuse)


NOT_ASKED = f"{MISSING}: its model cannot be asked now"  # what others are told
NOT_PUBLISHED = "An evidence map must be published before it is fetched; this node has published none."  # and not why
AHEAD = 2  # batches of one stream that wait for those before them


class CollectiveService(collective_pb2_grpc.CollectiveServicer):
    """One node, for whoever may ask it and whoever it answers with."""

    def __init__(self, answering: Answering, access: Access, log: Any) -> None:
        self._answering, self._access, self._log = answering, access, log
        self._circle = answering.circle
        self._member = PoolingMember(self._circle, answering.sessions, access)
        self._pushing: set[str] = set()  # peers whose models are on their way

    async def Describe(self, request: wire.DescribeRequest, context: Any) -> wire.Description:  # noqa: N802
        """Who this node is."""
        async with self._access.admitted(context, None) as visit:
            visit.refusing(check_protocol, request.protocol)
            visit.message(DESCRIBE, 0, request.ByteSize())
            self._circle.note_call(visit.name, request.instance, visit.host)
            description = self._circle.description(
                visit.name, with_schema=request.schema, known_roster=request.roster, instance=request.instance
            )
            visit.count(DESCRIBE, description.ByteSize())
            return description

    async def Confirm(self, request: wire.Signed, context: Any) -> wire.Signed:  # noqa: N802
        """The receipt for what a peer states of exchanges with this node."""
        async with self._access.admitted(context, None) as visit:
            visit.refusing(check_protocol, request.protocol)
            visit.message(RECEIPT, 0, request.ByteSize())
            receipts = self._access.receipts
            if receipts is None or visit.name not in self._circle.links:
                told = f"Receipts must be between nodes with certificates; {visit.name!r} and {self._name!r} are not."
                visit.refuse("no peer", StatusCode.FAILED_PRECONDITION, told)
            try:
                signed, found = await run_in_thread(receipts.countersign, visit.name, request)
            except InvalidInput as error:
                visit.refuse("receipt", StatusCode.INVALID_ARGUMENT, str(error))
            for each in found:
                self._log.warning("ledgers differ", peer=visit.name, found=each)
            visit.count(RECEIPT, signed.ByteSize())
            return signed

    async def Predict(self, _requests: Any, context: Any) -> None:  # noqa: N802
        """What this node's model predicts at points, request by request."""
        async with self._access.admitted(context, QUERY) as visit:
            while (request := await visit.next_message()) is not None:
                points = visit.refusing(self._asked_points, request)
                origin = visit.refusing(decode_origin, request.origin, visit.name)
                body = request.SerializeToString()
                visit.question = origin.question
                visit.points(PREDICTION, points, len(body))
                reply = await self._prediction(request.id, points, origin.question)
                await visit.reply(PREDICTION, len(points), reply, body, origin)

    async def FetchCopy(self, _requests: Any, context: Any) -> None:  # noqa: N802
        """This node's model for a peer that may copy it, in chunks of a signed bundle."""
        async with self._access.admitted(context, COPY) as visit:
            origin, body = await read_fetch(visit, COPIED)
            try:
                encoded = await self._circle.copies.make_own_bundle(visit.name)
            except NotOffered as error:
                visit.refuse("not offered", StatusCode.FAILED_PRECONDITION, str(error))
            visit.record_exchange(COPIED, 0, body, encoded, origin)
            for chunk in cut_bundle(encoded):
                await context.write(chunk)

    async def FetchMap(self, _requests: Any, context: Any) -> None:  # noqa: N802
        """This node's evidence map for a peer that may have its evidence, in chunks."""
        async with self._access.admitted(context, OPINION) as visit:
            origin, body = await read_fetch(visit, MAP)
            encoded = self._circle.maps.published_bytes
            if not encoded:
                visit.refuse("no map", StatusCode.FAILED_PRECONDITION, NOT_PUBLISHED)
            visit.record_exchange(MAP, 0, body, encoded, origin)
            for chunk in cut_bundle(encoded):
                await context.write(chunk)

    async def PushCopy(self, _requests: Any, context: Any) -> wire.CopyReceipt:  # noqa: N802
        """Take in a peer's model that it sends of its own accord, in chunks of a signed bundle."""
        async with self._access.admitted(context, None) as visit:
            if visit.name not in self._circle.links:
                told = f"A copy must come from a peer; {visit.name!r} is none of {self._circle.configuration.name!r}."
                visit.refuse("no peer", StatusCode.PERMISSION_DENIED, told)
            if COPY not in self._circle.links[visit.name].peer.use or self._circle.configuration.identity is None:
                told = f"A copy must be one that {self._name!r} uses; it uses none of {visit.name!r}."
                visit.refuse("no use", StatusCode.FAILED_PRECONDITION, told)
            if visit.name in self._pushing:
                told = "Copies must come one at a time; another is on its way."
                visit.refuse("copies", StatusCode.RESOURCE_EXHAUSTED, told)
            self._pushing.add(visit.name)
            try:
                encoded, origin, salt = await self._read_bundle(visit)
                bundle = await self._circle.copies.take(encoded, visit.name)
            except InvalidInput as error:
                visit.refuse("copy", StatusCode.INVALID_ARGUMENT, str(error))
            finally:
                self._pushing.discard(visit.name)
            receipt = wire.CopyReceipt(version=bundle.version)
            visit.record_exchange(PUSHED, 0, salt + encoded, receipt, origin)
            return receipt

    async def _read_bundle(self, visit: Visit) -> tuple[bytes, Origin, bytes]:
        """All chunks of a bundle, unless that is more than a copy may have, where it comes from, and a salt."""
        most, encoded = self._circle.configuration.limits.copy_bytes + OVERHEAD_BYTES, bytearray()
        origin, salt = NO_ORIGIN, b""
        while (chunk := await visit.next_message()) is not None:
            if not encoded:
                visit.refusing(check_protocol, chunk.protocol)
                origin, salt = visit.refusing(decode_origin, chunk.origin, visit.name), chunk.origin.salt
            visit.message(PUSHED, 0, chunk.ByteSize())
            if not chunk.content:
                told = "A part of a copied model must have bytes; this one has none."
                visit.refuse("malformed", StatusCode.INVALID_ARGUMENT, told)
            encoded += chunk.content  # as one: many small parts would take more room than they have bytes
            if len(encoded) > most:
                told = f"A copied model must have at most {most - OVERHEAD_BYTES} bytes (limits.copy_bytes); more came."
                visit.refuse("copy_bytes", StatusCode.RESOURCE_EXHAUSTED, told)
        return bytes(encoded), origin, salt

    async def Opinion(self, _requests: Any, context: Any) -> None:  # noqa: N802
        """What this node measured of all models near points, question by question, if its evidence is pooled."""
        async with self._admitted_to_evidence(context) as visit:
            while (question := await visit.next_message()) is not None:
                points = visit.refusing(self._asked_points, question)
                origin = visit.refusing(decode_origin, question.origin, visit.name)
                body = question.SerializeToString()
                visit.question = origin.question
                visit.points(OPINION, points, len(body))
                await visit.reply(OPINION, len(points), await self._opinion(question, points), body, origin)

    async def Pool(self, _requests: Any, context: Any) -> None:  # noqa: N802
        """Take part in pooling: with `begin` as a member, with `join` as one that others send beliefs to."""
        async with self._admitted_to_evidence(context) as visit:
            message = await visit.next_message()
            kind = None if message is None else message.WhichOneof("kind")
            if kind == "begin":
                await self._member.take_part(message, visit)
            elif kind == "join":
                await self._member.listen(message, visit)
            else:
                told = f"Pooling must open with `begin` or `join`; got {kind}."
                visit.refuse("malformed", StatusCode.INVALID_ARGUMENT, told)

    @asynccontextmanager
    async def _admitted_to_evidence(self, context: Any) -> AsyncIterator[Visit]:
        """A visit of a peer that may have this node's evidence; where that stays at home, the call is aborted."""
        configuration = self._circle.configuration
        async with self._access.admitted(context, OPINION if configuration.pooled else None) as visit:
            if not configuration.pooled:
                told = f"{configuration.name!r} keeps its evidence to itself: `evidence` in its file is not {POOLED!r}."
                visit.refuse("evidence", StatusCode.FAILED_PRECONDITION, told)
            yield visit

    async def Ask(self, request: wire.ConsultRequest, context: Any) -> wire.Answer:  # noqa: N802
        """A collective prediction for one batch."""
        async with self._access.admitted(context, ASK) as visit:
            return await self._answer(request, visit)

    async def Consult(self, _requests: Any, context: Any) -> None:  # noqa: N802
        """Collective predictions, batch by batch, in order; while one is sent the next are at work."""
        async with self._access.admitted(context, ASK) as visit, aclosing(self._ahead(visit)) as answers:
            async for answer in answers:
                visit.check_admission()
                await context.write(answer)

    async def _ahead(self, visit: Visit) -> AsyncGenerator[wire.Answer, None]:
        """Answers to the batches as they come, in order; up to `AHEAD` are at work while one is waited for."""
        begun: asyncio.Queue[asyncio.Task[wire.Answer] | None] = asyncio.Queue(AHEAD)
        work: set[asyncio.Task[Any]] = set()

        def forget(task: asyncio.Task[Any]) -> None:
            work.discard(task)
            if not task.cancelled():
                task.exception()  # nobody waits for batches after one that was refused: asyncio would log them

        async def read() -> None:
            try:
                while (request := await visit.next_message()) is not None:
                    task = asyncio.create_task(self._answer(request, visit))
                    work.add(task)
                    task.add_done_callback(forget)
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

    async def _answer(self, request: wire.ConsultRequest, visit: Visit) -> wire.Answer:
        question = visit.refusing(self._asked, request, visit.name)
        visit.question = question.origin.question
        self._check_fields(request, visit)
        visit.points("consult", question.points, request.ByteSize())
        try:
            until = None if request.way in ("", SOLVE) else Until(request.tolerance, request.rounds)
            answered = await self._answering.answer(visit.name, question, until)
        except TooFew as error:
            visit.refuse("quorum", StatusCode.UNAVAILABLE, str(error))
        except NotPooled as error:
            visit.refuse("evidence", StatusCode.FAILED_PRECONDITION, str(error))
        except AgentError as error:
            visit.refuse("model", StatusCode.INTERNAL, str(error))
        except InvalidInput as error:
            visit.refuse("malformed", StatusCode.INVALID_ARGUMENT, str(error))
        except Exceeded as exceeded:
            visit.refuse(exceeded.limit, StatusCode.RESOURCE_EXHAUSTED, str(exceeded))
        if question.view == OWN and visit.name != self._name:
            answered = self._redact(answered, visit.name)
        visit.check_admission()
        answer = encode_answer(answered, self._circle.scores.seat.agent.outputs)
        visit.record_answer("consult", len(question.points), answer.ByteSize(), question.origin)  # which has no salt
        return answer

    def _redact(self, answered: NodeAnswer, name: str) -> NodeAnswer:
        """An answer from the own view for others than the node itself.

        What was mixed tells of errors on the node's rows. Why a model is missing may tell its owner of the rows on
        which a copy of it failed.
        """
        choice = answered.choice if "weights" in self._granted(name) else None
        flags = (replace(flag, reason=NOT_ASKED) if flag.kind == MISSING else flag for flag in answered.flags)
        return replace(answered, choice=choice, flags=tuple(flags))

    def _granted(self, name: str) -> frozenset[str]:
        """The fields of answers that a caller may see."""
        return self._circle.configuration.fields.get(name, frozenset())

    def _check_fields(self, request: wire.ConsultRequest, visit: Visit) -> None:
        """End the call of somebody who asks for what they may not see."""
        granted = self._granted(visit.name)
        wanted = dict.fromkeys(GRANT_OF.get(name, name) for name in request.fields)
        wanted |= {INTERVAL: None} if request.HasField("coverage") else {}
        lacking = [name for name in wanted if name not in granted]
        if request.correct and visit.name != self._name:
            told = f"Corrected answers, which tell more of labels, must be asked for by {self._name!r} itself."
            visit.refuse("correct", StatusCode.PERMISSION_DENIED, told)
        if lacking:
            may = ", ".join(map(repr, sorted(granted))) or "nothing"
            wanted_fields = ", ".join(map(repr, lacking))
            told = f"{visit.name!r} must be granted {wanted_fields} at {self._name!r}; it may see: {may}."
            visit.refuse("fields", StatusCode.PERMISSION_DENIED, told)

    @property
    def _name(self) -> str:
        return self._circle.configuration.name

    def _asked(self, request: wire.ConsultRequest, caller: str) -> NodeQuestion:
        """What is asked, if it makes sense."""
        check_protocol(request.protocol)
        check_way(request.way or SOLVE)
        if request.way == ROUNDS and not (0.0 <= request.tolerance < 1.0 and 0 < request.rounds <= MOST):
            raise Malformed(
                f"Rounds must have a tolerance from 0 to 1 and a number from 1 to {MOST}; "
                f"got {request.tolerance} and {request.rounds}."
            )
        seat, view = self._circle.scores.seat, request.view or OWN
        check_asker(request.asker, self._circle)
        check_view(view, request.way or SOLVE)
        schema = seat.agent.schema
        if request.schema_digest:
            check_digest(request.schema_digest, schema)
        points = array(request.points, (None, None), "points", finite=schema is None)
        check_columns(points, list(request.feature_names), seat)
        if schema is not None:
            schema.check_numbers(points, "points")
        absent = decode_absent(request.absent, points, schema)
        fields = check_fields(list(request.fields), ASKER_FIELDS if view == OWN else FIELDS)
        coverage = request.coverage if request.HasField("coverage") else None
        check_coverage(coverage, view)
        if request.correct and view != OWN:
            raise InvalidInput("`correct` must be asked for with a node's own view; got the consensus.")
        number = check_question(request.question) or draw_question()
        origin = Origin(number, caller, check_purpose(request.purpose))
        return NodeQuestion(points, fields, seat.guarded, coverage, view, request.correct, origin, absent)

    def _asked_points(self, message: wire.PredictRequest | wire.Question) -> Array:
        """The points that a peer asks about, if it speaks the same protocol, and has as many features."""
        check_protocol(message.protocol)
        agent = self._circle.scores.seat.agent
        check_digest(message.schema_digest, agent.schema)
        return decode_points(message.points, agent.schema, agent.n_features)

    async def _prediction(self, number: int, points: Array, question: str) -> wire.Prediction:
        try:
            return encode_prediction(await self._circle.prediction(points), number)
        except DeGrootError as error:
            self._log.warning("no prediction", question=question, reason=str(error))
            return wire.Prediction(id=number, fault=told_to_peers(error))

    async def _opinion(self, question: wire.Question, points: Array) -> wire.OpinionReply:
        try:
            opinion = await self._circle.opinion(points, spread=question.spread, guard=question.guard)
            return encode_opinion(opinion, question.id)
        except DeGrootError as error:
            self._log.warning("no opinion", question=question.origin.question, reason=str(error))
            return wire.OpinionReply(id=question.id, fault=told_to_peers(error))


async def read_fetch(visit: Visit, kind: str) -> tuple[Origin, bytes]:
    """Where a request for a copy or a map comes from, and its bytes."""
    request = await visit.next_message()
    visit.refusing(check_protocol, 0 if request is None else request.protocol)
    origin, body = visit.refusing(decode_origin, request.origin, visit.name), request.SerializeToString()
    visit.message(kind, 0, len(body))
    return origin, body


def check_asker(asker: str, circle: Peers) -> None:
    """Raise where a question is in another member's name: its own node answers that, from its own rows."""
    me, links = circle.configuration.name, circle.links
    if asker in ("", me):
        return
    if asker in links:
        raise InvalidInput(
            f"A node answers for itself only, and this is {me!r}; for {asker[:100]!r} ask its own node, at "
            f"{links[asker].peer.address}."
        )
    raise InvalidInput(f"`asker` must be the asked node, {me!r}; got {asker[:100]!r}.")
