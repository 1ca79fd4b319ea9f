"""Links: the way to one peer, and what is known of it."""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import grpc
from grpc import StatusCode
from tritonclient.grpc import service_pb2_grpc

from degroot.compute.compiled import Array
from degroot.exceptions import DeGrootError
from degroot.node.config import OPINION, Limits, Peer
from degroot.node.config.names import NAME
from degroot.node.copies.bundle import OVERHEAD_BYTES
from degroot.node.errors import (
    LEFT,
    BadReply,
    CertificateLapsed,
    PeerError,
    PeerRefused,
    PeerUnreachable,
    from_rpc,
    is_unimplemented,
    late,
    left,
)
from degroot.node.peers.retry import retry_when_limited
from degroot.node.peers.stream import QuestionStream
from degroot.node.protocol import version2
from degroot.node.protocol.codec import PROTOCOL, draw_question, encode_origin
from degroot.node.protocol.schemas import ModelInputs, find_schema_difference
from degroot.node.protocol.v3 import collective_pb2 as wire
from degroot.node.protocol.v3 import collective_pb2_grpc
from degroot.node.records.chain import NO_ORIGIN, OUT, Origin, digest_exchange
from degroot.node.records.ledger import Ledger, LedgerError
from degroot.node.records.metrics import Metrics
from degroot.node.records.receipts import RECEIPT, Receipts
from degroot.node.server import model_service
from degroot.node.server.threads import run_in_thread
from degroot.node.tls.credentials import Lapsed, NodeCredentials
from degroot.schema import Schema

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
RETRY_PROTOCOL_SECONDS = 600.0  # between attempts to speak the present version with a peer of the one before
UNTRIED = "not reached yet"
LAPSE_SECONDS = 0.5  # after a certificate has ended: then the peer is looked at
LOOK_SECONDS = 3600.0  # between looks at a peer's certificate

Question = wire.Question | wire.PredictRequest


@dataclass(frozen=True, slots=True)
class LinkContext:
    """What all links of a node have in common."""

    me: str
    credentials: NodeCredentials | None  # None: without TLS, on loopback only
    limits: Limits
    deadline: float  # seconds
    ledger: Ledger
    metrics: Metrics
    receipts: Receipts | None = None  # None: without certificates nothing is signed
    instance: str = ""  # of this process
    roster_number: Callable[[], int] = lambda: 0  # of the signed roster that this node has

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
            ("grpc.enable_http_proxy", 0),  # nor does `look_at` use one: what is looked at is what is called
            ("grpc.use_local_subchannel_pool", 1),  # a new channel makes a new connection: certificates are checked
        ]
        if self.credentials is None:
            return grpc.aio.insecure_channel(peer.address, options)
        options.append(("grpc.ssl_target_name_override", peer.name))
        return grpc.aio.secure_channel(peer.address, self.credentials.channel_credentials(), options)


def make_stub(channel: Any, protocol: int) -> Any:
    """The methods of a node over a channel, in a version of the protocol."""
    stub: Any = collective_pb2_grpc.CollectiveStub if protocol == PROTOCOL else version2.CollectiveStub
    return stub(channel)


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
        self._free: dict[str, list[QuestionStream]] = {OPINION: [], PREDICTION: []}  # open, and nothing is asked
        self._tasks: set[asyncio.Task[None]] = set()  # channels that are watched, and those on which the last calls end
        self._generation = 0  # of this node's credentials, with which the channel was made
        self._open(PROTOCOL)
        self._protocol_tried = time.monotonic()
        self.certificate_ends: datetime | None = None  # the peer's; None: it was not looked at
        self._looked = -math.inf  # when it was looked at
        self._most_questions = max(1, wiring.limits.concurrent_calls // 2)  # at once; the peer's limits are like ours
        self._turns, self._questions = asyncio.Semaphore(self._most_questions), 0
        self.description: wire.Description | None = None
        self.version = ""  # of the peer's model, when it was last heard of
        self.inputs = ModelInputs()  # what that takes of the columns
        self.fault: PeerError | None = PeerUnreachable(peer.name, UNTRIED)  # why it cannot be asked
        self.setback: DeGrootError | None = None  # why its model could not be scored when that was last tried
        self.progress = 0.0  # of calibration
        self._called_from = ""  # the instance of the peer that last called while it could not be reached
        self.duplicate = ""  # where another process of this node's name was seen by the peer
        self.unconfirmed = ""  # why there is no receipt for the last exchanges, if there is none
        self.pace = Latency()
        self._closed, self._woken = False, asyncio.Event()  # woken: there is a reason to look at the peer now
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
            self._renew_connection()
            if isinstance(self.fault, CertificateLapsed):
                await self._check_certificate()
            description = await self._describe()
            self.pace.took(time.perf_counter() - begun)
            await self._check_certificate()
            await self._check_schema(description, schema)
            accept(description)
        except PeerError as error:
            self.fault = self._explain(error)
            if self.fault is error:
                raise
            raise self.fault from error
        self.description, self.version, self.fault = description, description.model_version, None
        self.inputs = ModelInputs.from_message(description, description.feature_names)

    async def _describe(self, *, schema: bool = False) -> wire.Description:
        """What the peer says of itself, in the newest version of the protocol that it speaks.

        One that speaks the version before may have been upgraded: that is tried now and then, and questions go on in
        the version that it is known to speak.
        """
        request = wire.DescribeRequest(
            protocol=PROTOCOL, schema=schema, roster=self._wiring.roster_number(), instance=self._wiring.instance
        )
        self._wiring.ledger.count(self.name, DESCRIBE, OUT, request.ByteSize(), 0)
        now = time.monotonic()
        is_due = self.fault is not None or now - self._protocol_tried > RETRY_PROTOCOL_SECONDS
        if self.protocol == PROTOCOL or is_due:
            self._protocol_tried = now
            try:
                return await self._describe_in(PROTOCOL, request)
            except PeerRefused as error:
                if not is_unimplemented(error):
                    raise
        return await self._describe_in(version2.NUMBER, request)

    async def _describe_in(self, protocol: int, request: wire.DescribeRequest) -> wire.Description:
        collective = self._collective if protocol == self.protocol else make_stub(self._channel, protocol)
        description: wire.Description = await self._call(collective.Describe, request)
        if protocol != self.protocol:
            self._speak(protocol)
        return description

    def _explain(self, error: PeerError) -> PeerError:
        """The same failure, or why it came: with a certificate that has ended this node is let in nowhere."""
        if not isinstance(error, PeerUnreachable):
            return error
        self._looked = -math.inf  # another process may be there when it comes back
        credentials = self._wiring.credentials
        if credentials is None or datetime.now(UTC) <= credentials.expires:
            return error
        return CertificateLapsed(
            self.name, f"this node's own certificate expired on {credentials.expires:%Y-%m-%d %H:%M} UTC"
        )

    def encode(self, message: Any) -> bytes:
        """A message as it is sent to the peer, in the version of the protocol that it speaks."""
        return bytes(message.SerializeToString()) if self.protocol == PROTOCOL else version2.encode(message)

    async def _check_certificate(self) -> None:
        """Raise, and end what is open, if the peer's certificate is no longer valid; it is looked at when that is due.

        That is: from time to time, after the peer was away, when the certificate has ended that connections were made
        with, and when this node's credentials or the roster have changed.
        """
        credentials, ends, now = self._wiring.credentials, self.certificate_ends, time.monotonic()
        if credentials is None:
            return
        has_ended, age = ends is not None and datetime.now(UTC) > ends, now - self._looked
        if not has_ended and age < LOOK_SECONDS:
            return
        try:
            certificate = await credentials.look_at(self.peer.address, self.name, self._wiring.deadline)
        except Lapsed as error:
            self.certificate_ends, self._looked = None, -math.inf
            self.reconnect()
            raise CertificateLapsed(self.name, str(error)) from error
        except (OSError, TimeoutError) as error:
            if not has_ended and age < 2 * LOOK_SECONDS:  # it answers: the next time will do
                return
            raise PeerUnreachable(self.name, "unreachable (its certificate could not be looked at)") from error
        shown = certificate.not_valid_after_utc
        if ends is not None and shown != ends:  # connections are those of its certificate before
            self.reconnect()
        self.certificate_ends, self._looked = shown, now

    def _renew_connection(self) -> None:
        """Go on over a new connection, and look at the peer's certificate, if the credentials here have changed."""
        credentials = self._wiring.credentials
        if credentials is None or credentials.generation == self._generation:
            return
        self.reconnect()
        self.certificate_ends, self._looked = None, -math.inf

    def reconnect(self) -> None:
        """Go on over a new connection; what is asked over the old one is answered there."""
        self._end_all()
        self._begin(self._channel.close(self._wiring.deadline))
        self._open(self.protocol)

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
        body = self.encode(request)
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

    async def rest(self, seconds: float) -> None:
        """Wait before the peer is looked at again: so long, or until there is a reason to look at it now."""
        if self.certificate_ends is not None:
            left = (self.certificate_ends - datetime.now(UTC)).total_seconds()
            seconds = min(seconds, max(left, 0.0) + LAPSE_SECONDS)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        self._woken.clear()

    def wake(self) -> None:
        """Have the peer looked at now: what is known of it may be outdated."""
        self._woken.set()

    def try_again(self, instance: str) -> None:
        """Reach for the peer now if it could not be reached: a process of it has called, and is there.

        Over a new connection, since gRPC would wait before it tries the old one again; once for each process.
        """
        is_away = isinstance(self.fault, PeerUnreachable) and self.fault.reason != UNTRIED
        if is_away and instance not in ("", self._called_from):
            self._called_from = instance
            self.reconnect()
            self.wake()

    async def close(self) -> None:
        """Hang up."""
        self._closed = True
        self._end_all()
        await self._channel.close()
        for task in self._tasks:
            task.cancel()

    def _open(self, protocol: int) -> None:
        if self._wiring.credentials is not None:
            self._generation = self._wiring.credentials.generation
        self._channel = self._wiring.channel(self.peer)
        self._begin(self._watch_connection(self._channel))
        self._model = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)
        self._speak(protocol)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _watch_connection(self, channel: grpc.aio.Channel) -> None:
        """Have the peer looked at whenever the connection to it is lost, as long as there is the channel."""
        state = channel.get_state()
        with suppress(grpc.aio.UsageError):  # the channel was closed meanwhile
            while state is not grpc.ChannelConnectivity.SHUTDOWN:
                await channel.wait_for_state_change(state)
                before, state = state, channel.get_state()
                if before is grpc.ChannelConnectivity.READY:
                    self._looked = -math.inf  # another certificate may be shown when it is there again
                    self.wake()

    def _speak(self, protocol: int) -> None:
        """Go on in a version of the protocol."""
        self.protocol = protocol
        self._collective = make_stub(self._channel, protocol)
        self._methods = {OPINION: self._collective.Opinion, PREDICTION: self._collective.Predict}
        self._end_all()

    async def _ask_open_stream(self, question: Question, kind: str, until: float) -> Any:
        """The reply over a stream that is free; or over a new one, where the peer has closed it for its silence.

        It has to come by `until`, as `time.perf_counter` counts.
        """
        stream, reply = self._spare(kind), None
        methods = self._methods
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
            methods = self._methods  # by now they may be those of another channel
            stream = QuestionStream(methods[kind](metadata=self._metadata()))
            reply = await stream.ask(question, until - time.perf_counter())
        if reply is None or reply.id != question.id:
            stream.end()
            answered = "with no message of the protocol" if reply is None else f"question {reply.id}"
            raise BadReply(self.name, f"answers {answered}, not question {question.id}")
        free = self._free[kind]
        if len(free) < SPARE and not self._closed and methods is self._methods:  # not those of another channel
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
