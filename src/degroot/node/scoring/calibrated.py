"""Scores by calibration: which models a node has scored on all of its rows, and what it answers from."""

import asyncio
import time
from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array
from degroot.node.errors import BadReply
from degroot.node.peers.link import Link
from degroot.node.protocol.codec import Malformed, Model
from degroot.node.records.metrics import Metrics
from degroot.node.scoring.load import own_residuals
from degroot.node.scoring.residual_store import Residuals, UnfinishedResiduals
from degroot.node.scoring.scored_agent import ScoredAgent
from degroot.node.server.model_service import predictions_in
from degroot.node.server.threads import run_in_thread, run_model_in_thread

TELL_SECONDS = 2.0  # between lines that say how far calibration is


class CalibratedScores:
    """All rows are put to every peer's model once, in shuffled chunks: calibration."""

    def __init__(self, first: ScoredAgent, residuals: Residuals, chunk_rows: int, metrics: Metrics, log: Any) -> None:
        self._first, self._own = first, own_residuals(first)
        self._residuals, self._chunk_rows, self._metrics, self._log = residuals, chunk_rows, metrics, log
        self._complete = dict(residuals.complete())
        self._names: frozenset[str] = frozenset()
        self._building = asyncio.Lock()
        self.seat = first

    async def keep(self, names: Collection[str]) -> None:
        """Answer with the models of these peers, as far as they are scored, and no others."""
        self._names = frozenset(names)
        await self._reseat()

    async def take(self, first: ScoredAgent) -> None:
        """Go on with another model of one's own."""
        own = await run_model_in_thread(own_residuals, first)
        self._first, self._own = first, own
        await self._reseat()

    def known(self, link: Link) -> bool:
        """Whether the peer's model, as it is now, is scored and questions are answered with that."""
        return Model(link.name, link.version) in self.seat.scored

    async def score(self, link: Link) -> None:
        """Score a peer's model, unless it is scored already; what was finished before is not asked again."""
        model = Model(link.name, link.version)
        if model in self._complete:
            link.progress = 1.0
            return
        work = await run_in_thread(self._residuals.begun, model, self._chunk_rows)
        self._log.info("calibrating", peer=link.name, version=model.version, done=round(work.progress, 3))
        await self._calibrate(link, model.version, work)
        work.finish()
        self._residuals.forget_earlier(model)
        self._complete = dict(self._residuals.complete())
        await self._reseat()
        self._log.info("calibrated", peer=link.name, version=model.version)

    async def _calibrate(self, link: Link, version: str, work: UnfinishedResiduals) -> None:
        told = time.monotonic()
        for chunk in work.remaining():
            residuals = await residuals_at(link, version, self._first, work.rows(chunk))
            await run_in_thread(work.write, chunk, residuals)
            link.progress = work.progress
            self._metrics.calibrated(link.name, link.progress)
            if time.monotonic() - told > TELL_SECONDS:
                told = time.monotonic()
                self._log.info("calibrating", peer=link.name, done=round(link.progress, 3))

    async def _reseat(self) -> None:
        """A new `ScoredAgent`, when something has changed; questions that are open keep the old one."""
        async with self._building:
            kept: dict[Model, Array] = {each: r for each, r in self._complete.items() if each.name in self._names}
            kept[Model(self._first.agent.name, self._first.version)] = self._own
            self.seat = await run_in_thread(ScoredAgent.taken, self._first, kept)


async def residuals_at(link: Link, version: str, seat: ScoredAgent, rows: NDArray[np.intp]) -> Array:
    """What this version of a peer's model is off by on some rows, (m, Q). If it has another by now, it refuses."""
    answer = await link.infer(seat.agent.X[rows], version)
    if answer.model_version != version:
        raise BadReply(link.name, f"answers with version {answer.model_version[:100]!r} of its model, not {version!r}")
    try:
        predictions = predictions_in(answer, len(rows), seat.outputs)
    except Malformed as error:
        raise BadReply(link.name, str(error)) from error
    return predictions - seat.agent.y[rows].reshape(len(rows), -1)
