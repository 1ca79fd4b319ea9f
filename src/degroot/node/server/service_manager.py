"""The service manager: reports to systemd how the node stands, by the protocol of sd_notify."""

import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress

MICROSECONDS = 1_000_000


class ServiceManager:
    """Sends datagrams to the socket that systemd names in the environment; without one it sends nothing.

    What it says is also a way for tests and other supervisors to wait for a node. A name that begins with @ is of an
    abstract socket. Examples: ``READY=1``, ``STATUS=answering``.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        path = environment.get("NOTIFY_SOCKET", "")
        self._address = f"\0{path[1:]}" if path.startswith("@") else path
        self._status = ""
        self.watchdog_seconds = _find_watchdog_seconds(environment)

    def tell_ready(self) -> None:
        """Say that the node serves: at its start, and again after it has read its files anew."""
        self._send("READY=1")

    def tell_reloading(self) -> None:
        """Say that the node reads its files anew."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def tell_stopping(self) -> None:
        """Say that the node finishes what is in flight."""
        self._send("STOPPING=1")

    def tell_alive(self) -> None:
        """Say that the event loop answers, if that is waited for."""
        if self.watchdog_seconds is not None:
            self._send("WATCHDOG=1")

    def tell_status(self, status: str) -> None:
        """Say in a sentence how the node stands, if that is new."""
        if status != self._status:
            self._status = status
            self._send(f"STATUS={status}")

    def _send(self, *lines: str) -> None:
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as speaking:  # nobody may listen
            speaking.setblocking(False)
            speaking.sendto("\n".join(lines).encode(), self._address)


def _find_watchdog_seconds(environment: Mapping[str, str]) -> float | None:
    """Within how many seconds the manager wants to hear that this process is alive; None: it does not."""
    microseconds, process = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
    is_meant = not process or process == str(os.getpid())
    return int(microseconds) / MICROSECONDS if is_meant and microseconds.isdecimal() and int(microseconds) else None
