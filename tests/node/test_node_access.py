"""Who is let in and what they are given, over real sockets: mutual TLS, or names in the metadata on loopback."""

import asyncio
import datetime
import gc
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import grpc
import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from grpc import StatusCode
from hypothesis import given
from hypothesis import strategies as st

from degroot.exceptions import InvalidInput
from degroot.node.config import Limits
from degroot.node.config.names import NAME
from degroot.node.records.chain import NO_ORIGIN
from degroot.node.records.ledger import Ledger, LedgerError, summary
from degroot.node.records.log import logger
from degroot.node.records.metrics import Metrics
from degroot.node.records.own_rows import OwnRowsWatch
from degroot.node.server import model_service
from degroot.node.server.access import Access, Allowances, DailyBudgets, Reading, RefusalLines, caller
from degroot.node.server.refused_calls import RefusedCallCleanup
from degroot.node.server.service import OtherMethods

SERVICE = "test.Echo"
ROSTER = {"south": frozenset({"ask", "query"}), "west": frozenset({"opinion"}), "mute": frozenset()}


def noon() -> float:
    """A time of day at which no day ends."""
    return 20_000.5 * 86_400


@dataclass
class Authority:
    """Whoever signs certificates."""

    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    @property
    def pem(self) -> bytes:
        return self._signed([("ca",)], self.key, True, 1).public_bytes(serialization.Encoding.PEM)

    def issue(self, *names: str, days: int = 1) -> tuple[bytes, bytes]:
        """A key and a certificate with these common names, valid until so many days from now."""
        key = ec.generate_private_key(ec.SECP256R1())
        secret = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return secret, self._signed([names], key, False, days).public_bytes(serialization.Encoding.PEM)

    def _signed(self, names: list[tuple[str, ...]], key: ec.EllipticCurvePrivateKey, ca: bool, days: int):
        now = datetime.datetime.now(datetime.UTC)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name) for group in names for name in group])
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ca")]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=9))
            .not_valid_after(now + datetime.timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
            .sign(self.key, hashes.SHA256())
        )


AUTHORITY = Authority()
CA, NORTH = AUTHORITY.pem, AUTHORITY.issue("north")


class Node:
    """A server that echoes, through `Access`."""

    def __init__(self, folder: Path, insecure: bool = False, budgets: dict[str, int] | None = None, **limits) -> None:
        self.path, self.now = folder / "ledger.sqlite", 0.0  # seconds, by which lines of the log are limited
        self.roster = dict(ROSTER)
        self.ledger, self.metrics = Ledger(self.path, clock=noon), Metrics()
        self.allowances = Allowances(Limits(**limits))
        self.access = Access(
            "north", lambda: self.roster, self.allowances, DailyBudgets(lambda: budgets or {}, self.ledger, noon),
            OwnRowsWatch(np.zeros((0, 1)), self.metrics, logger("north")), self.ledger, self.metrics, insecure,
            log=self, lines=RefusalLines(lambda: self.now),
        )  # fmt: skip
        self.logged: list[dict[str, object]] = []
        self.entered, self.thought = asyncio.Event(), asyncio.Event()

    def warning(self, event: str, **about: object) -> None:
        """Keep a line of the log."""
        assert event == "refused"
        self.logged.append(about)

    async def echo(self, request: bytes, context) -> bytes:
        async with self.access.admitted(context, "ask") as visit:
            visit.message("ask", len(request), len(request))
            if request == b"fail":
                raise ArithmeticError("a handler that fails")
            visit.record_answer("ask", len(request), len(request))
            return request

    async def wait(self, request: bytes, context) -> bytes:
        async with self.access.admitted(context, "ask"):
            self.entered.set()
            await asyncio.Event().wait()
        return b""

    async def chat(self, _, context) -> AsyncIterator[bytes]:
        async with self.access.admitted(context, "ask") as visit:
            while (request := await visit.next_message()) is not None:
                visit.message("chat", 1, len(request))
                visit.record_answer("chat", 1, len(request))
                yield request

    async def ponder(self, _, context) -> None:
        async with self.access.admitted(context, "ask") as visit:
            request = await visit.next_message()
            visit.message("ponder", 3, len(request))
            self.entered.set()
            await self.thought.wait()
            await visit.reply("ponder", 3, b"the answer", request, NO_ORIGIN)

    async def greet(self, request: bytes, context) -> bytes:
        async with self.access.admitted(context, None) as visit:
            return visit.name.encode()

    async def listen(self, _, context) -> bytes:
        async with self.access.admitted(context, "ask") as visit:
            while (request := await visit.next_message()) is not None:
                visit.received("pool", len(request))
            return b""

    @asynccontextmanager
    async def running(self, *interceptors: grpc.aio.ServerInterceptor) -> AsyncIterator[int]:
        server = grpc.aio.server(interceptors=interceptors)
        handlers = {
            "echo": grpc.unary_unary_rpc_method_handler(self.echo),
            "wait": grpc.unary_unary_rpc_method_handler(self.wait),
            "greet": grpc.unary_unary_rpc_method_handler(self.greet),
            "listen": grpc.stream_unary_rpc_method_handler(self.listen),
            "chat": grpc.stream_stream_rpc_method_handler(self.chat),
            "ponder": grpc.stream_stream_rpc_method_handler(self.ponder),
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        model_service.add_to(server, model_service.ModelService("north", lambda: None, self.access))
        server.add_generic_rpc_handlers([OtherMethods(self.access)])
        if self.access.insecure:
            port = server.add_insecure_port("127.0.0.1:0")
        else:
            port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([NORTH], CA, True))
        await server.start()
        try:
            yield port
        finally:
            await server.stop(0)
            self.ledger.close()

    def refusals(self) -> dict[tuple[str, str], float]:
        return {
            (sample.labels["peer"], sample.labels["reason"]): sample.value
            for family in self.metrics.registry.collect()
            for sample in family.samples
            if sample.name == "degroot_refusals_total"
        }

    def in_flight(self, name: str) -> int:
        return self.allowances.of(name).calls


@asynccontextmanager
async def calling(port: int, identity: tuple[bytes, bytes] | None = None, name: str | None = None):
    """A channel of whoever has this key and certificate, or claims this name."""
    if name is None:
        key, certificate = identity or (None, None)
        credentials = grpc.ssl_channel_credentials(CA, key, certificate)
        channel = grpc.aio.secure_channel(f"localhost:{port}", credentials)
    else:
        channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
    async with channel:
        metadata = ((NAME, name),) if name else ()
        yield SimpleNamespace(
            echo=lambda request: channel.unary_unary(f"/{SERVICE}/echo")(request, metadata=metadata),
            wait=lambda request: channel.unary_unary(f"/{SERVICE}/wait")(request, metadata=metadata),
            greet=lambda request: channel.unary_unary(f"/{SERVICE}/greet")(request, metadata=metadata),
            listen=lambda: channel.stream_unary(f"/{SERVICE}/listen")(metadata=metadata),
            chat=lambda: channel.stream_stream(f"/{SERVICE}/chat")(metadata=metadata),
            ponder=lambda: channel.stream_stream(f"/{SERVICE}/ponder")(metadata=metadata),
        )


async def refused(call) -> tuple[StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code(), caught.value.details()


async def eventually(holds) -> None:
    """Wait until it holds."""
    async with asyncio.timeout(120):
        while not holds():
            await asyncio.sleep(0.01)


async def fall_silent(node) -> None:
    """Let the time pass in which the node waits for a caller's next message."""
    await eventually(lambda: count_waiting(node))
    for visit in node.access.open_visits:
        visit.shorten_wait(0.0)


def count_waiting(node) -> int:
    """How many streams wait for their caller's next message."""
    return sum(visit._limit.is_waiting for visit in node.access.open_visits)


def test_a_caller_in_the_roster_is_answered_and_recorded(tmp_path):
    async def scene():
        node = Node(tmp_path)
        async with node.running() as port, calling(port, AUTHORITY.issue("south")) as south:
            assert await south.echo(b"hello") == b"hello"
            assert await south.echo(b"you") == b"you"
            (line,) = summary(node.path)
            assert (line.peer, line.kind, line.direction) == ("south", "ask", "in")
            assert (line.exchanges, line.rows, line.sent, line.received) == (2, 8, 8, 8)
            await eventually(lambda: node.in_flight("south") == 0)  # a refusal arrives before the call ends
            assert node.refusals() == {}

    asyncio.run(scene())


DENIED, NAMELESS = StatusCode.PERMISSION_DENIED, StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize(
    ("names", "code", "told", "peer", "reason"),
    [
        (["eve"], DENIED, "'eve' is not in the roster of 'north'.", "unknown", "not in the roster"),
        (["west"], DENIED, "'west' must have the right 'ask' at 'north'; it may: 'opinion'.", "west", "may not ask"),
        (["mute"], DENIED, "'mute' must have the right 'ask' at 'north'; it may: nothing.", "mute", "may not ask"),
        ([], NAMELESS, "A caller must have a name, in a certificate; none came.", "unknown", "no name"),
    ],
)
def test_others_are_refused_and_counted_but_not_recorded(tmp_path, names, code, told, peer, reason):
    async def scene():
        node = Node(tmp_path)
        async with node.running() as port, calling(port, AUTHORITY.issue(*names)) as stranger:
            assert await refused(stranger.echo(b"hello")) == (code, told)
            assert node.refusals() == {(peer, reason): 1}
            caller = names[0] if names else "no name"
            assert node.logged == [{"caller": caller, "host": "127.0.0.1", "reason": reason, "why": told}]
            assert summary(node.path) == []
            assert len(node.allowances) == 0

    asyncio.run(scene())


@pytest.mark.parametrize(
    "identity",
    [None, Authority().issue("south"), AUTHORITY.issue("south", days=-1)],
    ids=["no certificate", "another CA", "expired"],
)
def test_without_a_valid_certificate_there_is_no_connection(tmp_path, identity):
    async def scene():
        node = Node(tmp_path)
        async with node.running() as port:
            async with calling(port, identity) as stranger:
                code, _ = await refused(stranger.echo(b"hello"))
                assert code is StatusCode.UNAVAILABLE
            async with calling(port, AUTHORITY.issue("south")) as south:
                assert await south.echo(b"hello") == b"hello"

    asyncio.run(scene())


def test_with_certificates_a_name_in_the_metadata_means_nothing(tmp_path):
    async def scene():
        node = Node(tmp_path)
        async with node.running() as port:
            key, certificate = AUTHORITY.issue("eve")
            credentials = grpc.ssl_channel_credentials(CA, key, certificate)
            async with grpc.aio.secure_channel(f"localhost:{port}", credentials) as channel:
                call = channel.unary_unary(f"/{SERVICE}/echo")(b"hello", metadata=((NAME, "south"),))
                assert (await refused(call))[1] == "'eve' is not in the roster of 'north'."

    asyncio.run(scene())


def test_on_loopback_the_claimed_name_counts(tmp_path):
    async def scene():
        node = Node(tmp_path, insecure=True)
        async with node.running() as port:
            async with calling(port, name="south") as south:
                assert await south.echo(b"hello") == b"hello"
            async with calling(port, name="eve") as eve:
                assert (await refused(eve.echo(b"hello")))[0] is StatusCode.PERMISSION_DENIED
            async with calling(port, name="") as nobody:
                code, told = await refused(nobody.echo(b"hello"))
                assert code is StatusCode.UNAUTHENTICATED
                assert "'degroot-name'" in told

    asyncio.run(scene())


def test_the_roster_may_change_meanwhile(tmp_path):
    async def scene():
        node = Node(tmp_path, insecure=True)
        async with node.running() as port, calling(port, name="east") as east:
            assert (await refused(east.echo(b"hello")))[0] is StatusCode.PERMISSION_DENIED
            node.roster["east"] = frozenset({"ask"})
            assert await east.echo(b"hello") == b"hello"
            del node.roster["east"]
            assert (await refused(east.echo(b"hello")))[0] is StatusCode.PERMISSION_DENIED

    asyncio.run(scene())


def test_calls_over_the_limit_are_refused_until_others_end(tmp_path):
    async def scene():
        node = Node(tmp_path, insecure=True, concurrent_calls=1)
        async with node.running() as port, calling(port, name="south") as south:
            waiting = south.wait(b"")
            await node.entered.wait()
            code, told = await refused(south.echo(b"hello"))
            assert code is StatusCode.RESOURCE_EXHAUSTED
            assert "concurrent_calls" in told
            waiting.cancel()
            await eventually(lambda: node.in_flight("south") == 0)
            assert await south.echo(b"hello") == b"hello"
            assert node.refusals() == {("south", "concurrent_calls"): 1}

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"rows_per_request": 4}, "rows_per_request"),
        ({"rows_per_second": 4}, "rows_per_second"),
        ({"requests_per_second": 1e-9}, "requests_per_second"),
    ],
)
def test_messages_over_a_limit_are_refused(tmp_path, limits, reason):
    async def scene():
        node = Node(tmp_path, insecure=True, **limits)
        async with node.running() as port, calling(port, name="south") as south:
            assert await south.echo(b"abc") == b"abc"
            code, told = await refused(south.echo(b"hello"))
            assert code is StatusCode.RESOURCE_EXHAUSTED
            assert reason in told
            assert node.refusals() == {("south", reason): 1}
            await eventually(lambda: node.in_flight("south") == 0)  # a refusal arrives before the call ends
            assert [line.exchanges for line in summary(node.path)] == [1]

    asyncio.run(scene())


def test_a_days_budget_counts_what_was_asked_before_the_node_was_started_again(tmp_path):
    async def scene(before, *words):
        node = Node(tmp_path, insecure=True, budgets={"south": 10})
        async with node.running() as port, calling(port, name="south") as south:
            for word in words:
                assert await south.echo(word) == word
            used = before + sum(map(len, words))
            told = f"At most 10 rows a day are allowed (rows_per_day); {used} came before, and 8 more."
            for _ in range(2):  # what is refused is not counted
                assert await refused(south.echo(b"too many")) == (StatusCode.RESOURCE_EXHAUSTED, told)
            assert node.refusals() == {("south", "rows_per_day"): 2}
            await eventually(lambda: node.in_flight("south") == 0)
            return used

    used = asyncio.run(scene(0, b"abc"))
    used = asyncio.run(scene(used, b"a", b"bcd"))
    assert asyncio.run(scene(used, b"abc")) == 10


def test_a_flood_is_refused_and_leaves_nothing_behind(tmp_path):
    async def scene():
        node = Node(tmp_path, insecure=True, requests_per_second=1e-9)
        async with node.running() as port, calling(port, name="south") as south, calling(port, name="eve") as eve:
            calls = [caller.echo(b"x") for _ in range(300) for caller in (south, eve)]
            ends = await asyncio.gather(*calls, return_exceptions=True)
            codes = [end.code() if isinstance(end, grpc.aio.AioRpcError) else None for end in ends]
            assert codes.count(None) == 1
            assert codes.count(StatusCode.RESOURCE_EXHAUSTED) == 299
            assert codes.count(StatusCode.PERMISSION_DENIED) == 300
            assert len(node.allowances) == 1
            await eventually(lambda: node.in_flight("south") == 0)  # a refusal arrives before the call ends
            assert len(node.refusals()) <= 3
            for name in ("adam", "abel"):  # whoever comes first while all this goes on is logged all the same
                async with calling(port, name=name) as stranger:
                    assert (await refused(stranger.echo(b"x")))[0] is StatusCode.PERMISSION_DENIED
            told = [line["why"] for line in node.logged]
            for name in ("eve", "adam", "abel"):
                assert f"'{name}' is not in the roster of 'north'." in told
            assert any("requests_per_second" in why for why in told)
            assert sum(node.refusals().values()) == 601
            assert len(told) + sum(line.get("suppressed", 0) for line in node.logged) == 601

    asyncio.run(scene())


@given(
    refusals=st.lists(
        st.tuples(st.sampled_from("abcdefg"), st.sampled_from(["right", "rate"]), st.floats(0, 3)), max_size=99
    )
)
def test_every_callers_first_refusal_is_logged_whoever_else_floods_and_none_is_lost(refusals):
    now = [0.0]
    lines, known, suppressed, logged = RefusalLines(lambda: now[0]), set(), 0, 0
    for name, reason, seconds in refusals:
        now[0] += seconds if seconds > 1 else 0.0
        taken = lines.take(name, reason)
        assert taken is not None or (name, reason) in known
        known.add((name, reason))
        if taken is None:
            suppressed += 1
        else:
            assert taken == suppressed  # told with the next line
            logged, suppressed = logged + 1, 0
    assert logged <= len(known) + 2 * (now[0] + 1)


def test_two_refusals_of_one_caller_hide_none_of_others(tmp_path):
    async def scene():
        node = Node(tmp_path)
        async with node.running() as port:
            for _ in range(5):
                async with calling(port, AUTHORITY.issue("eve")) as eve:
                    await refused(eve.echo(b"hello"))
            for k in range(5):
                async with calling(port, AUTHORITY.issue(f"stranger{k}")) as stranger:
                    await refused(stranger.echo(b"hello"))
        assert [line["caller"] for line in node.logged[-5:]] == [f"stranger{k}" for k in range(5)]
        assert sum(line["caller"] == "eve" for line in node.logged) == 3  # the first, and two of a second

    asyncio.run(scene())


UNKNOWN = [
    "/degroot.v1.Collective/Describe", "/degroot.v3.Collective/Destroy", "/x/y", "/x", f"/{SERVICE}/destroy",
    *(f"/inference.GRPCInferenceService/{name}" for name in ("ModelStreamInfer", "RepositoryIndex", "ModelConfig")),
]  # fmt: skip


@pytest.mark.parametrize("kind", ["unary_unary", "stream_stream"])
def test_calls_of_what_is_not_there_are_refused_as_all_others_are_and_logged(tmp_path, kind):
    async def scene():
        node = Node(tmp_path)
        async with node.running(Reading(node.access)) as port:
            for name, code in (("eve", DENIED), ("mute", StatusCode.UNIMPLEMENTED)):
                key, certificate = AUTHORITY.issue(name)
                credentials = grpc.ssl_channel_credentials(CA, key, certificate)
                async with grpc.aio.secure_channel(f"localhost:{port}", credentials) as channel:
                    for path in UNKNOWN:
                        node.now += 1.0
                        call = getattr(channel, kind)(path)
                        # No message: grpc.aio loses the status of a stream that ends while it is written to
                        made = call(b"") if kind == "unary_unary" else call().read()
                        found, told = await refused(made)
                        assert found is code, (path, told)
                        about = {"caller": name, "host": "127.0.0.1", "why": told}
                        assert {key: node.logged[-1][key] for key in about} == about
            assert len(node.logged) == 2 * len(UNKNOWN)
            told = {line["why"] for line in node.logged}
            assert "This node speaks degroot.v3 and degroot.v2; 'degroot.v1.Collective' was asked for." in told
            assert "A call must name a method of this node; it has no 'y' in 'x'." in told

    asyncio.run(scene())


def test_a_handler_that_fails_gives_its_slot_back_and_what_came_is_recorded(tmp_path):
    async def scene():
        node = Node(tmp_path, insecure=True, concurrent_calls=1)
        async with node.running() as port, calling(port, name="south") as south:
            assert (await refused(south.echo(b"fail")))[0] is StatusCode.UNKNOWN
            await eventually(lambda: node.in_flight("south") == 0)  # a refusal arrives before the call ends
            (line,) = summary(node.path)
            assert (line.rows, line.sent, line.received) == (4, 0, 4)
            assert await south.echo(b"hello") == b"hello"

    asyncio.run(scene())


def test_what_comes_without_answers_is_one_record_at_the_end_whatever_the_limits(tmp_path):
    async def scene():
        node = Node(tmp_path, insecure=True, requests_per_second=1e-9)
        async with node.running() as port, calling(port, name="south") as south:
            beliefs = south.listen()
            for word in (b"a", b"bc", b"def"):
                await beliefs.write(word)
            await beliefs.done_writing()
            assert await beliefs == b""
            (line,) = summary(node.path)
            assert (line.kind, line.exchanges, line.rows, line.sent, line.received) == ("pool", 1, 0, 0, 6)

    asyncio.run(scene())


def test_what_needs_no_right_is_for_all_in_the_roster_only(tmp_path):
    async def scene():
        node = Node(tmp_path)
        async with node.running() as port:
            async with calling(port, AUTHORITY.issue("mute")) as mute:
                assert await mute.greet(b"") == b"mute"
            async with calling(port, AUTHORITY.issue("eve")) as eve:
                assert (await refused(eve.greet(b"")))[0] is StatusCode.PERMISSION_DENIED

    asyncio.run(scene())


def test_a_node_that_closes_ends_its_streams(tmp_path):
    async def scene():
        node = Node(tmp_path, insecure=True)
        async with node.running() as port, calling(port, name="south") as south:
            chats = [south.chat() for _ in range(3)]
            for chat in chats:
                await chat.write(b"a")
                assert await chat.read() == b"a"
            await eventually(lambda: count_waiting(node) == 3)
            node.access.close()
            chats.append(south.chat())
            for chat in chats:
                assert await chat.code() is StatusCode.UNAVAILABLE
                assert await chat.details() == "'north' is shutting down."
            await eventually(lambda: node.in_flight("south") == 0)  # a refusal arrives before the call ends
            assert not node.access.open_visits

    asyncio.run(scene())


def test_streams_are_read_to_their_end(tmp_path):
    async def scene():
        node = Node(tmp_path, insecure=True)
        async with node.running() as port, calling(port, name="south") as south:
            chat = south.chat()
            for word in (b"a", b"bc", b"def"):
                await chat.write(word)
                assert await chat.read() == word
            await chat.done_writing()
            assert await chat.read() is grpc.aio.EOF
            assert await chat.code() is StatusCode.OK
            (line,) = summary(node.path)
            assert (line.exchanges, line.rows, line.sent, line.received) == (3, 3, 6, 6)
            await eventually(lambda: node.in_flight("south") == 0)  # a refusal arrives before the call ends

    asyncio.run(scene())


def test_a_stream_that_goes_quiet_is_ended(tmp_path):
    async def scene():
        node = Node(tmp_path, insecure=True)
        async with node.running() as port, calling(port, name="south") as south:
            chat = south.chat()
            await chat.write(b"a")
            assert await chat.read() == b"a"
            await fall_silent(node)
            assert await chat.code() is StatusCode.DEADLINE_EXCEEDED
            assert "idle_seconds" in await chat.details()
            assert node.refusals() == {}  # peers keep streams open
            chat = south.chat()
            await fall_silent(node)
            assert await chat.code() is StatusCode.DEADLINE_EXCEEDED
            assert node.refusals() == {("south", "idle_seconds"): 1}  # nothing ever came
            await eventually(lambda: node.in_flight("south") == 0)
            assert await south.echo(b"hello") == b"hello"

    asyncio.run(scene())


@pytest.mark.parametrize("is_removed", [False, True])
def test_who_is_removed_while_an_answer_is_under_way_does_not_get_it(tmp_path, is_removed):
    async def scene():
        node = Node(tmp_path, insecure=True)
        async with node.running() as port, calling(port, name="south") as south:
            call = south.ponder()
            await call.write(b"a question")
            await node.entered.wait()
            if is_removed:
                del node.roster["south"]
            node.thought.set()
            if is_removed:
                assert await call.code() is StatusCode.PERMISSION_DENIED
                assert "not in the roster" in await call.details()
            else:
                assert await call.read() == b"the answer"
                assert await call.code() is StatusCode.OK

    asyncio.run(scene())
    (entry,) = summary(tmp_path / "ledger.sqlite")
    sent = 0 if is_removed else len(b"the answer")
    assert (entry.kind, entry.rows, entry.sent) == ("unanswered" if is_removed else "ponder", 3, sent)


def test_a_stream_that_is_cut_gives_its_slot_back(tmp_path):
    async def scene():
        node = Node(tmp_path, insecure=True, concurrent_calls=3)
        async with node.running() as port:
            for _ in range(5):
                async with calling(port, name="south") as south:
                    chats = [south.chat() for _ in range(3)]
                    for chat in chats:
                        await chat.write(b"a")
                        assert await chat.read() == b"a"
                        await chat.write(b"x" * 100_000)  # the answer waits for a reader
                        chat.cancel()
                await eventually(lambda: node.in_flight("south") == 0)
            async with calling(port, name="south") as south:
                assert await south.echo(b"hello") == b"hello"

    asyncio.run(scene())


def test_there_is_no_exchange_without_a_record(tmp_path, monkeypatch):
    async def scene():
        node = Node(tmp_path, insecure=True)

        def full(*_):
            raise LedgerError(node.path, "database or disk is full")

        async with node.running() as port, calling(port, name="south") as south:
            with monkeypatch.context() as patched:
                patched.setattr(node.ledger, "record", full)
                code, told = await refused(south.echo(b"hello"))
            assert code is StatusCode.RESOURCE_EXHAUSTED
            assert told == "'north' records every exchange, and cannot now: database or disk is full."
            assert str(tmp_path) not in told
            assert node.refusals() == {("south", "ledger"): 1}
            await eventually(lambda: node.in_flight("south") == 0)  # a refusal arrives before the call ends
            assert await south.echo(b"hello") == b"hello"

    asyncio.run(scene())


def test_a_certificate_with_two_names_names_nobody():
    context = SimpleNamespace(auth_context=lambda: {"x509_common_name": [b"south", b"west"]})
    assert caller(context) is None
    context = SimpleNamespace(auth_context=lambda: {"x509_common_name": [b"\xff"]})
    assert caller(context) not in ROSTER


class Taken(bytearray):
    """What came with a call; it can be watched."""


@pytest.mark.parametrize("kind", ["stream_unary", "stream_stream"])
def test_what_came_with_a_refused_call_is_freed_without_collecting_garbage(kind):
    watched = []

    async def refuse(_, context):
        taken = Taken(b"a model")
        watched.append(weakref.ref(taken))
        try:
            raise InvalidInput("This is none.")
        except InvalidInput as error:
            await context.abort(StatusCode.INVALID_ARGUMENT, str(error))

    async def scene():
        server = grpc.aio.server(interceptors=[RefusedCallCleanup()])
        handlers = {"push": getattr(grpc, f"{kind}_rpc_method_handler")(refuse)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            said = await refused(channel.stream_unary(f"/{SERVICE}/push")(iter([b"x"])))
            assert said == (StatusCode.INVALID_ARGUMENT, "This is none.")
            await eventually(lambda: [each() for each in watched] == [None])  # a refusal arrives before the call ends
        await server.stop(None)

    gc.disable()
    try:
        asyncio.run(scene())
    finally:
        gc.enable()
