"""Access: who is calling, what they may, how much of it, and the record of what they were given."""

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn, TypeVar

import grpc
from google.protobuf.message import DecodeError
from grpc import StatusCode

from degroot.compute.compiled import Array
from degroot.exceptions import DeGrootError, InvalidInput
from degroot.node.config import ASK, Limits
from degroot.node.config.names import NAME
from degroot.node.peers.retry import DAILY
from degroot.node.protocol.codec import UnknownMembers, UnknownVersion
from degroot.node.records.chain import IN, NO_ORIGIN, Origin, digest_exchange
from degroot.node.records.ledger import DAY, Ledger, LedgerError
from degroot.node.records.metrics import Metrics
from degroot.node.records.own_rows import OwnRowsWatch
from degroot.node.records.receipts import Receipts
from degroot.node.time_limit import TimeLimit
from degroot.node.tls.credentials import NodeCredentials

UNANSWERED = "unanswered"  # in ledgers: rows that came with a request that was refused, or could not be answered
LINES = 2.0  # refusals that are logged, a second, beside each caller's first for a reason
UNNAMED = "no name"  # in logs: a caller whose certificate has no name
LINGER = 0.5  # seconds in which the next message has to come when the node is closing
NAMES = 1024  # how many peers and clients have an allowance at the same time

Clock = Callable[[], float]
Roster = Callable[[], Mapping[str, frozenset[str]]]
Budgets = Callable[[], Mapping[str, int]]  # rows a day, by name
Result = TypeVar("Result")


class Exceeded(DeGrootError):
    """More came than a limit allows."""

    def __init__(self, limit: str, message: str) -> None:
        super().__init__(limit, message)
        self.limit = limit  # its name in the configuration
        self.message = message

    def __str__(self) -> str:
        return self.message


class Refused(Exception):
    """What came with a call is refused: `Access.admitted` aborts the call.

    gRPC takes no status while a message is being sent, and only one. So nobody else aborts a call, and tasks that work
    for one raise this to whoever waits for them.

    Parameters
    ----------
    name : str or None
        Who calls; None unless in the roster.
    reason : str
        A few words for metrics and the log; empty: it is no misdeed, and neither counted nor logged.
    """

    def __init__(self, name: str | None, reason: str, code: StatusCode, told: str, question: str = "") -> None:
        super().__init__(told)
        self.name, self.reason, self.code, self.told, self.question = name, reason, code, told, question


class Bucket:
    """Tokens that come at a steady rate, and gather for a second when nobody takes them.

    In any t seconds at most ``rate * t + burst`` are taken, where ``burst = max(rate, 1)``.
    """

    __slots__ = ("_at", "_clock", "_tokens", "burst", "rate")

    def __init__(self, rate: float, clock: Clock) -> None:
        self.rate, self.burst = rate, max(rate, 1.0)
        self._clock, self._at, self._tokens = clock, clock(), self.burst

    def take(self, tokens: float) -> bool:
        """Take so many, if it holds as many now."""
        now = self._clock()
        held = self._tokens + self.rate * (now - self._at)
        self._at, held = now, held if held < self.burst else self.burst
        if tokens > held:
            self._tokens = held
            return False
        self._tokens = held - tokens
        return True

    def put_back(self, tokens: float) -> None:
        """Put back so many that were taken."""
        self._tokens += tokens


class Allowance:
    """What is left of one peer's limits."""

    __slots__ = ("_limits", "_requests", "_rows", "calls")

    def __init__(self, limits: Limits, clock: Clock = time.monotonic) -> None:
        self._limits, self.calls = limits, 0
        self._requests = Bucket(limits.requests_per_second, clock)
        self._rows = Bucket(limits.rows_per_second, clock)

    def enter(self) -> None:
        """Begin a call, which `leave` ends."""
        if self.calls >= self._limits.concurrent_calls:
            raise _exceeded("concurrent_calls", f"{self._limits.concurrent_calls} calls at a time", "one more came")
        self.calls += 1

    def leave(self) -> None:
        """End a call."""
        self.calls -= 1

    def take(self, rows: int) -> None:
        """Let a message with so many rows through; one that is refused takes nothing."""
        limits, rows = self._limits, max(rows, 0)
        if rows > limits.rows_per_request:
            raise _exceeded("rows_per_request", f"{limits.rows_per_request} rows in a request", f"{rows} came")
        if not self._requests.take(1):
            raise _exceeded("requests_per_second", f"{limits.requests_per_second:g} requests a second", "more came")
        if not self._rows.take(rows):
            self._requests.put_back(1)
            raise _exceeded("rows_per_second", f"{limits.rows_per_second:g} rows a second", f"{rows} more came")


class Allowances:
    """An allowance for each name; those that were not needed for longest make way for others."""

    def __init__(self, limits: Limits, clock: Clock = time.monotonic, names: int = NAMES) -> None:
        self.limits, self._clock, self._names = limits, clock, names
        self._by_name: OrderedDict[str, Allowance] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_name)

    def of(self, name: str) -> Allowance:
        """What is left for `name`."""
        allowance = self._by_name.get(name)
        if allowance is None:
            self._make_room()
            allowance = self._by_name[name] = Allowance(self.limits, self._clock)
        self._by_name.move_to_end(name)
        return allowance

    def _make_room(self) -> None:
        if len(self._by_name) < self._names:
            return
        idle = next((name for name, allowance in self._by_name.items() if allowance.calls == 0), None)
        if idle is None:
            raise _exceeded("names", f"{self._names} callers at a time", "one more came")
        del self._by_name[idle]


class DailyBudgets:
    """Rows that each peer and client has asked about today, in all requests together; a day is one of UTC.

    What was asked before the node started is taken from its ledger.
    """

    def __init__(self, budgets: Budgets, ledger: Ledger, clock: Clock = time.time) -> None:
        self._budgets, self._ledger, self._clock = budgets, ledger, clock
        self._day = int(clock() // DAY)
        self._used = ledger.count_rows_asked(self._day)

    def take(self, name: str, rows: int) -> None:
        """Let so many rows through; those that are refused are not counted."""
        day, budget = int(self._clock() // DAY), self._budgets().get(name)
        if day != self._day:  # as a rule a new one; a clock that is set may come back to one
            self._used = self._ledger.count_rows_asked(day)
            self._day = day
        used = self._used.get(name, 0)
        if budget is not None and rows > 0 and used + rows > budget:  # what has no rows passes
            raise _exceeded(DAILY, f"{budget} rows a day", f"{used} came before, and {rows} more")
        self._used[name] = used + max(rows, 0)


class RefusalLines:
    """Which refusals are logged: each caller's first for a reason and, of all others, `LINES` a second.

    The rest is counted. Firsts take nothing from what others may have.
    """

    def __init__(self, clock: Clock = time.monotonic, names: int = NAMES) -> None:
        self._bucket, self._names = Bucket(LINES, clock), names
        self._refused: OrderedDict[tuple[str, str], None] = OrderedDict()  # who was refused and why, the latest last
        self._suppressed = 0

    def take(self, name: str, reason: str = "") -> int | None:
        """How many were not logged since the last that was, if this one is to be; None: it is not."""
        key = name, reason
        is_first = key not in self._refused
        self._refused[key] = None
        self._refused.move_to_end(key)
        if len(self._refused) > self._names:
            self._refused.popitem(last=False)
        if not is_first and not self._bucket.take(1):
            self._suppressed += 1
            return None
        suppressed, self._suppressed = self._suppressed, 0
        return suppressed


def _exceeded(limit: str, allowed: str, came: str) -> Exceeded:
    return Exceeded(limit, f"At most {allowed} are allowed ({limit}); {came}.")


def caller(context: Any, insecure: bool = False) -> str | None:
    """Who is calling: the name in the certificate or, without certificates, the one that is claimed."""
    return identify(context, insecure)[0]


def identify(context: Any, insecure: bool = False) -> tuple[str | None, bytes]:
    """Who is calling, and the certificate that says so, in PEM; empty where there are none."""
    if insecure:
        names, certificates = [value for key, value in context.invocation_metadata() or () if key == NAME], ()
    else:
        shown = context.auth_context()
        names = [_text(name) for name in shown.get("x509_common_name", ())]
        certificates = shown.get("x509_pem_cert", ())
    name = names[0] if len(names) == 1 and isinstance(names[0], str) and names[0] else None
    return name, certificates[0] if certificates else b""


def find_host(context: Any) -> str:
    """Where a call comes from: ``ipv4:10.0.0.7:41822`` is 10.0.0.7."""
    return str(context.peer()).partition(":")[2].rpartition(":")[0].replace("%5B", "").replace("%5D", "").strip("[]")


@dataclass(frozen=True, slots=True)
class Access:
    """Lets callers in, as the roster and their limits allow.

    Parameters
    ----------
    name : str
        Whose node this is.
    roster : callable
        Gives who may do what, as it is now.
    insecure : bool
        Whether names are taken from the metadata: on loopback only, where there are no certificates.
    """

    name: str
    roster: Roster
    allowances: Allowances
    budgets: DailyBudgets
    watch: OwnRowsWatch
    ledger: Ledger
    metrics: Metrics
    insecure: bool = False
    open_visits: "set[Visit]" = field(default_factory=set)
    visits: Counter[str | None] = field(default_factory=Counter)  # how many are open, by right
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    receipts: Receipts | None = None  # None: without certificates nothing is signed
    credentials: NodeCredentials | None = None  # None: without certificates
    log: Any = None
    lines: RefusalLines = field(default_factory=RefusalLines)  # a flood is not logged line by line

    @asynccontextmanager
    async def admitted(self, context: Any, right: str | None) -> AsyncIterator["Visit"]:
        """A visit of whoever calls, who must have the `right` (None: any); what raises `Refused` aborts the call."""
        try:
            with self._visited(context, right) as visit:
                yield visit
        except Refused as refused:
            refused.__traceback__ = refused.__context__ = None  # frames would keep the messages of the call
            await self._abort(context, refused)

    @contextmanager
    def _visited(self, context: Any, right: str | None) -> Iterator["Visit"]:
        name, certificate = self._identify(context, right)
        if right == ASK and self.closing.is_set():
            raise self.make_closing_refusal(name)
        try:
            allowance = self.allowances.of(name)
            allowance.enter()
        except Exceeded as exceeded:
            raise Refused(name, exceeded.limit, StatusCode.RESOURCE_EXHAUSTED, str(exceeded)) from None
        visit = Visit(self, context, name, right, allowance, certificate)
        self.visits[right] += 1
        try:
            yield visit
        except LedgerError as error:
            told = f"{self.name!r} records every exchange, and cannot now: {error.reason}."
            raise Refused(name, "ledger", StatusCode.RESOURCE_EXHAUSTED, told) from None
        finally:
            self.visits[right] -= 1
            allowance.leave()
            visit.end()

    def close(self) -> None:
        """Take no new questions, and end all streams on which no message follows soon."""
        self.closing.set()
        for visit in self.open_visits:
            visit.shorten_wait(LINGER)

    def end_lapsed(self) -> None:
        """End the visits of callers whose certificates have expired or were revoked."""
        for visit in self.open_visits:
            if self.find_lapse(visit.certificate) is not None:
                visit.shorten_wait(0.0)

    def find_lapse(self, certificate: bytes) -> str | None:
        """Why a caller's certificate is no longer valid; None: it is, or there are none."""
        return None if self.credentials is None else self.credentials.find_caller_lapse(certificate)

    async def wait_for_answers(self, seconds: float) -> None:
        """Wait until all questions are answered, but not longer than so many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.visits[ASK]:
                    await asyncio.sleep(0.02)

    def log_exchange(self, name: str, kind: str, rows: int, origin: Origin) -> None:
        """Log that a member is answered for a question, whose number is in the logs and ledgers of all members."""
        if self.log is not None:
            about = {"question": origin.question, "caller": name, "asker": origin.asker, "kind": kind, "rows": rows}
            asyncio.get_running_loop().call_soon(partial(self.log.info, "exchange", **about))  # nobody waits for it

    async def _abort(self, context: Any, refused: Refused) -> NoReturn:
        """Abort a call, count that and, unless there are too many, log it."""
        if refused.reason:
            self.metrics.refused(refused.name, refused.reason)
            self._log_refusal(context, refused)
        await context.abort(refused.code, refused.told)
        raise RuntimeError("A call that is aborted must end.")  # `abort` raises

    def _log_refusal(self, context: Any, refused: Refused) -> None:
        who = caller(context, self.insecure) or UNNAMED
        suppressed = self.lines.take(who, refused.reason)
        if self.log is not None and suppressed is not None:
            more: dict[str, Any] = {"suppressed": suppressed} if suppressed else {}
            more |= {"question": refused.question} if refused.question else {}
            told = {"reason": refused.reason, "why": refused.told}
            self.log.warning("refused", caller=who[:100], host=find_host(context), **told, **more)

    def make_closing_refusal(self, name: str) -> Refused:
        """The refusal of a call because the node is closing."""
        return Refused(name, "closing", StatusCode.UNAVAILABLE, f"{self.name!r} is shutting down.")

    def _identify(self, context: Any, right: str | None) -> tuple[str, bytes]:
        name, certificate = identify(context, self.insecure)
        if name is None:
            where = f"the metadata {NAME!r}" if self.insecure else "a certificate"
            told = f"A caller must have a name, in {where}; none came."
            raise Refused(None, "no name", StatusCode.UNAUTHENTICATED, told)
        self.check_lapse(name, certificate)
        self.check_right(name, right)
        return name, certificate

    def check_lapse(self, name: str, certificate: bytes) -> None:
        """Refuse somebody whose certificate is no longer valid."""
        lapse = self.find_lapse(certificate)
        if lapse is not None:
            known, told = name if name in self.roster() else None, f"{name[:100]!r} is not let in: {lapse}."
            raise Refused(known, "certificate", StatusCode.UNAUTHENTICATED, told)

    def check_right(self, name: str, right: str | None) -> None:
        """Refuse somebody who is not in the roster, or has not the right."""
        rights = self.roster().get(name)
        if rights is None:
            told = f"{name[:100]!r} is not in the roster of {self.name!r}."
            raise Refused(None, "not in the roster", StatusCode.PERMISSION_DENIED, told)
        if right is not None and right not in rights:
            may = ", ".join(map(repr, sorted(rights))) or "nothing"
            told = f"{name!r} must have the right {right!r} at {self.name!r}; it may: {may}."
            raise Refused(name, f"may not {right}", StatusCode.PERMISSION_DENIED, told)


class Visit:
    """One call of a caller who was let in."""

    __slots__ = (
        "_access", "_allowance", "_came_bytes", "_came_kind", "_came_rows", "_context", "_heard", "_limit",
        "certificate", "name", "question", "right",
    )  # fmt: skip

    def __init__(
        self, access: Access, context: Any, name: str, right: str | None, allowance: Allowance, certificate: bytes
    ) -> None:
        self.name, self.right, self.certificate = name, right, certificate
        self.question = ""  # the number of the one that is being answered
        self._access, self._context, self._allowance = access, context, allowance
        self._came_kind, self._came_rows, self._came_bytes = "", 0, 0  # what came and was not answered yet
        self._heard = False  # whether a message has come
        self._limit = TimeLimit()
        access.open_visits.add(self)

    @property
    def host(self) -> str:
        """Where it comes from."""
        return find_host(self._context)

    def shorten_wait(self, seconds: float) -> None:
        """Let the next message, if it is waited for, take at most so much longer."""
        self._limit.shorten(seconds)

    async def next_message(self) -> Any:
        """The next message of the caller's stream, or None after the last; the call ends if it is long in coming."""
        access = self._access
        patience = access.allowances.limits.idle_seconds
        try:
            with self._limit.within(LINGER if access.closing.is_set() else patience):
                message = await self._context.read()
        except TimeoutError:
            access.check_lapse(self.name, self.certificate)
            if access.closing.is_set():
                raise access.make_closing_refusal(self.name) from None
            told = f"A message must come within {patience:g} seconds (idle_seconds); none came."
            reason = "" if self._heard else "idle_seconds"  # peers keep streams open: that is no misdeed
            self.refuse(reason, StatusCode.DEADLINE_EXCEEDED, told)
        except DecodeError:
            told = "A message must be one of the protocol; this is none."
            self.refuse("malformed", StatusCode.INVALID_ARGUMENT, told)
        if message is grpc.aio.EOF:
            return None
        self._heard = True
        self.check_admission()
        return message

    def check_admission(self) -> None:
        """Refuse the caller if it would not be let in any more: the roster and certificates change."""
        self._access.check_lapse(self.name, self.certificate)
        self._access.check_right(self.name, self.right)

    def message(self, kind: str, rows: int, received_bytes: int) -> None:
        """Let a message with so many rows in, or refuse it if that is over a limit."""
        try:
            self._allowance.take(rows)
            self._access.budgets.take(self.name, rows)
        except Exceeded as exceeded:
            self.refuse(exceeded.limit, StatusCode.RESOURCE_EXHAUSTED, str(exceeded))
        self.received(kind, received_bytes, rows)

    def points(self, kind: str, points: Array, received_bytes: int) -> None:
        """Let a message with points (M, d) in, as `message` does, and see whether they are the node's own rows."""
        self.message(kind, len(points), received_bytes)
        if self.name != self._access.name:
            self._access.watch.note(self.name, points)

    def received(self, kind: str, received_bytes: int, rows: int = 0) -> None:
        """Note what came of its own accord, in step with what was sent: it counts against no limit."""
        self._came_kind = kind
        self._came_rows += rows
        self._came_bytes += received_bytes

    def record_answer(
        self, kind: str, rows: int, sent_bytes: int, origin: Origin = NO_ORIGIN, digest: str = ""
    ) -> None:  # fmt: skip
        """Record an answer and all that came since the last one; to be called before it is sent."""
        access = self._access
        record = access.ledger.record(self.name, kind, IN, rows, sent_bytes, self._came_bytes, origin, digest)
        if digest and access.receipts is not None:
            access.receipts.note_answered(self.name, record)
        self._came_kind, self._came_rows, self._came_bytes = "", 0, 0

    def record_exchange(self, kind: str, rows: int, request: bytes, reply: Any, origin: Origin) -> None:
        """Record a reply as `record_answer` does, with the digest of it and of the request, if it may be given.

        A request without a question has no salt: a digest would let others test guesses of its contents.
        """
        self.check_admission()
        body = reply if isinstance(reply, bytes) else reply.SerializeToString()
        digest = ""
        if origin.question:
            digest = digest_exchange(self.name, self._access.name, kind, rows, origin.question, request, body)
        self.record_answer(kind, rows, len(body), origin, digest)
        if origin.question:
            self._access.log_exchange(self.name, kind, rows, origin)

    def count(self, kind: str, sent_bytes: int) -> None:
        """Count a heartbeat that is answered."""
        self._access.ledger.count(self.name, kind, IN, sent_bytes, self._came_bytes)
        self._came_kind, self._came_rows, self._came_bytes = "", 0, 0

    async def reply(self, kind: str, rows: int, message: Any, request: bytes, origin: Origin) -> None:
        """Record a message of a stream that replies to a request, and send it."""
        self.record_exchange(kind, rows, request, message, origin)
        await self._context.write(message)

    async def send(self, kind: str, rows: int, message: Any, origin: Origin) -> None:
        """Record a message of a stream that replies to no single request, and send it."""
        self.check_admission()
        self.record_answer(kind, rows, message.ByteSize(), origin)
        await self._context.write(message)

    def end(self) -> None:
        """End the visit, and record what came and was not answered, if it can be: nothing has left for it."""
        self._limit.close()
        self._access.open_visits.discard(self)
        if self._came_kind:
            with suppress(LedgerError):
                self.record_answer(UNANSWERED if self._came_rows else self._came_kind, self._came_rows, 0)

    def refuse(self, reason: str, code: StatusCode, told: str) -> NoReturn:
        """Refuse what came."""
        raise Refused(self.name, reason, code, told, self.question)

    def refusing(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """What `work` gives; what it raises is a refusal of what came."""
        try:
            return work(*arguments)
        except UnknownVersion as error:
            self.refuse("version", StatusCode.FAILED_PRECONDITION, str(error))
        except UnknownMembers as error:
            self.refuse("roster", StatusCode.ABORTED, str(error))
        except InvalidInput as error:
            self.refuse("malformed", StatusCode.INVALID_ARGUMENT, str(error))
        except Exceeded as exceeded:
            self.refuse(exceeded.limit, StatusCode.RESOURCE_EXHAUSTED, str(exceeded))


def _text(name: bytes) -> str:
    return name.decode("utf-8", errors="replace")


class Reading(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Lets callers in before their message is read: one who sends none holds a call of its own, and not for long."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        """A handler that reads the message itself, for calls with one message and one answer."""
        handler = await continuation(details)
        if handler is None or handler.request_streaming or handler.response_streaming:
            return handler

        async def answer(_requests: Any, context: Any) -> Any:
            async with self._access.admitted(context, None) as visit:
                request = await visit.next_message()
                if request is None:
                    told = "A call must have a message; none came."
                    visit.refuse("malformed", StatusCode.INVALID_ARGUMENT, told)
            return await handler.unary_unary(request, context)

        return grpc.stream_unary_rpc_method_handler(answer, handler.request_deserializer, handler.response_serializer)
