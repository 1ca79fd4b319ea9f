"""Scores on demand: only the neighbours of asked points are put to a peer's model."""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array
from degroot.node.errors import PeerError
from degroot.node.peers.link import Link
from degroot.node.protocol.codec import Model
from degroot.node.scoring.calibrated import residuals_at
from degroot.node.scoring.load import own_residuals
from degroot.node.scoring.residual_store import Residuals
from degroot.node.scoring.scored_agent import ScoredAgent
from degroot.node.server.threads import run_in_thread, run_model_in_thread


class OnDemand:
    """Only the neighbours of asked points are put to a peer's model, and what it says is kept: the paper's way."""

    def __init__(self, first: ScoredAgent, residuals: Residuals, chunk_rows: int) -> None:
        self._first, self._own = first, own_residuals(first)
        self._residuals, self._chunk_rows = residuals, chunk_rows
        self._known: dict[Model, Any] = {}
        self._names: frozenset[str] = frozenset()
        self._asking = asyncio.Lock()
        self.seat = first

    async def keep(self, names: Collection[str]) -> None:
        """Score the models of these peers, and no others."""
        self._names = frozenset(names)
        self._announce()

    async def take(self, first: ScoredAgent) -> None:
        """Go on with another model of one's own."""
        self._own = await run_model_in_thread(own_residuals, first)
        self._first = first
        self._announce()

    def known(self, link: Link) -> bool:
        """Whether the peer's model, as it is now, can be scored when a question comes."""
        return Model(link.name, link.version) in self._known

    async def score(self, link: Link) -> None:
        """Get ready to score a peer's model."""
        model, link.progress = Model(link.name, link.version), 1.0
        if model not in self._known:
            kept = await run_in_thread(self._residuals.cache, model)
            others = {each: values for each, values in self._known.items() if each.name != model.name}
            self._known = others | {model: kept}
            self._announce()

    async def seat_for(self, points: Array, links: Mapping[str, Link]) -> ScoredAgent:
        """A seat with all models that are known near these points, once their owners have been asked."""
        first, own = self._first, self._own
        rows = await run_in_thread(_rows_near, first, points)
        async with self._asking:
            known = {model: kept for model, kept in self._known.items() if model.name in self._names}
            asked = [self._ask(links.get(model.name), model, kept, rows) for model, kept in known.items()]
            scored = [model for model in await asyncio.gather(*asked) if model is not None]
        residuals: dict[Model, Array] = {model: known[model] for model in scored}
        residuals[Model(first.agent.name, first.version)] = own
        return await run_in_thread(ScoredAgent.taken, first, residuals)  # which copies all that is known

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


def _rows_near(seat: ScoredAgent, points: Array) -> NDArray[np.intp]:
    scorer, reach = seat.scorer, seat.option.reach
    scorer.ready(reach)
    return scorer.near[reach].rows_near(scorer.transform(points))
