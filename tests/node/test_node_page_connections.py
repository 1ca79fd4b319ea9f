"""Connections of the page: strangers who hold many and send little keep nobody out, and take no memory to speak of."""

import asyncio
import contextlib
import socket
import time
from threading import Thread

import httpx
import pytest
from support.consortium import Consortium, free_ports
from support.processes import wait_for

from degroot.node.page import connections
from degroot.node.page.app import _Server, _settings
from degroot.node.page.connections import HEAD_BYTES, MAX_CONNECTIONS
from degroot.node.page.tokens import make_operator_token

HALVES = {
    "nothing": b"",
    "half a request line": b"GET /api/st",
    "half the headers": b"GET /api/state HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: ",
    "half a body": b"POST /api/ask HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000\r\n\r\n{",
}


@contextlib.contextmanager
def held(port, count, sent):
    """So many connections that sent this."""
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            each = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
            with contextlib.suppress(OSError):  # it has to make way already
                each.sendall(sent)
        yield


def memory(pid):
    """Bytes that a process has in memory."""
    with open(f"/proc/{pid}/statm") as file:
        return 4096 * int(file.read().split()[1])


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with Consortium(tmp_path_factory.mktemp("one"), 1, evidence="own") as made:
        (made.port,) = free_ports(1)
        made.write("node0", limits=f"[page]\nport = {made.port}\n")
        made.fork()
        token = make_operator_token(made.folder / "node0" / "state")
        with httpx.Client(
            base_url=f"http://127.0.0.1:{made.port}", headers={"Authorization": f"Bearer {token}"}, timeout=60
        ) as made.browser:
            wait_for(lambda: answers(made.browser))
            yield made


def answers(browser):
    with contextlib.suppress(httpx.TransportError):
        return browser.get("/api/session", headers={"Connection": "close"}).status_code == 200


@pytest.mark.parametrize(
    ("count", "what"),
    [
        (250, "nothing"),
        (1000, "half the headers"),
        *(pytest.param(count, what, marks=pytest.mark.slow) for count in (250, 1000) for what in HALVES),
    ],
)
def test_half_open_connections_keep_nobody_out(node, count, what):
    pid = node.processes["node0"].pid
    with node.browser.stream("GET", "/events") as stream:
        lines = stream.iter_lines()
        assert next(lines) == "event: state"
        before = memory(pid)
        with held(node.port, count, HALVES[what]):
            for _ in range(3):
                assert answers(node.browser)
            reply = node.browser.post("/api/ask", json={"rows": [[0, 0, 0]]}, headers={"Connection": "close"})
            assert reply.status_code == 202
            assert "event: state" in lines  # an open page goes on
            assert memory(pid) - before < 64e6


@contextlib.contextmanager
def serving(app):
    """The page's server around an application, in this process; its port."""

    async def run():
        server.task = asyncio.create_task(server.serve([listening]))
        while not stopping:
            await asyncio.sleep(0.01)
        server.should_exit = True
        await server.task

    stopping, listening = [], socket.create_server(("127.0.0.1", 0))
    server = _Server(_settings(app))
    thread = Thread(target=lambda: asyncio.run(run()))
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        stopping.append(True)
        thread.join()
        listening.close()


async def read_all(scope, receive, send):
    """An application that replies with the length of the body, once it is there."""
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
    body = str(size).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


def read_reply(connection):
    """The body of a reply that is one digit."""
    connection.settimeout(60)
    with connection.makefile("rb") as file:
        while file.readline() != b"\r\n":
            pass
        return file.read(1)


def is_closed(each):
    """Whether the other side has closed a connection, once what it has sent is read."""
    each.settimeout(60)
    with contextlib.suppress(ConnectionError):
        while each.recv(1 << 16):
            pass
    return True


@pytest.mark.parametrize("what", HALVES)
def test_what_does_not_come_in_time_is_not_waited_for(monkeypatch, what):
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.2)
    monkeypatch.setattr(connections, "BODY_SECONDS", 0.2)
    with serving(read_all) as port, socket.create_connection(("127.0.0.1", port)) as slow:
        slow.sendall(HALVES[what])
        assert is_closed(slow)


def takes(connection, sent):
    """Whether a connection is open still, a little after something was sent."""
    try:
        connection.sendall(sent)
        time.sleep(0.05)
        return connection.recv(100, socket.MSG_DONTWAIT) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


def test_a_drop_every_now_and_then_does_not_buy_time(monkeypatch):
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.3)
    with serving(read_all) as port, socket.create_connection(("127.0.0.1", port)) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        assert wait_for(lambda: not takes(slow, b"X: y\r\n"))


def test_one_who_sends_slowly_and_in_time_is_answered():
    with serving(read_all) as port, socket.create_connection(("127.0.0.1", port)) as slow:
        for part in (b"POST / HT", b"TP/1.1\r\nHost: 127.0.0.1\r\nContent-Le", b"ngth: 5\r\n\r\n12", b"345"):
            slow.sendall(part)
            time.sleep(0.02)
        assert read_reply(slow) == b"5"


def test_one_who_does_not_read_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(connections, "READ_SECONDS", 0.2)
    ended = []

    async def reply_at_length(scope, receive, send):
        """More than all buffers hold."""
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(1000):
            await send({"type": "http.response.body", "body": bytes(1 << 16), "more_body": True})
        ended.append(True)

    with serving(reply_at_length) as port, socket.create_connection(("127.0.0.1", port)) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert wait_for(lambda: ended)


def test_a_request_without_end_is_refused_before_it_takes_memory():
    with serving(read_all) as port, socket.create_connection(("127.0.0.1", port)) as endless:
        endless.settimeout(60)
        with contextlib.suppress(ConnectionError):
            endless.sendall(b"GET / HTTP/1.1\r\nX: " + b"y" * 4 * HEAD_BYTES)
        with contextlib.suppress(ConnectionError):
            assert endless.recv(100).startswith(b"HTTP/1.1 400 ")
        assert is_closed(endless)


def test_the_one_whose_request_is_due_for_longest_makes_way(monkeypatch):
    monkeypatch.setattr(connections, "HEAD_SECONDS", 600.0)  # however slow the machine is
    begun = []

    async def tell_and_read(scope, receive, send):
        begun.append(True)
        await read_all(scope, receive, send)

    with serving(tell_and_read) as port, contextlib.ExitStack() as stack:

        def connect():
            return stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))

        first = connect()
        first.sendall(b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\n\r\n1")  # which is being answered
        assert wait_for(lambda: begun)
        others = [connect() for _ in range(MAX_CONNECTIONS)]
        assert is_closed(others[0])
        first.sendall(b"2")
        assert read_reply(first) == b"2"
        others[-1].sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert read_reply(others[-1]) == b"0"
