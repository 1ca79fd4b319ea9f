"""Health: what probes, metrics, the page, gRPC and `node check` say of a node is so, and strangers cannot block it."""

import asyncio
import contextlib
import ctypes
import http.client
import os
import signal
import socket
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import grpc
import httpx
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from support.consortium import Consortium, free_ports
from support.drills import points, until
from support.refusals import complaint

from degroot.exceptions import DeGrootError, InvalidInput
from degroot.node.config import IdentityFiles, MetricsAddress
from degroot.node.config.check import inspect
from degroot.node.page.tokens import make_operator_token
from degroot.node.records.metrics import Metrics
from degroot.node.server import health as health_module
from degroot.node.server import status as status_module
from degroot.node.server.background import start_background
from degroot.node.server.health import QUORUM, STARTING, STORAGE, TROUBLES, Health
from degroot.node.server.health_service import COLLECTIVE_SERVICE, MODEL_SERVICE
from degroot.node.server.listening import bind
from degroot.node.server.service_manager import ServiceManager
from degroot.node.server.status import StatusServer
from degroot.node.tls import authority
from degroot.node.tls.contents import channel_credentials

SERVING, NOT_SERVING, SERVICE_UNKNOWN = (
    health_pb2.HealthCheckResponse.SERVING,
    health_pb2.HealthCheckResponse.NOT_SERVING,
    health_pb2.HealthCheckResponse.SERVICE_UNKNOWN,
)
SOON = datetime.now(UTC) + timedelta(days=1)
NEW_USERS, NEW_MOUNTS = 0x10000000, 0x00020000  # of unshare(2)


def ask(port, path, method="GET", host="127.0.0.1"):
    """Status and text of a reply."""
    connection = http.client.HTTPConnection(host, port, timeout=60)
    with contextlib.closing(connection):
        connection.request(method, path)
        reply = connection.getresponse()
        return reply.status, reply.read().decode()


def send(port, request):
    """All that comes back for these bytes."""
    with socket.create_connection(("127.0.0.1", port), 60) as connection:
        connection.sendall(request)
        with contextlib.suppress(ConnectionResetError):
            return b"".join(iter(lambda: connection.recv(65536), b"")).decode()


def read_metric(port, name):
    """The value of a metric, with its labels as they are printed."""
    lines = dict(line.rsplit(" ", 1) for line in ask(port, "/metrics")[1].splitlines() if not line.startswith("#"))
    return float(lines[name])


class Circle:
    """As much of a circle as health looks at."""

    def __init__(self, able=3, has_consensus=False, removal=None):
        self.removal = removal
        self.able, self.names = able, ("a", "b", "c")
        self.wiring = SimpleNamespace(credentials=None)
        self.configuration = SimpleNamespace(has_consensus=has_consensus, needed=2)

    def count_able(self):
        return self.able


def told(folder):
    return SimpleNamespace(state=folder, ledger=folder / "ledger.sqlite", timing=SimpleNamespace(probe_seconds=1.0))


@pytest.fixture
def health(tmp_path):
    """Of a node that serves, by a clock that a test sets."""
    clock = SimpleNamespace(now=0.0)
    made = Health(told(tmp_path), ServiceManager({}), lambda: clock.now)
    made.clock = clock
    made.begin_serving()
    return made


def test_a_state_folder_that_is_replaced_is_noticed(tmp_path):
    home = tmp_path / "state"
    home.mkdir()
    health = Health(told(home), ServiceManager({}))
    assert asyncio.run(health._find_storage_trouble()) is None
    home.rename(tmp_path / "aside")
    assert "cannot be written" in asyncio.run(health._find_storage_trouble())
    home.mkdir()
    assert "another folder than when the node started" in asyncio.run(health._find_storage_trouble())


@pytest.fixture
def server(health):
    metrics = Metrics({("south", "ask", "in"): [1, 1, 1, 1]})
    metrics.show_health(TROUBLES, health.find_troubles)
    made = StatusServer(metrics.registry, health, bind("127.0.0.1", 0, "metrics.port"))
    yield made
    made.close()


def test_three_paths_are_there_and_no_other(server):
    code, metrics = ask(server.port, "/metrics")
    assert code == 200
    assert 'degroot_exchanges_total{direction="in",kind="ask",peer="south"} 1.0' in metrics
    assert "process_resident_memory_bytes" in metrics
    assert ask(server.port, "/live") == (200, "alive\n")
    assert ask(server.port, "/ready?verbose=1") == (200, "ready\n")
    for path in ("/", "/metrics/", "/live/x", "/favicon.ico", "/LIVE"):
        assert ask(server.port, path) == (404, "There are /metrics, /live and /ready here, and nothing else.\n")


def test_only_reading_is_allowed_and_nothing_tells_what_serves(server):
    reply = send(server.port, b"HEAD /ready HTTP/1.1\r\nHost: x\r\n\r\n")
    assert reply.startswith("HTTP/1.1 200 OK\r\n")
    assert "Content-Length: 6\r\n" in reply
    assert reply.endswith("\r\n\r\n")
    assert not any(line.lower().startswith("server:") for line in reply.splitlines())
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE"):
        assert ask(server.port, "/live", method)[0] == 405
    assert "Allow: GET, HEAD\r\n" in send(server.port, b"POST /live HTTP/1.1\r\n\r\n")
    assert " 400 " in send(server.port, b"GET /live\r\n\r\n")
    assert " 400 " in send(server.port, b"\x16\x03\x01\x00\r\n\r\n")  # TLS


def test_a_request_that_is_too_long_is_refused(server):
    assert " 431 " in send(server.port, b"GET /" + b"x" * status_module.MAX_REQUEST_BYTES + b" HTTP/1.1\r\n\r\n")
    assert " 431 " in send(server.port, b"GET /live HTTP/1.1\r\n" + b"a: b\r\n" * 2000 + b"\r\n")


def test_half_open_requests_keep_nobody_waiting(server, monkeypatch):
    """More than it holds at a time: those that came first make way. Their time is not over meanwhile."""
    monkeypatch.setattr(status_module, "REQUEST_SECONDS", 3600.0)
    with contextlib.ExitStack() as stack:
        for _ in range(status_module.MAX_CONNECTIONS + 50):
            slow = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), 60))
            slow.sendall(b"GET /live HTT")
        for _ in range(5):
            assert ask(server.port, "/live") == (200, "alive\n")


def test_who_sends_nothing_is_let_go(server, monkeypatch):
    monkeypatch.setattr(status_module, "REQUEST_SECONDS", 0.05)
    with socket.create_connection(("127.0.0.1", server.port), 60) as silent:
        assert silent.recv(1) == b""


@contextlib.contextmanager
def never_reading(port):
    """A client that has taken the first byte of a reply, and then takes nothing."""
    with socket.create_connection(("127.0.0.1", port), 60) as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert client.recv(1) == b"H"
        yield client


@pytest.fixture
def large(monkeypatch):
    """A reply that is larger than what the system keeps for a client; its time is never over."""
    size = 1 << 25
    monkeypatch.setattr(status_module, "REQUEST_SECONDS", 3600.0)
    monkeypatch.setattr(status_module, "generate_latest", lambda _: bytes(size))
    return size


def test_who_does_not_read_makes_way_too(server, large, monkeypatch):
    monkeypatch.setattr(status_module, "MAX_CONNECTIONS", 1)
    with never_reading(server.port) as client:
        assert ask(server.port, "/live") == (200, "alive\n")
        with contextlib.suppress(ConnectionResetError):
            assert sum(map(len, iter(lambda: client.recv(1 << 20), b""))) < large


def test_who_does_not_read_does_not_keep_it_from_closing(health, large):
    server = StatusServer(Metrics().registry, health, bind("127.0.0.1", 0, "metrics.port"))
    with never_reading(server.port):
        server.close()
        server._thread.join(60)
        assert not server._thread.is_alive()


def test_it_listens_where_it_is_told_and_no_longer_once_it_is_closed(health):
    server = StatusServer(Metrics().registry, health, bind("127.0.0.2", 0, "metrics.port"))
    try:
        assert ask(server.port, "/live", host="127.0.0.2")[0] == 200
        with pytest.raises(ConnectionRefusedError):
            ask(server.port, "/live")  # this machine too, but not where it listens
    finally:
        server.close()
    with pytest.raises(ConnectionRefusedError):
        ask(server.port, "/live", host="127.0.0.2")


def test_it_listens_on_ipv6(health):
    try:
        listening = bind("::1", 0, "metrics.port")
    except InvalidInput as error:
        pytest.skip(f"this machine has no IPv6: {error}")
    server = StatusServer(Metrics().registry, health, listening)
    try:
        assert ask(server.port, "/live", host="::1")[0] == 200
    finally:
        server.close()


def test_a_port_in_use_and_an_address_of_another_machine_are_one_clear_line():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = f"`metrics.port` must be free; 127.0.0.1:{port}: Address already in use."
        assert complaint(lambda: bind("127.0.0.1", port, "metrics.port")) == told
    assert "192.0.2.1:9443: Cannot assign" in complaint(lambda: bind("192.0.2.1", 9443, "metrics.port"))


def test_a_loop_that_has_hung_is_told_by_the_thread_beside_it(health, server):
    health.clock.now = health_module.HANG_SECONDS + 5.0
    assert ask(server.port, "/live") == (503, "the event loop has not answered for 20 s\n")
    assert ask(server.port, "/ready") == (503, "the event loop has not answered for 20 s\n")
    assert read_metric(server.port, "degroot_ready") == 0
    assert read_metric(server.port, 'degroot_trouble{kind="loop"}') == 1


def test_a_background_task_that_fails_is_logged_and_keeps_the_node_from_being_ready(health, server):
    async def fail():
        raise RuntimeError("a mistake of ours")

    async def run():
        task = start_background("files", fail(), log, health.report_failure)
        with contextlib.suppress(RuntimeError):
            await task
        stopped = start_background("data", asyncio.sleep(60), log, health.report_failure)
        await asyncio.sleep(0)
        stopped.cancel()
        await asyncio.wait([stopped])

    errors = []
    log = SimpleNamespace(error=lambda event, **about: errors.append((event, about["task"])))
    asyncio.run(run())
    assert errors == [("background task failed", "files")]
    assert ask(server.port, "/ready") == (503, f"{health.find_troubles()['task']}\n")
    assert "'files' has failed: restart the node (RuntimeError: a mistake of ours)" in health.find_troubles()["task"]
    assert ask(server.port, "/live")[0] == 200


def test_what_was_found_long_ago_is_not_said_to_be_so_now(health):
    """The loop beats, and the looks at the node's state fail or wait for a disk for ever."""

    async def beat_once():
        beating = asyncio.create_task(health.beat())
        await asyncio.sleep(0)
        beating.cancel()

    health.clock.now = 100.0
    asyncio.run(beat_once())
    assert health.find_hang() is None
    assert list(health.find_troubles().values()) == ["the node has not looked at its state for 100 s"]


def test_ready_tells_every_reason_in_a_line_of_its_own(health, server, tmp_path):
    tmp_path.rmdir()
    asyncio.run(health.look(Circle(able=1, has_consensus=True, removal="it is not in the roster")))
    code, text = ask(server.port, "/ready")
    assert code == 503
    assert text.splitlines() == [
        f"{tmp_path} cannot be written: No such file or directory",
        "it is not in the roster",
        "no quorum: 1 of 3 nodes can take part, 2 must",
    ]
    assert ask(server.port, "/live")[0] == 200
    assert list(health.find_faults()) == [STORAGE]  # without others it would answer for itself
    health.begin_stopping()
    assert ask(server.port, "/ready")[1].splitlines()[0] == "the node is shutting down"
    assert read_metric(server.port, 'degroot_trouble{kind="quorum"}') == 1


def test_a_quorum_is_needed_only_for_a_consensus(health):
    asyncio.run(health.look(Circle(able=1)))
    assert health.find_troubles() == {}
    asyncio.run(health.look(Circle(able=1, has_consensus=True)))
    assert list(health.find_troubles()) == [QUORUM]
    asyncio.run(health.look(Circle(able=2, has_consensus=True)))
    assert health.find_troubles() == {}


@pytest.mark.parametrize(
    ("lapse", "ca_ends", "told"),
    [
        (None, SOON, []),
        ("its certificate was revoked (roster 3)", SOON, ["this node: its certificate was revoked (roster 3)"]),
        (None, datetime(2026, 1, 2, 3, 4, tzinfo=UTC), ["the certificate of its CA expired on 2026-01-02 03:04 UTC"]),
    ],
)
def test_a_certificate_that_is_good_no_longer_is_trouble(health, lapse, ca_ends, told):
    circle = Circle()
    circle.wiring.credentials = SimpleNamespace(
        ca_expires=ca_ends, certificate="its own", find_lapse={"its own": lapse}.get
    )
    asyncio.run(health.look(circle))
    assert list(health.find_troubles().values()) == told


def test_a_node_that_gets_ready_is_alive_and_not_ready(tmp_path):
    health = Health(told(tmp_path), ServiceManager({}))
    assert health.find_hang() is None
    assert list(health.find_troubles()) == [STARTING]


def test_a_disk_that_does_not_answer_is_trouble_and_takes_one_thread(health, monkeypatch):
    calls = []

    def wait_long(_):
        calls.append(1)
        time.sleep(0.5)

    monkeypatch.setattr(health_module, "find_storage_trouble", wait_long)
    monkeypatch.setattr(health_module, "STORAGE_SECONDS", 0.01)

    async def look_until_it_answers():
        await health.look(Circle())
        found = health.find_troubles()
        while health.find_troubles():
            await health.look(Circle())
        return found

    found = asyncio.run(look_until_it_answers())
    assert found[STORAGE].endswith("the disk has not answered for 0.01 s")
    assert len(calls) == 1


def mount_small_state(folder):
    """Before a node starts: a disk of its own for its state, which others reach through /proc."""
    state, libc = folder / "state", ctypes.CDLL(None, use_errno=True)
    state.mkdir(exist_ok=True)
    user, group = os.geteuid(), os.getegid()
    if libc.unshare(NEW_MOUNTS | (NEW_USERS if user else 0)):
        raise OSError(ctypes.get_errno(), "no namespace")
    if user:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    libc.mount(b"none", b"/", None, 0x4000 | 0x40000, None)  # what is mounted here stays here
    if libc.mount(b"none", os.fsencode(state), b"tmpfs", 0, b"size=6m"):
        raise OSError(ctypes.get_errno(), "no small disk")


def make_hangable(folder):
    """Before a node starts: SIGUSR1 makes its event loop hang, which is told sooner than elsewhere."""
    health_module.HANG_SECONDS = 2.0
    signal.signal(signal.SIGUSR1, lambda *_: time.sleep(3600))


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """Two nodes whose consensus needs both; node0 has metrics, and its state on a small disk."""
    port, page = free_ports(2)
    with Consortium(tmp_path_factory.mktemp("pair"), 2) as consortium:
        consortium.metrics, consortium.page = port, page
        consortium.write("node0", limits=f"[metrics]\nport = {port}\n[page]\nport = {page}")
        consortium.fork("node0", before=mount_small_state)
        try:
            until(lambda: is_open(port), lambda: consortium.log("node0"))
        except AssertionError:
            if "no namespace" in consortium.log("node0") or "no small disk" in consortium.log("node0"):
                pytest.skip("a small disk needs namespaces, which this machine does not allow")
            raise
        yield consortium


def is_open(port):
    with contextlib.suppress(OSError):
        return ask(port, "/live")[0] == 200


@contextlib.contextmanager
def channel_to(consortium, name="node0", caller="node1"):
    keys = consortium.credentials(caller)
    credentials = channel_credentials(IdentityFiles(keys["ca"], keys["certificate"], keys["key"]))
    options = [("grpc.ssl_target_name_override", name)]
    with grpc.secure_channel(f"127.0.0.1:{consortium.ports[name]}", credentials, options) as channel:
        yield channel


def check(consortium, service="", caller="node1"):
    """What the health service of node0 says."""
    with channel_to(consortium, caller=caller) as channel:
        request = health_pb2.HealthCheckRequest(service=service)
        return health_pb2_grpc.HealthStub(channel).Check(request, timeout=60).status


def state_of(consortium):
    """The state folder of node0, as it sees it."""
    return Path(f"/proc/{consortium.processes['node0'].pid}/root{consortium.configuration('node0').state}")


def list_findings(consortium, **changes):
    """What `degroot node check` says of node0, where it sees the same disk."""
    configuration = replace(consortium.configuration("node0"), state=state_of(consortium), **changes)
    return {finding.what: finding for finding in inspect(configuration, False, False)}


def read_page(consortium, token):
    """What the page of node0 shows of the node itself."""
    bearer = {"Authorization": f"Bearer {token}"}
    reply = httpx.get(f"http://127.0.0.1:{consortium.page}/api/state", headers=bearer, timeout=60)
    assert reply.status_code == 200, reply.text
    return reply.json()["node"]


def is_refused(node):
    try:
        node.consult(points(3))
    except DeGrootError as error:
        return "records every exchange, and cannot now" in str(error)


def test_readiness_takes_a_quorum_and_is_followed_over_grpc(pair):
    ready = "no quorum: 1 of 2 nodes can take part, 2 must\n"
    until(lambda: ask(pair.metrics, "/ready") == (503, ready), lambda: ask(pair.metrics, "/ready"))
    assert ask(pair.metrics, "/live") == (200, "alive\n")
    assert check(pair, MODEL_SERVICE) == SERVING  # its own model needs no quorum
    assert check(pair, COLLECTIVE_SERVICE) == NOT_SERVING
    with channel_to(pair) as channel:
        watched = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=600)
        assert next(watched).status == NOT_SERVING
        pair.fork("node1")
        assert next(watched).status == SERVING
        watched.cancel()
    until(lambda: ask(pair.metrics, "/ready") == (200, "ready\n"), lambda: ask(pair.metrics, "/ready"))
    assert read_metric(pair.metrics, "degroot_ready") == 1
    findings = list_findings(pair)
    assert findings["health"].told == "the running node can answer"
    assert "metrics" not in findings  # on loopback they are nobody else's


def test_metrics_that_others_can_read_are_warned_of(pair):
    finding = list_findings(pair, metrics=MetricsAddress(9443, "::"))["metrics"]
    assert finding.outcome == "warning"
    assert finding.told == "[::]:9443 can be read by whoever reaches it: names of peers and counts, without TLS"


def test_a_full_disk_is_seen_everywhere_until_there_is_room(pair):
    pair.ready()
    until(lambda: ask(pair.metrics, "/ready")[0] == 200, lambda: ask(pair.metrics, "/ready"))
    filler, token = state_of(pair) / "filler", make_operator_token(state_of(pair))
    page = read_page(pair, token)
    assert (page["answering"], page["faults"]) == (True, [])
    with pair.connect("node0") as node:
        node.consult(points(3))
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 12))
        until(lambda: ask(pair.metrics, "/ready")[0] == 503, "it is ready with a full disk")
        why = f"{pair.configuration('node0').state} cannot be written: No space left on device"
        assert why in ask(pair.metrics, "/ready")[1].splitlines()
        assert read_metric(pair.metrics, "degroot_ready") == 0
        assert read_metric(pair.metrics, 'degroot_trouble{kind="storage"}') == 1
        assert check(pair) == check(pair, MODEL_SERVICE) == NOT_SERVING
        page = read_page(pair, token)
        assert (page["answering"], page["faults"]) == (False, [why])
        findings = list_findings(pair)
        assert findings["state"].outcome == "failed"
        assert findings["health"].outcome == "failed"
        assert why in findings["health"].told
        until(lambda: is_refused(node), "it answers without writing that down")  # once the last block is full
        filler.unlink()
        until(lambda: ask(pair.metrics, "/ready")[0] == 200, lambda: ask(pair.metrics, "/ready"))
        assert check(pair) == SERVING
        node.consult(points(3))


def test_the_health_service_tells_nobody_but_the_roster(pair):
    authority.issue(pair.folder / "keys", "stranger", 90, ["127.0.0.1"])
    for method in ("Check", "Watch"):
        with channel_to(pair, caller="stranger") as channel, pytest.raises(grpc.RpcError) as caught:
            list(getattr(health_pb2_grpc.HealthStub(channel), method)(health_pb2.HealthCheckRequest(), timeout=60))
        assert caught.value.code() == grpc.StatusCode.PERMISSION_DENIED
        assert "'stranger' is not in the roster of 'node0'" in caught.value.details()
    until(lambda: '"caller": "stranger"' in pair.log("node0"), lambda: pair.log("node0"))
    with pytest.raises(grpc.RpcError) as caught:
        check(pair, "degroot.v9.Collective")
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND
    with channel_to(pair) as channel:
        unknown = health_pb2.HealthCheckRequest(service="degroot.v9.Collective")
        watched = health_pb2_grpc.HealthStub(channel).Watch(unknown, timeout=600)
        assert next(watched).status == SERVICE_UNKNOWN
        watched.cancel()


def test_only_its_own_people_are_told_what_is_the_matter(pair):
    """Also while it cannot answer: nobody else learns of its disk."""
    request = health_pb2.HealthCheckRequest()
    for caller, is_told in (("node0", True), ("node1", False)):
        with channel_to(pair, caller=caller) as channel:
            _, call = health_pb2_grpc.HealthStub(channel).Check.with_call(request, timeout=60)
            assert ("degroot-troubles-bin" in dict(call.trailing_metadata())) is is_told


def test_a_node_that_hangs_is_not_alive(pair):
    pair.kill("node0", signal.SIGTERM)
    pair.fork("node0", before=make_hangable)
    until(lambda: is_open(pair.metrics), lambda: pair.log("node0"))
    pair.processes["node0"].send_signal(signal.SIGUSR1)
    until(lambda: ask(pair.metrics, "/live")[0] == 503, "it hangs, and is alive")
    assert ask(pair.metrics, "/live")[1].startswith("the event loop has not answered for ")
    assert ask(pair.metrics, "/ready")[1].startswith("the event loop has not answered for ")
    assert read_metric(pair.metrics, "degroot_ready") == 0
