"""The service manager: what systemd is told of a node is so, at the time when it is told."""

import contextlib
import os
import signal
import socket
import tempfile
import zlib
from pathlib import Path

import pytest
from support.consortium import PATIENCE, Consortium

from degroot.node.server.service_manager import ServiceManager

WAIT_SECONDS = 120.0


def name_socket(folder):
    """An abstract socket of Linux, which has no file."""
    return f"@degroot-tests-{zlib.crc32(bytes(folder))}"


@contextlib.contextmanager
def listen(address):
    """A socket as systemd's."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(f"\0{address[1:]}" if address.startswith("@") else address)
        listening.settimeout(WAIT_SECONDS)
        yield listening


def hear(listening):
    """The next datagram, as its entries."""
    return dict(line.split("=", 1) for line in listening.recv(4096).decode().split("\n"))


def hear_until(listening, key):
    """What is told until something of this kind is, that included; without heartbeats, which come at any time."""
    heard = []
    while not heard or key not in heard[-1]:
        entries = hear(listening)
        heard += [entries] if "WATCHDOG" not in entries else []
    return heard


@pytest.mark.parametrize("abstract", [False, True])
def test_what_is_told_comes_in_datagrams(tmp_path, abstract):
    with tempfile.TemporaryDirectory() as short:
        address = name_socket(tmp_path) if abstract else str(Path(short) / "notify")
        with listen(address) as listening:
            manager = ServiceManager({"NOTIFY_SOCKET": address})
            manager.tell_ready()
            assert hear(listening) == {"READY": "1"}
            manager.tell_reloading()
            told = hear(listening)
            assert told["RELOADING"] == "1"
            assert int(told["MONOTONIC_USEC"]) > 0
            manager.tell_status("all is well")
            manager.tell_status("all is well")  # which is known
            manager.tell_alive()  # which nobody waits for
            manager.tell_stopping()
            assert [hear(listening), hear(listening)] == [{"STATUS": "all is well"}, {"STOPPING": "1"}]


def test_without_a_service_manager_nothing_is_told_and_nothing_fails():
    ServiceManager({}).tell_ready()
    ServiceManager({"NOTIFY_SOCKET": "/nowhere/notify"}).tell_ready()
    ServiceManager({"NOTIFY_SOCKET": "@nobody-listens-there"}).tell_stopping()


@pytest.mark.parametrize(
    ("environment", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),  # it is another's
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_the_watchdog_is_fed_only_where_it_is_this_processs(environment, seconds):
    assert ServiceManager(environment).watchdog_seconds == seconds


def be_a_service(folder):
    """Before a node starts: as systemd starts it."""
    service = {
        "NOTIFY_SOCKET": name_socket(folder.parent),
        "WATCHDOG_USEC": "60000000",
        "WATCHDOG_PID": str(os.getpid()),
    }
    os.environ |= service


def test_a_node_tells_when_it_serves_reloads_and_stops(tmp_path):
    with listen(name_socket(tmp_path)) as listening, Consortium(tmp_path, 1, evidence="own") as consortium:
        consortium.fork(before=be_a_service)
        begun = hear_until(listening, "READY")
        with socket.create_connection(("127.0.0.1", consortium.ports["node0"]), PATIENCE):
            pass  # it listens: whoever is started after it can ask at once
        assert begun[0] == {"STATUS": "the node is getting ready: kernels are loaded, or compiled"}
        assert begun[-2:] == [{"STATUS": "the node can answer"}, {"READY": "1"}]
        while "WATCHDOG" not in hear(listening):
            pass  # it is fed, or this test ends with a timeout
        consortium.processes["node0"].send_signal(signal.SIGHUP)
        assert "RELOADING" in hear_until(listening, "RELOADING")[-1]
        hear_until(listening, "READY")
        assert '"event": "reloaded"' in consortium.log("node0")
        consortium.processes["node0"].send_signal(signal.SIGTERM)
        stopping = hear_until(listening, "STOPPING")
        assert stopping[-1] == {"STOPPING": "1"}
        assert consortium.processes["node0"].wait(PATIENCE) == 0
