"""Links: the way to one peer, and what is known of it."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import grpc
from grpc import StatusCode
from tritonclient.grpc import service_pb2_grpc

from degroot.compute.compiled import Array
from degroot.exceptions import DeGrootError
from degroot.node.config import OPINION, Limits, Peer
from degroot.node.copies.bundle import OVERHEAD_BYTES
from degroot.node.errors import LEFT, BadReply, PeerError, PeerRefused, PeerUnreachable, from_rpc, late, left
from degroot.node.peers.retry import retry_when_limited
from degroot.node.protocol.codec import PROTOCOL, draw_question, encode_origin
from degroot.node.protocol.schemas import ModelInputs, find_schema_difference
from degroot.node.protocol.v2 import collective_pb2 as wire
from degroot.node.protocol.v2 import collective_pb2_grpc
from degroot.node.records.chain import NO_ORIGIN, OUT, Origin, digest_exchange
from degroot.node.records.ledger import Ledger, LedgerError
from degroot.node.records.metrics import Metrics
from degroot.node.records.receipts import RECEIPT, Receipts
from degroot.node.server import model_service
from degroot.node.server.access import NAME
from degroot.node.server.threads import run_in_thread
from degroot.node.time_limit import TimeLimit
from degroot.schema import Schema


async def write_first(call: Any, message: Any) -> None:
    """Send the first message of a stream.

    gRPC's own `write` waits for ever if the stream is cancelled before it is open, as it is when the channel is closed;
    this raises `CancelledError` then, as all else does for a stream that is cancelled.
    """
    opening = asyncio.ensure_future(call.wait_for_connection())
    call.add_done_callback(lambda _: opening.cancel())
    await asyncio.gather(opening, return_exceptions=True)
    if call.cancelled():
        raise asyncio.CancelledError
    if call.done():
        raise await read_ending(call)
    await call.write(message)


async def read_ending(call: Any) -> grpc.RpcError:
    """Why a stream has ended to which something was to be written."""
    code, details = await call.code(), await call.details()
    if code is grpc.StatusCode.OK:
        code, details = grpc.StatusCode.UNAVAILABLE, "connection lost"
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details=details)


class QuestionStream:
    """An open stream, on which one question at a time is asked.

    A read is always outstanding, so that a reply is taken in while this node computes.
    """

    def __init__(self, call: Any) -> None:
        self._call, self._limit, self._loop = call, TimeLimit(), asyncio.get_running_loop()
        self._reading: asyncio.Task[None] | None = None
        self._reply: asyncio.Future[Any] | None = None  # to the question that is asked

    @property
    def over(self) -> bool:
        """Whether it has ended: nothing can be sent any more."""
        return bool(self._call.done())

    async def ask(self, question: Any, seconds: float) -> Any:
        """Put a question, and wait for the reply, so long at most; after a failure the stream is ended."""
        try:
            with self._limit.within(seconds):
                if self._reading is None:
                    await write_first(self._call, question)
                    reply = self._reply = self._loop.create_future()
                    self._reading = self._loop.create_task(self._read())
                else:
                    reply = self._reply = self._loop.create_future()
                    await self._call.write(question)
                return await reply
        except asyncio.InvalidStateError:  # the stream ended before it was written to
            ending = await read_ending(self._call)
            self.end()
            raise ending from None
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        """Ask nothing more."""
        self._limit.close()
        self._call.cancel()
        if self._reading is not None:
            self._reading.cancel()
        if self._reply is not None:
            self._reply.cancel()  # or asyncio would log a failure that nobody waited for

    async def _read(self) -> None:
        """Hand over replies as they come, until the stream ends; one that nobody waits for ends it, and is not kept."""
        failure: BaseException | None = None
        try:
            while (reply := await self._call.read()) is not grpc.aio.EOF:
                if self._reply is None or self._reply.done():
                    break
                self._reply.set_result(reply)
                self._reply = None
            else:
                failure = await read_ending(self._call)
        except grpc.RpcError as error:
            failure = error
        finally:
            self._call.cancel()
            if self._reply is not None and not self._reply.done():
                if failure is None:
                    self._reply.cancel()
                else:
                    self._reply.set_exception(failure)


KEPT = 60  # answers


class Latency:
    """The last answers of a peer."""

    __slots__ = ("_seconds", "seen")

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=KEPT)
        self.seen: float | None = None  # seconds since 1970

    def took(self, seconds: float) -> None:
        """It has just answered, after so long."""
        self._seconds.append(seconds)
        self.seen = time.time()

    @property
    def seconds(self) -> Sequence[float]:
        """How long the last answers took, the newest at the end."""
        return tuple(self._seconds)


# what questions, copies, maps and heartbeats are called in ledgers
PREDICTION, COPIED, PUSHED, MAP = "prediction", "copy", "pushed copy", "evidence map"
DESCRIBE, POOL = "describe", "pool"
SPARE = 4  # streams of a kind that are kept open while nothing is asked
SCHEMA_SECONDS = 60.0  # between looks at the text of a peer's schema that differs from this node's
CHUNK_BYTES = 900_000  # of a bundle in one message, below the least `limits.message_bytes` that there can be

Question = wire.Question | wire.PredictRequest


@dataclass(frozen=True, slots=True)
class LinkContext:
    """What all links of a node have in common."""

    me: str
    credentials: Any  # None: without TLS, on loopback only
    limits: Limits
    deadline: float  # seconds
    ledger: Ledger
    metrics: Metrics
    receipts: Receipts | None = None  # None: without certificates nothing is signed

    def record(self, peers: Sequence[str], kind: str, rows: int, sent: int, origin: Origin = NO_ORIGIN) -> None:
        """Record what is about to leave; if that cannot be, it stays."""
        self.ledger.record_all(peers, kind, OUT, rows, sent, 0, origin)

    def record_replies(
        self, kind: str, rows: int, request: bytes, replies: Iterable[tuple[str, bytes]], origin: Origin
    ) -> None:
        """Record what peers have replied to a request; their receipts for it follow later."""
        found = [
            (peer, len(reply), digest_exchange(self.me, peer, kind, rows, origin.question, request, reply))
            for peer, reply in replies
        ]
        with suppress(LedgerError):  # what came is there; nothing more leaves until it can be recorded
            for record in self.ledger.record_replies(kind, found, origin):
                if self.receipts is not None:
                    self.receipts.note_received(record.peer, record)

    def channel(self, peer: Peer) -> grpc.aio.Channel:
        """A channel to a peer whose certificate has to have its name."""
        options: list[tuple[str, Any]] = [
            ("grpc.max_send_message_length", -1),
            ("grpc.max_receive_message_length", self.limits.message_bytes),
            ("grpc.initial_reconnect_backoff_ms", 200),
            ("grpc.max_reconnect_backoff_ms", 2000),
            ("grpc.keepalive_time_ms", 30_000),
            ("grpc.enable_retries", 0),
        ]
        if self.credentials is None:
            return grpc.aio.insecure_channel(peer.address, options)
        options.append(("grpc.ssl_target_name_override", peer.name))
        return grpc.aio.secure_channel(peer.address, self.credentials, options)


def cut_bundle(encoded: bytes, origin: wire.Origin | None = None) -> Iterator[wire.CopyChunk]:
    """A bundle in chunks, of which the first says which protocol it is, and where it comes from."""
    for start in range(0, len(encoded), CHUNK_BYTES):
        content = encoded[start : start + CHUNK_BYTES]
        first = wire.CopyChunk(protocol=PROTOCOL, content=content, origin=origin)
        yield wire.CopyChunk(content=content) if start else first


class Link:
    """One peer: its channel, what it last said of itself, and whether it can be asked."""

    def __init__(self, peer: Peer, wiring: LinkContext) -> None:
        self.name, self.peer, self._wiring = peer.name, peer, wiring
        self._channel = wiring.channel(peer)
        self._collective = collective_pb2_grpc.CollectiveStub(self._channel)  # type: ignore[no-untyped-call]
        self._model = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)
        self._methods = {OPINION: self._collective.Opinion, PREDICTION: self._collective.Predict}
        self._free: dict[str, list[QuestionStream]] = {kind: [] for kind in self._methods}  # open, and nothing is asked
        self._most_questions = max(1, wiring.limits.concurrent_calls // 2)  # at once; the peer's limits are like ours
        self._turns, self._questions = asyncio.Semaphore(self._most_questions), 0
        self.description: wire.Description | None = None
        self.version = ""  # of the peer's model, when it was last heard of
        self.inputs = ModelInputs()  # what that takes of the columns
        self.fault: PeerError | None = PeerUnreachable(peer.name, "not reached yet")  # why it cannot be asked
        self.setback: DeGrootError | None = None  # why its model could not be scored when that was last tried
        self.progress = 0.0  # of calibration
        self.unconfirmed = ""  # why there is no receipt for the last exchanges, if there is none
        self.pace = Latency()
        self._closed = False
        self._difference: tuple[str, float, str] | None = None  # of schemas: the peer's digest, when, and what differs

    @property
    def trouble(self) -> str | None:
        """Why it cannot be asked now, if it cannot."""
        return None if self.fault is None else self.fault.reason

    @property
    def setback_reason(self) -> str | None:
        """Why its model could not be scored when that was last tried, in words."""
        error = self.setback
        return None if error is None else error.reason if isinstance(error, PeerError) else str(error)

    async def describe(self, accept: Callable[[wire.Description], None], schema: Schema | None = None) -> None:
        """Ask the peer who it is; `accept` raises if it cannot take part. `schema`: this node's."""
        begun = time.perf_counter()
        try:
            description = await self._describe()
            self.pace.took(time.perf_counter() - begun)
            await self._check_schema(description, schema)
            accept(description)
        except PeerError as error:
            self.fault = error
            raise
        self.description, self.version, self.fault = description, description.model_version, None
        self.inputs = ModelInputs.from_message(description, description.feature_names)

    async def _describe(self, *, schema: bool = False) -> wire.Description:
        request = wire.DescribeRequest(protocol=PROTOCOL, schema=schema)
        self._wiring.ledger.count(self.name, DESCRIBE, OUT, request.ByteSize(), 0)
        description: wire.Description = await self._call(self._collective.Describe, request)
        return description

    async def _check_schema(self, description: wire.Description, schema: Schema | None) -> None:
        """Refuse a peer with another schema, with what differs: its text is looked at now and then only."""
        if description.schema_digest == ("" if schema is None else schema.digest):
            self._difference = None
            return
        known, now = self._difference, time.monotonic()
        if known is None or (known[0] != description.schema_digest and now - known[1] > SCHEMA_SECONDS):
            told = await self._describe(schema=True)
            reason = await run_in_thread(find_schema_difference, schema, told)
            known = self._difference = description.schema_digest, now, reason or ""
        reason = known[2] if known[0] == description.schema_digest else find_schema_difference(schema, description)
        if reason:
            raise PeerRefused(self.name, reason)

    async def ask(self, question: Question, kind: str) -> Any:
        """What the peer says of points; if it cannot be used it is not asked again until it has described itself."""
        until = time.perf_counter() + self._wiring.deadline
        self._questions += 1
        try:
            if self._questions > self._most_questions:
                async with asyncio.timeout(self._wiring.deadline):
                    await self._turns.acquire()
            else:
                await self._turns.acquire()  # at once
            begun = time.perf_counter()
            try:
                reply = await self._ask_open_stream(question, kind, until)
            finally:
                self._turns.release()
        except TimeoutError:
            raise self._troubled(late(self.name, self._wiring.deadline)) from None
        except asyncio.CancelledError as error:
            raise left(self.name, error) from error
        except grpc.RpcError as error:
            failure, call = from_rpc(self.name, error, self._wiring.deadline), _as_any(error)
            raise failure if call.code() is StatusCode.RESOURCE_EXHAUSTED else self._troubled(failure) from error
        finally:
            self._questions -= 1
        self.pace.took(time.perf_counter() - begun)
        if reply.fault:
            raise PeerRefused(self.name, f"cannot answer: {reply.fault[:300]}")
        return reply

    async def infer(self, points: Array, version: str, digest: str = "") -> Any:
        """What the peer's model says of points, by the schema with this digest; over a limit, later."""
        kind, rows = model_service.MODEL_QUERY, len(points)
        origin = Origin(draw_question(), self._wiring.me, model_service.SCORING)
        request = model_service.request(self.name, version, points, origin.question, digest)
        body = request.SerializeToString()

        async def once() -> Any:
            self._record(kind, rows, len(body), origin)
            answer = await self._call(self._model.ModelInfer, request)
            self._record_reply(kind, rows, body, answer.SerializeToString(), origin)
            return answer

        return await retry_when_limited(once)

    async def fetch_copy(self, most_bytes: int) -> bytes:
        """The peer's model, of at most so many bytes, as a signed bundle."""
        more = f"its model has more than {most_bytes} bytes (limits.copy_bytes)"
        return await self._fetch(self._collective.FetchCopy, COPIED, most_bytes + OVERHEAD_BYTES, more)

    async def fetch_map(self, most_bytes: int) -> bytes:
        """The peer's evidence map, of at most so many bytes."""
        more = f"its evidence map has more than {most_bytes} bytes"
        return await self._fetch(self._collective.FetchMap, MAP, most_bytes, more)

    async def _fetch(self, method: Any, kind: str, most: int, more: str) -> bytes:
        """What the peer sends in chunks, of at most so many bytes; `more`: what is wrong if there are more."""
        origin, encoded = Origin(draw_question(), self._wiring.me), bytearray()
        request = wire.FetchCopyRequest(protocol=PROTOCOL, origin=encode_origin(origin))
        body = request.SerializeToString()
        self._record(kind, 0, len(body), origin)
        seconds = self._wiring.deadline * (1 + most // CHUNK_BYTES)
        call = method(iter([request]), timeout=seconds, metadata=self._metadata())
        try:
            while (chunk := await self._next_chunk(call)) is not grpc.aio.EOF:
                encoded += chunk.content
                if not chunk.content:
                    raise BadReply(self.name, f"sends an empty part of its {kind}")
                if len(encoded) > most:
                    raise BadReply(self.name, more)
        finally:
            call.cancel()
        self._record_reply(kind, 0, body, bytes(encoded), origin)
        return bytes(encoded)

    async def _next_chunk(self, call: Any) -> Any:
        seconds = self._wiring.deadline
        try:
            async with asyncio.timeout(seconds):
                return await call.read()
        except TimeoutError:
            raise late(self.name, seconds) from None
        except grpc.RpcError as error:
            raise from_rpc(self.name, error, seconds) from error
        except asyncio.CancelledError as error:
            raise left(self.name, error) from error

    async def push_copy(self, encoded: bytes) -> str:
        """Give the peer this node's model; the version that it has taken in."""
        seconds = self._wiring.deadline * (1 + len(encoded) // CHUNK_BYTES)
        origin = Origin(draw_question(), self._wiring.me)
        self._record(PUSHED, 0, len(encoded), origin)
        about = encode_origin(origin)
        chunks = cut_bundle(encoded, about)
        try:
            receipt = await self._collective.PushCopy(chunks, timeout=seconds, metadata=self._metadata())
        except grpc.RpcError as error:
            raise from_rpc(self.name, error, seconds) from error
        except asyncio.CancelledError as error:
            raise left(self.name, error) from error
        self._record_reply(PUSHED, 0, about.salt + encoded, receipt.SerializeToString(), origin)
        return str(receipt.version)

    async def confirm(self, receipts: Receipts) -> list[str]:
        """State what is recorded here of the peer's answers, and keep its receipt; what that shows to be wrong."""
        statement = await run_in_thread(receipts.make_statement, self.name)
        self._wiring.ledger.count(self.name, RECEIPT, OUT, statement.ByteSize(), 0)
        reply = await self._call(self._collective.Confirm, statement)
        return await run_in_thread(receipts.accept, self.name, statement, reply)

    def pool(self) -> Any:
        """A stream for pooling with the peer."""
        return self._collective.Pool(metadata=self._metadata())

    def record_pooling(self, rows: int, sent: int, origin: Origin) -> None:
        """Record what is about to be sent in pooling."""
        self._record(POOL, rows, sent, origin)

    async def close(self) -> None:
        """Hang up."""
        self._closed = True
        self._end_all()
        await self._channel.close()

    async def _ask_open_stream(self, question: Question, kind: str, until: float) -> Any:
        """The reply over a stream that is free; or over a new one, where the peer has closed it for its silence.

        It has to come by `until`, as `time.perf_counter` counts.
        """
        stream, reply = self._spare(kind), None
        if stream is not None:
            try:
                reply = await stream.ask(question, until - time.perf_counter())
            except grpc.RpcError:
                stream = None
                origin = Origin(question.origin.question, question.origin.asker, question.origin.purpose)
                self._record(kind, question.points.shape[0], question.ByteSize(), origin)  # it is sent again
        if stream is None:
            if self._closed:
                raise PeerUnreachable(self.name, LEFT)
            stream = QuestionStream(self._methods[kind](metadata=self._metadata()))
            reply = await stream.ask(question, until - time.perf_counter())
        if reply is None or reply.id != question.id:
            stream.end()
            answered = "with no message of the protocol" if reply is None else f"question {reply.id}"
            raise BadReply(self.name, f"answers {answered}, not question {question.id}")
        free = self._free[kind]
        if len(free) < SPARE and not self._closed:
            free.append(stream)
        else:
            stream.end()
        return reply

    def _spare(self, kind: str) -> QuestionStream | None:
        """A stream that is still open, if there is one; those that are not are forgotten."""
        while self._free[kind]:
            stream = self._free[kind].pop()
            if not stream.over:
                return stream
        return None

    async def _call(self, method: Any, request: Any) -> Any:
        seconds = self._wiring.deadline
        try:
            return await method(request, timeout=seconds, metadata=self._metadata())
        except grpc.RpcError as error:
            raise from_rpc(self.name, error, seconds) from error
        except asyncio.CancelledError as error:
            raise left(self.name, error) from error

    def _troubled(self, error: PeerError) -> PeerError:
        self.fault = error
        self._end_all()
        return error

    def _end_all(self) -> None:
        for free in self._free.values():
            while free:
                free.pop().end()

    def _record(self, kind: str, rows: int, sent: int, origin: Origin) -> None:
        self._wiring.record([self.name], kind, rows, sent, origin)

    def _record_reply(self, kind: str, rows: int, request: bytes, reply: bytes, origin: Origin) -> None:
        self._wiring.record_replies(kind, rows, request, [(self.name, reply)], origin)

    def _metadata(self) -> Sequence[tuple[str, str]]:
        return ((NAME, self._wiring.me),) if self._wiring.credentials is None else ()


def _as_any(error: Any) -> Any:
    """A failed call: its type does not say that it has a code."""
    return error
