"""Reloading: a node takes in a new roster and a new model while it runs."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

from degroot import models
from degroot.agents.agent import try_model
from degroot.exceptions import DeGrootError
from degroot.files.atomic import find_stamp
from degroot.node.config import Configuration, read
from degroot.node.config.check import secured
from degroot.node.peers.peers import Peers
from degroot.node.scoring.load import is_near_by
from degroot.node.scoring.scored_agent import ScoredAgent
from degroot.node.server.threads import run_model_in_thread

ADDRESS_SECONDS = 10.0  # between looks at a model that is served elsewhere

Stamp = tuple[int, int, int] | None


async def watch_files(circle: Peers, unsafe_pickle: bool, log: Any) -> None:
    """Look after the configuration and the model, as long as the node runs."""
    configuration = circle.configuration
    files = {"configuration": configuration.path, "model": configuration.model.file}
    seen = {what: _find_stamp(path) for what, path in files.items()}
    looked = asyncio.get_running_loop().time()
    while True:
        await asyncio.sleep(configuration.timing.probe_seconds)
        try:
            if _changed(seen, "configuration", files["configuration"]):
                await _reread(circle, log)
            now = asyncio.get_running_loop().time()
            served = files["model"] is None and now - looked > ADDRESS_SECONDS
            if served or _changed(seen, "model", files["model"]):
                looked = now
                await _reload(circle, unsafe_pickle, log)
        except DeGrootError as error:
            log.error("change not taken in", reason=str(error))
        except Exception:  # a mistake of ours: later changes are taken in all the same
            log.exception("change not taken in")


async def _reread(circle: Peers, log: Any) -> None:
    fresh, now = read(circle.configuration.path), circle.configuration
    if now.identity is None:  # it runs without TLS: all addresses stay on this machine
        fresh = secured(fresh, insecure_loopback=True)
    fixed = replace(fresh, peers=now.peers, clients=now.clients, quorum=now.quorum)
    if fixed != now:
        log.warning("a restart is needed", reason="only peers, clients and the quorum can change while a node runs")
    await circle.change(replace(now, peers=fresh.peers, clients=fresh.clients, quorum=fresh.quorum))
    log.info("roster taken in", peers=len(fresh.peers), clients=len(fresh.clients))


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
    if now is None or now == seen[what]:
        return False
    seen[what] = now
    return True
