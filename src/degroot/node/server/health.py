"""Health: whether a node lives, and whether it can answer a question now. All that report it ask one object."""

import asyncio
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from degroot.node.config import Configuration
from degroot.node.peers.peers import Peers
from degroot.node.records.storage import find_storage_trouble
from degroot.node.server.service_manager import ServiceManager
from degroot.node.server.threads import run_in_thread

BEAT_SECONDS = 1.0  # between beats of the event loop
HANG_SECONDS = 15.0  # without a beat: the loop has hung
STORAGE_SECONDS = 10.0  # a disk that takes longer for one block does not answer

# what can be the matter, in the order in which it is reported
LOOP, TASK, STARTING, STOPPING, CERTIFICATE, STORAGE, ROSTER, QUORUM = TROUBLES = (
    "loop", "task", "starting", "stopping", "certificate", "storage", "roster", "quorum",
)  # fmt: skip
OF_OTHERS = (ROSTER, QUORUM)  # without others the node still answers its own people, from its own view

WARMING = "the node is getting ready: kernels are loaded, or compiled"
ANSWERING = "the node can answer"
CLOSING = "the node is shutting down"


class Health:
    """What keeps a node from answering, as of its last probe. Other threads may ask.

    The event loop beats, `beat`, and looks at everything every `timing.probe_seconds`, `watch`.
    """

    def __init__(
        self, configuration: Configuration, manager: ServiceManager, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._configuration, self._manager, self._clock = configuration, manager, clock
        self._state = _identify(configuration.state)
        self._beaten = self._looked = clock()
        self._phase: tuple[str, str] | None = (STARTING, WARMING)
        self._found: Mapping[str, str] = {}
        self._failed = ""  # which background task has failed, and why
        self._looking: asyncio.Task[str | None] | None = None  # at the state folder; a disk may take its time
        self._changed = asyncio.Event()

    def find_hang(self) -> str | None:
        """Why the node does not live: its event loop has hung; None: it lives."""
        silent = self._clock() - self._beaten
        return f"the event loop has not answered for {silent:.0f} s" if silent > HANG_SECONDS else None

    def find_troubles(self) -> dict[str, str]:
        """What keeps the node from answering all that it may be asked, by kind of `TROUBLES`; empty: nothing."""
        hang, phase = self.find_hang() or self._find_delay(), self._phase
        found = dict(self._found)
        found |= {} if hang is None else {LOOP: hang}
        found |= {TASK: self._failed} if self._failed else {}
        found |= {} if phase is None else dict([phase])
        return {kind: found[kind] for kind in TROUBLES if kind in found}

    def find_faults(self) -> dict[str, str]:
        """What keeps the node from answering any question at all."""
        return {kind: why for kind, why in self.find_troubles().items() if kind not in OF_OTHERS}

    def begin_serving(self) -> None:
        """Say that the kernels are warm and the port is bound."""
        self._enter(None)

    def begin_stopping(self) -> None:
        """Say that no questions are taken any more."""
        self._enter((STOPPING, CLOSING))

    def report_failure(self, reason: str) -> None:
        """Say that a background task has failed, without which the node does not notice what it should."""
        self._failed = reason
        self._tell()

    async def wait_for_change(self, seconds: float) -> None:
        """Wait until something changes, but not longer than so many seconds."""
        changed = asyncio.ensure_future(self._changed.wait())
        await asyncio.wait([changed], timeout=seconds)
        changed.cancel()

    async def beat(self) -> None:
        """Show that the event loop answers, as long as it runs."""
        while True:
            self._beaten = self._clock()
            self._manager.tell_alive()
            await asyncio.sleep(BEAT_SECONDS)

    async def watch(self, circle: Peers, log: Any) -> None:
        """Look at everything again and again, and when it stands differently with a peer, as long as the loop runs."""
        self._tell()
        while True:
            try:
                await self.look(circle)
            except Exception:  # a mistake of ours: `_find_delay` reports that nobody has looked since
                log.exception("the node's health could not be looked at")
            await circle.wait_for_change(self._configuration.timing.probe_seconds)

    async def look(self, circle: Peers) -> None:
        """Look at everything once."""
        told = {
            CERTIFICATE: _find_certificate_trouble(circle),
            STORAGE: await self._find_storage_trouble(),
            ROSTER: circle.removal,
            QUORUM: _find_quorum_trouble(circle),
        }
        found, self._looked = {kind: why for kind, why in told.items() if why is not None}, self._clock()
        if found != self._found:
            self._found = found
            self._tell()

    async def _find_storage_trouble(self) -> str | None:
        looking = self._looking or asyncio.create_task(run_in_thread(find_storage_trouble, self._configuration))
        self._looking = looking
        done, _ = await asyncio.wait([looking], timeout=STORAGE_SECONDS)
        if not done:  # it is waited for again with the next look: another would only take another thread
            return f"{self._configuration.state} cannot be written: the disk has not answered for {STORAGE_SECONDS:g} s"
        self._looking, state = None, self._configuration.state
        if self._state is not None and _identify(state) not in (None, self._state):
            return f"{state} is another folder than when the node started: restart the node"
        return looking.result()

    def _find_delay(self) -> str | None:
        """That nobody has looked for long: what was found then may not be so any more."""
        patience = self._configuration.timing.probe_seconds + STORAGE_SECONDS + HANG_SECONDS
        since = self._clock() - self._looked
        return f"the node has not looked at its state for {since:.0f} s" if since > patience else None

    def _enter(self, phase: tuple[str, str] | None) -> None:
        self._phase = phase
        self._tell()

    def _tell(self) -> None:
        """Wake whoever waits for a change, and say it to the service manager."""
        self._manager.tell_status("; ".join(self.find_troubles().values()) or ANSWERING)
        self._changed.set()
        self._changed = asyncio.Event()


def _find_certificate_trouble(circle: Peers) -> str | None:
    """Why nobody would connect to this node; None: its certificate is good, or it runs without."""
    credentials = circle.wiring.credentials
    if credentials is None:
        return None
    if credentials.ca_expires <= datetime.now(UTC):
        return f"the certificate of its CA expired on {credentials.ca_expires:%Y-%m-%d %H:%M} UTC"
    lapse = credentials.find_lapse(credentials.certificate)
    return None if lapse is None else f"this node: {lapse}"


def _find_quorum_trouble(circle: Peers) -> str | None:
    """Why there is no consensus, where evidence is for one."""
    if not circle.configuration.has_consensus:
        return None
    able, needed = circle.count_able(), circle.configuration.needed
    return None if able >= needed else f"no quorum: {able} of {len(circle.names)} nodes can take part, {needed} must"


def _identify(folder: Path) -> tuple[int, int] | None:
    """By which a folder is known, whatever is in it; None: it is not there."""
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
