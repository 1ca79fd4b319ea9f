"""Scores: which models a node has scored on its rows, and the seat that it answers from."""

import asyncio
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.node.faults import BadReply, PeerError
from degroot.node.inference import predictions_in
from degroot.node.links import Link
from degroot.node.metrics import Metrics
from degroot.node.nearby import rows_near
from degroot.node.organisation import own_residuals
from degroot.node.residuals import Residuals, Unfinished
from degroot.node.scored import Model
from degroot.node.seat import Seat
from degroot.node.threads import asked_model, computed
from degroot.node.wire import Malformed
from degroot.points import Array

TELL_SECONDS = 2.0  # between lines that say how far calibration is


class Scores:
    """All rows are put to every peer's model once, in shuffled chunks: calibration."""

    def __init__(self, first: Seat, residuals: Residuals, chunk_rows: int, metrics: Metrics, log: Any) -> None:
        self._first, self._own = first, own_residuals(first)
        self._residuals, self._chunk_rows, self._metrics, self._log = residuals, chunk_rows, metrics, log
        self._complete = dict(residuals.complete())
        self._names: frozenset[str] = frozenset()
        self._building = asyncio.Lock()
        self.seat = first

    async def seat_for(self, _points: Array, _links: Mapping[str, Link]) -> Seat:
        """What a question about points is answered from."""
        return self.seat

    async def keep(self, names: Collection[str]) -> None:
        """Judge the models of these peers, as far as they are scored, and no others."""
        self._names = frozenset(names)
        await self._reseat()

    async def take(self, first: Seat) -> None:
        """Go on with another model of one's own."""
        own = await asked_model(False, own_residuals, first)
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
        work = await computed(False, self._residuals.begun, model, self._chunk_rows)
        self._log.info("calibrating", peer=link.name, version=model.version, done=round(work.progress, 3))
        await self._calibrate(link, model.version, work)
        work.finish()
        self._residuals.forget_earlier(model)
        self._complete = dict(self._residuals.complete())
        await self._reseat()
        self._log.info("calibrated", peer=link.name, version=model.version)

    async def _calibrate(self, link: Link, version: str, work: Unfinished) -> None:
        told = time.monotonic()
        for chunk in work.remaining():
            residuals = await residuals_at(link, version, self._first, work.rows(chunk))
            await computed(False, work.write, chunk, residuals)
            link.progress = work.progress
            self._metrics.calibrated(link.name, link.progress)
            if time.monotonic() - told > TELL_SECONDS:
                told = time.monotonic()
                self._log.info("calibrating", peer=link.name, done=round(link.progress, 3))

    async def _reseat(self) -> None:
        """A new seat, when something has changed; questions that are open keep the old one."""
        async with self._building:
            kept: dict[Model, Array] = {each: r for each, r in self._complete.items() if each.name in self._names}
            kept[Model(self._first.agent.name, self._first.version)] = self._own
            self.seat = await computed(False, Seat.taken, self._first, kept)


class OnDemand:
    """Only the neighbours of asked points are put to a peer's model, and what it says is kept: the paper's way."""

    def __init__(self, first: Seat, residuals: Residuals, chunk_rows: int) -> None:
        self._first, self._own = first, own_residuals(first)
        self._residuals, self._chunk_rows = residuals, chunk_rows
        self._known: dict[Model, Any] = {}
        self._names: frozenset[str] = frozenset()
        self._asking = asyncio.Lock()
        self.seat = first

    async def keep(self, names: Collection[str]) -> None:
        """Judge the models of these peers, and no others."""
        self._names = frozenset(names)
        self._announce()

    async def take(self, first: Seat) -> None:
        """Go on with another model of one's own."""
        self._own = await asked_model(False, own_residuals, first)
        self._first = first
        self._announce()

    def known(self, link: Link) -> bool:
        """Whether the peer's model, as it is now, can be scored when a question comes."""
        return Model(link.name, link.version) in self._known

    async def score(self, link: Link) -> None:
        """Get ready to score a peer's model."""
        model, link.progress = Model(link.name, link.version), 1.0
        if model not in self._known:
            kept = await computed(False, self._residuals.cache, model)
            others = {each: values for each, values in self._known.items() if each.name != model.name}
            self._known = others | {model: kept}
            self._announce()

    async def seat_for(self, points: Array, links: Mapping[str, Link]) -> Seat:
        """A seat with all models that are known near these points, once their owners have been asked."""
        first, own = self._first, self._own
        rows = await computed(False, _rows_near, first, points)
        async with self._asking:
            known = {model: kept for model, kept in self._known.items() if model.name in self._names}
            asked = [self._ask(links.get(model.name), model, kept, rows) for model, kept in known.items()]
            scored = [model for model in await asyncio.gather(*asked) if model is not None]
        residuals: dict[Model, Array] = {model: known[model] for model in scored}
        residuals[Model(first.agent.name, first.version)] = own
        return await computed(False, Seat.taken, first, residuals)  # which copies all that is known

    async def _ask(self, link: Link | None, model: Model, kept: Any, rows: NDArray[np.intp]) -> Model | None:
        """The model, if it is known at all these rows in the end."""
        new = rows[np.isnan(kept[rows]).any(axis=1)]
        if len(new) == 0:
            return model
        if link is None or link.trouble is not None or link.version != model.version:
            return None
        new = np.random.default_rng().permutation(new)  # their order tells nothing
        try:
            for start in range(0, len(new), self._chunk_rows):
                chunk = new[start : start + self._chunk_rows]
                kept[chunk] = await residuals_at(link, model.version, self._first, chunk)
        except PeerError:
            return None
        return model

    def _announce(self) -> None:
        """Tell which models can be scored."""
        scored = [model for model in self._known if model.name in self._names]
        own = Model(self._first.agent.name, self._first.version)
        self.seat = replace(self._first, scored=tuple(sorted([*scored, own])))


async def residuals_at(link: Link, version: str, seat: Seat, rows: NDArray[np.intp]) -> Array:
    """What this version of a peer's model is off by on some rows, (m, Q). If it has another by now, it refuses."""
    answer = await link.infer(seat.agent.X[rows], version)
    if answer.model_version != version:
        raise BadReply(link.name, f"answers with version {answer.model_version[:100]!r} of its model, not {version!r}")
    try:
        predictions = predictions_in(answer, len(rows), seat.outputs)
    except Malformed as error:
        raise BadReply(link.name, str(error)) from error
    return predictions - seat.agent.y[rows].reshape(len(rows), -1)


def _rows_near(seat: Seat, points: Array) -> NDArray[np.intp]:
    return rows_near(seat.judge, seat.judge.locate(points), seat.option.reach)
