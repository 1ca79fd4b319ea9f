"""Reloading: a node takes in certificates, a roster, its configuration and its model while it runs."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from cryptography import x509

from degroot import models
from degroot.agents.agent import try_model
from degroot.exceptions import DeGrootError, InvalidInput
from degroot.files.atomic import find_stamp
from degroot.node.config import Configuration, read
from degroot.node.config.check import secured
from degroot.node.config.names import CA
from degroot.node.peers.peers import Peers
from degroot.node.scoring.load import is_near_by
from degroot.node.scoring.scored_agent import ScoredAgent
from degroot.node.server.access import Access
from degroot.node.server.service_manager import ServiceManager
from degroot.node.server.threads import run_model_in_thread
from degroot.node.tls.credentials import WARNING_DAYS
from degroot.node.tls.signing import keep_authorities

ADDRESS_SECONDS = 10.0  # between looks at a model that is served elsewhere

Stamp = tuple[int, int, int] | None


async def watch_files(
    circle: Peers, access: Access, unsafe_pickle: bool, asked: asyncio.Event, manager: ServiceManager, log: Any
) -> None:
    """Look after the certificate, the roster, the configuration and the model, as long as the node runs.

    `asked`: set when all of them are to be read anew, changed or not.
    """
    configuration = circle.file
    files = {"configuration": configuration.path, "model": configuration.model.file}
    seen = {what: _find_stamp(path) for what, path in files.items()}
    looked = asyncio.get_running_loop().time()
    credentials = circle.wiring.credentials
    kept = set(() if credentials is None else credentials.authorities)  # in the state folder
    expiry = ExpiryWatch(circle, log)
    expiry.look()
    while True:
        is_asked = await _wait(asked, configuration.timing.probe_seconds)
        if is_asked:
            manager.tell_reloading()
        changes: dict[str, Callable[[], Awaitable[None]]] = {
            "certificate": partial(_renew, circle, is_asked, log),
            "former CAs": partial(_keep_authorities, circle, kept),
            "roster": partial(_look_for_roster, circle, is_asked),
            "kept roster": partial(_save_roster, circle),
        }
        changed = {what for what, path in files.items() if _changed(seen, what, path)}
        gone = {what: path for what, path in files.items() if path is not None and seen[what] is None}
        if "configuration" in changed or is_asked:
            changes["configuration"] = partial(_reread, circle, log)
        now = asyncio.get_running_loop().time()
        served = files["model"] is None and now - looked > ADDRESS_SECONDS
        if "model" in changed or served or is_asked:
            looked = now
            changes["model"] = partial(_reload, circle, unsafe_pickle, log)
        changes |= {what: partial(_miss, path) for what, path in gone.items()}
        known = {what: why for what, why in circle.failures.items() if what not in changed and not is_asked}
        for what, take_in in changes.items():
            reason = await _find_failure(what, take_in, log)
            if reason and reason != known.get(what):
                log.error("change not taken in", what=what, reason=reason)
            circle.failures[what] = reason
        access.end_lapsed()
        expiry.look()
        if is_asked:
            log.info("reloaded", failures=[what for what, reason in circle.failures.items() if reason])
            manager.tell_ready()


async def _find_failure(what: str, take_in: Callable[[], Awaitable[None]], log: Any) -> str:
    """Take in a change; why that could not be done, if it could not. The node then goes on as it was."""
    try:
        await take_in()
    except DeGrootError as error:
        return str(error)
    except Exception as error:  # a mistake of ours: later changes are taken in all the same
        log.exception("a change could not be taken in", what=what)
        return f"{type(error).__name__}: {error}"
    return ""


async def _wait(asked: asyncio.Event, seconds: float) -> bool:
    """Wait so long, or until it is asked for; whether it was."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asked.wait()
    was_set = asked.is_set()
    asked.clear()
    return was_set


async def _miss(path: Path) -> None:
    raise InvalidInput(f"The file must stay where it is; {path} is gone. The node goes on as it was.")


async def _renew(circle: Peers, is_asked: bool, log: Any) -> None:
    """Take in the certificate, the key and the CA as they are now; links notice, and connect anew."""
    credentials = circle.wiring.credentials
    if credentials is not None and credentials.refresh(force=is_asked):
        log.info("certificate taken in", until=f"{credentials.expires:%Y-%m-%dT%H:%M:%SZ}", serial=credentials.serial)
        for link in circle.links.values():
            link.wake()


async def _keep_authorities(circle: Peers, kept: set[x509.Certificate]) -> None:
    """Keep the certificates of the CA in the state folder, which records go back to when it has another key."""
    credentials = circle.wiring.credentials
    if credentials is None or kept.issuperset(credentials.authorities):
        return
    try:
        keep_authorities(circle.file.state, credentials.authorities)
    except OSError as error:
        told = f"Certificates of the CA must be kept in the state folder; {circle.file.state}: {error.strerror}."
        raise InvalidInput(told) from error
    kept.update(credentials.authorities)


async def _look_for_roster(circle: Peers, is_asked: bool) -> None:
    if circle.roster_store is not None:
        newer = circle.roster_store.look_at_file(force=is_asked)
        if newer is not None:
            circle.use_roster(newer, "file")


async def _save_roster(circle: Peers) -> None:
    """Keep the roster in the state folder, where that was not possible when it was taken in."""
    if circle.roster_store is not None:
        circle.roster_store.save()


class ExpiryWatch:
    """Tells, in the metrics and once a day in the log, when the certificates of the node and of its CA end."""

    def __init__(self, circle: Peers, log: Any) -> None:
        self._circle, self._log = circle, log
        self._logged: dict[str, tuple[datetime, int]] = {}  # a certificate's end, and how many days before it

    def look(self) -> None:
        """Look at them now."""
        credentials, metrics = self._circle.wiring.credentials, self._circle.wiring.metrics
        store = self._circle.roster_store
        metrics.show_roster(0 if store is None else store.number)
        if credentials is None:
            return
        for name, ends in ((self._circle.configuration.name, credentials.expires), (CA, credentials.ca_expires)):
            metrics.show_certificate_end(name, ends.timestamp())
            days = (ends - datetime.now(UTC)).days  # negative once it has ended
            if days >= WARNING_DAYS or self._logged.get(name) == (ends, days):
                continue
            self._logged[name], until = (ends, days), f"{ends:%Y-%m-%dT%H:%M:%SZ}"
            if days >= 0:
                self._log.warning("certificate expires", name=name, days=days, until=until)
            else:
                self._log.error("certificate expired", name=name, until=until)


async def _reread(circle: Peers, log: Any) -> None:
    fresh, now = read(circle.file.path), circle.file
    if now.identity is None:  # it runs without TLS: all addresses stay on this machine
        fresh = secured(fresh, insecure_loopback=True)
    fixed = replace(fresh, peers=now.peers, clients=now.clients, quorum=now.quorum)
    if fixed != now:
        log.warning("a restart is needed", reason="only peers, clients and the quorum can change while a node runs")
    await circle.change(replace(now, peers=fresh.peers, clients=fresh.clients, quorum=fresh.quorum))
    log.info("configuration taken in", peers=len(circle.configuration.peers), clients=len(fresh.clients))


async def _reload(circle: Peers, unsafe_pickle: bool, log: Any) -> None:
    if await run_model_in_thread(models.is_still, circle.configuration.model, circle.scores.seat.version):
        return
    seat = await run_model_in_thread(_with_model, circle.scores.seat, circle.configuration, unsafe_pickle)
    if seat.version == circle.scores.seat.version:
        return
    if seat.agent.own_predictions is not None:
        log.warning("own predictions are of the earlier model", version=seat.version)
    await circle.scores.take(seat)
    log.info("model taken in", version=seat.version)


def _with_model(seat: ScoredAgent, configuration: Configuration, unsafe_pickle: bool) -> ScoredAgent:
    """The same seat with the model as it is now."""
    model, version = models.load(configuration.model, unsafe_pickle=unsafe_pickle, schema=seat.agent.schema)
    models.check_features(model, seat.feature_names)
    agent = seat.agent.copy_without_caches()
    agent.model = model
    try_model(agent)
    near_by = is_near_by(configuration, agent)
    return replace(seat, agent=agent, version=version, scorer=replace(seat.scorer, agent=agent), near_by=near_by)


def _find_stamp(path: Path | None) -> Stamp:
    return None if path is None else find_stamp(path)


def _changed(seen: dict[str, Stamp], what: str, path: Path | None) -> bool:
    """Whether a file is there and another than when last seen."""
    now = _find_stamp(path)
    is_changed = now is not None and now != seen[what]
    seen[what] = now
    return is_changed
