"""Scores: which peers' models a node has scored on all of its rows, and what it answers from."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from degroot.compute.compiled import Array
from degroot.models.formats import VERSION_DIGITS
from degroot.node.errors import BadReply
from degroot.node.peers.link import Link
from degroot.node.protocol.codec import Malformed, Model
from degroot.node.protocol.schemas import ModelInputs
from degroot.node.records.metrics import Metrics
from degroot.node.scoring.load import own_residuals
from degroot.node.scoring.residual_store import Residuals, UnfinishedResiduals
from degroot.node.scoring.scored_agent import ScoredAgent
from degroot.node.server.model_service import predictions_in
from degroot.node.server.threads import run_in_thread, run_model_in_thread

if TYPE_CHECKING:
    from degroot.node.copies.copy import ModelCopy

OF_COPY = "copy:"  # before the digest of a copied file
TELL_SECONDS = 2.0  # between lines that say how far calibration is

Predict = Callable[[Array], Awaitable[Array]]  # of rows (m, d): what a model says of them, (m, Q)


class CalibratedScores:
    """All rows are put to every peer's model once for each version, in shuffled chunks: calibration.

    The model is asked at its owner's, or a copy of it here.
    """

    def __init__(self, first: ScoredAgent, residuals: Residuals, chunk_rows: int, metrics: Metrics, log: Any) -> None:
        self._first, self._own = first, own_residuals(first)
        self._residuals, self._chunk_rows, self._metrics, self._log = residuals, chunk_rows, metrics, log
        self._complete = residuals.find_complete()
        self._loaded: dict[Model, Array] = {}  # residuals that were read, of the models that are answered with
        self._copies: dict[str, ModelCopy] = {}  # of scored models, by name
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

    def has_scored(self, model: Model, copy: "ModelCopy | None" = None) -> bool:
        """Whether questions are answered with this version of a peer's model, asked at its owner's or this copy."""
        return model in self.seat.scored and self.seat.copies.get(model.name) is copy

    async def score_copy(self, copy: "ModelCopy", link: Link) -> None:
        """Score a copy of a peer's model, unless that is done; no row leaves."""
        await self._score(_name_scored(copy), link, copy.predict_in_thread, copy.inputs, copy)

    async def score(self, link: Link) -> None:
        """Score a peer's model at its owner's, unless that is done; what was finished before is not asked again."""
        model, seat = Model(link.name, link.version), self._first

        async def predict(rows: Array) -> Array:
            return await query_model(link, model.version, rows, seat.outputs, seat.schema_digest)

        await self._score(model, link, predict, link.inputs, None)

    async def _score(
        self, model: Model, link: Link, predict: Predict, inputs: ModelInputs, copy: "ModelCopy | None"
    ) -> None:
        if model not in self._complete:
            work = await run_in_thread(self._residuals.begin, model, self._chunk_rows)
            self._log.info(
                "calibrating",
                peer=link.name,
                version=_name_model(model).version,
                done=round(work.progress, 3),
                copy=bool(copy),
            )
            await self._calibrate(link, work, predict, inputs)
            async with self._building:  # while nobody reads what is forgotten
                await run_in_thread(work.finish)
                self._residuals.forget_earlier(model)
                self._complete = self._residuals.find_complete()
            self._log.info("calibrated", peer=link.name, version=_name_model(model).version, copy=bool(copy))
        link.progress = 1.0
        if not self.has_scored(model if copy is None else copy.model, copy):
            self._copies = {name: each for name, each in self._copies.items() if name != model.name}
            self._copies |= {} if copy is None else {model.name: copy}
            await self._reseat()

    async def _calibrate(self, link: Link, work: UnfinishedResiduals, predict: Predict, inputs: ModelInputs) -> None:
        """Residuals of all rows, NaN of those for which the model lacks an input: it is not asked about them."""
        told, agent = time.monotonic(), self._first.agent
        for chunk in work.remaining():
            rows = work.rows(chunk)
            labels, able = agent.y[rows].reshape(len(rows), -1), inputs.find_able(agent.X[rows], agent.lacks)
            residuals = np.full(labels.shape, np.nan)
            if len(able):
                residuals[able] = await predict(agent.X[rows[able]]) - labels[able]
            await run_in_thread(work.write, chunk, residuals)
            link.progress = work.progress
            self._metrics.calibrated(link.name, link.progress)
            if time.monotonic() - told > TELL_SECONDS:
                told = time.monotonic()
                self._log.info("calibrating", peer=link.name, done=round(link.progress, 3))

    async def _reseat(self) -> None:
        """A new `ScoredAgent`, when something has changed; questions that are open keep the old one."""
        async with self._building:
            loaded = await run_in_thread(self._load)
            kept = {_name_model(model): residuals for model, residuals in loaded.items()}
            kept[Model(self._first.agent.name, self._first.version)] = self._own
            copies = {name: each for name, each in self._copies.items() if _name_scored(each) in self._complete}
            self.seat = await run_in_thread(ScoredAgent.taken, self._first, kept, copies)
            self._loaded = await run_in_thread(_share, loaded, self.seat)

    def _load(self) -> dict[Model, Array]:
        """The residuals of the models to answer with. Those that are damaged are removed, and scored anew."""
        loaded: dict[Model, Array] = {}
        for each in sorted(model for model in self._complete if model.name in self._names):
            residuals = self._loaded[each] if each in self._loaded else self._residuals.read(each)
            if residuals is None:
                self._complete.discard(each)
            else:
                loaded[each] = residuals
        return loaded


def _share(loaded: Mapping[Model, Array], seat: ScoredAgent) -> dict[Model, Array]:
    """The same residuals, as far as they are, without gaps, where the seat has them already: not twice in memory."""
    columns = dict(zip(seat.scored, np.moveaxis(seat.scorer.residuals, -1, 0), strict=True))
    return {
        model: residuals if np.isnan(residuals).any() else columns[_name_model(model)]
        for model, residuals in loaded.items()
    }


def _name_scored(copy: "ModelCopy") -> Model:
    """By which the residuals of a copy are known: the whole digest of its file, whatever its owner says of it."""
    return Model(copy.model.name, f"{OF_COPY}{copy.bundle.manifest.digest.hex()}")


def _name_model(scored: Model) -> Model:
    """The model whose residuals are known so."""
    if not scored.version.startswith(OF_COPY):
        return scored
    return Model(scored.name, scored.version.removeprefix(OF_COPY)[:VERSION_DIGITS])


async def query_model(link: Link, version: str, rows: Array, outputs: int, digest: str = "") -> Array:
    """What this version of a peer's model says of rows, (m, Q). If it has another by now, it refuses."""
    answer = await link.infer(rows, version, digest)
    if answer.model_version != version:
        raise BadReply(link.name, f"answers with version {answer.model_version[:100]!r} of its model, not {version!r}")
    try:
        return predictions_in(answer, len(rows), outputs)
    except Malformed as error:
        raise BadReply(link.name, str(error)) from error
