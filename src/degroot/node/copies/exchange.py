"""The exchange of copies: this node's model is offered and pushed; peers' models are fetched, kept and opened."""

import asyncio
import time
from collections.abc import Callable, Collection
from typing import Any

from degroot.exceptions import DeGrootError
from degroot.node.config import COPY, QUERY, Configuration
from degroot.node.copies.bundle import Bundle
from degroot.node.copies.copy import CopyError, ModelCopy
from degroot.node.copies.offer import ModelOffer, NotOffered, check_takes_numbers, examine_model, offer_bundle
from degroot.node.copies.store import HeldCopies
from degroot.node.errors import PeerError
from degroot.node.peers.link import Link
from degroot.node.scoring.scored_agent import ScoredAgent
from degroot.node.server.threads import run_in_thread, run_model_in_thread
from degroot.node.tls.credentials import NodeCredentials

RETRY_SECONDS = 60.0  # before what failed is tried again

Key = tuple[str, ...]


class FailedAttempts:
    """What has failed lately: it is not tried again for a while."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failed: dict[Key, tuple[float, DeGrootError]] = {}

    def check(self, *key: str) -> None:
        """Raise the error again, if this has failed lately."""
        if self.has(*key):
            _, error = self._failed[key]
            raise type(error)(*error.args)

    def has(self, *key: str) -> bool:
        """Whether this has failed lately."""
        return key in self._failed and self._clock() - self._failed[key][0] < RETRY_SECONDS

    def add(self, error: DeGrootError, *key: str) -> None:
        """This has just failed; what failed before of the same peer and kind is forgotten."""
        self._failed = {each: failure for each, failure in self._failed.items() if each[:2] != key[:2]}
        self._failed[key] = self._clock(), error.with_traceback(None)


class CopyExchange:
    """Copies between one node and its peers.

    Parameters
    ----------
    seat : callable
        Gives what the node answers from, as it is now.
    credentials : NodeCredentials or None
        None: it runs without certificates, and there are no copies.
    """

    def __init__(
        self, configuration: Configuration, seat: Callable[[], ScoredAgent], log: Any,
        credentials: NodeCredentials | None = None,
    ) -> None:  # fmt: skip
        self._configuration, self._seat, self._log, self._credentials = configuration, seat, log, credentials
        self.held = HeldCopies(configuration, log)
        self._offer: ModelOffer | None = None  # of this node's own model, once it was examined
        self._examining, self._failed = asyncio.Lock(), FailedAttempts()

    async def change(self, configuration: Configuration) -> None:
        """Go on with another roster: whoever is in it, what is held of its model is known."""
        self._configuration, self._offer = configuration, None  # somebody may copy the model who could not before
        await self.held.change(configuration)

    async def keep(self, names: Collection[str]) -> None:
        """Keep no copies open but of these peers' models."""
        await self.held.close_others(names)

    # ---- this node's model ------------------------------------------------------------------------------------------

    @property
    def offer_lacking(self) -> str:
        """Why this node's model cannot be copied; empty: it can, or has not been examined.

        Until then it is offered: whoever is told that there will be no copy sends rows instead.
        """
        if self._configuration.identity is None:
            return "this node runs without certificates"
        try:
            check_takes_numbers(self._seat())
        except NotOffered as error:
            return str(error)
        offer = self._offer
        return "" if offer is None or offer.version != self._seat().version else offer.lacking

    async def make_own_bundle(self, recipient: str) -> bytes:
        """This node's model for a peer, as a signed bundle."""
        seat = self._seat()
        offer = await self._examine(seat)
        sign = None if self._credentials is None else self._credentials.sign
        return await run_in_thread(offer_bundle, self._configuration, seat, offer, recipient, sign)

    async def push(self, link: Link) -> None:
        """Give this node's model to a peer that may copy it and wants to, and cannot dial this node."""
        told, seat = link.description, self._seat()
        if COPY not in self._configuration.rights.get(link.name, ()):
            return
        offer = await self._examine(seat)
        wanted = told is not None and told.takes_copy and not told.reaches_caller and told.held_copy != seat.version
        if not wanted or offer.lacking or self._configuration.identity is None:
            return
        if self._failed.has(link.name, "push", seat.version):
            return
        try:
            await link.push_copy(await self.make_own_bundle(link.name))
            self._log.info("model pushed", peer=link.name, version=seat.version)
        except DeGrootError as error:  # the peer's model can be used all the same
            self._failed.add(error, link.name, "push", seat.version)
            self._log.warning("pushing the model failed", peer=link.name, reason=str(error))

    async def _examine(self, seat: ScoredAgent) -> ModelOffer:
        """What there is to say of this node's own model as a copy, found once for each version."""
        async with self._examining:
            if self._offer is None or self._offer.version != seat.version:
                self._offer = await run_model_in_thread(examine_model, self._configuration, seat)
                if self._offer.lacking:
                    self._log.warning("the model cannot be copied", reason=self._offer.lacking)
                for warning in self._offer.warnings:
                    self._log.warning("the model can be copied", warning=warning)
            return self._offer

    # ---- peers' models ----------------------------------------------------------------------------------------------

    def is_wanted(self, link: Link) -> bool:
        """Whether a copy of a peer's model is to be used: then nothing is sent to the peer."""
        if COPY not in link.peer.use:
            return False
        told, version = link.description, self.held.find_version(link.name)
        if told is None or version is None:
            return version is not None or (told is not None and told.offers_copy)
        return told.offers_copy or version == told.model_version or QUERY not in link.peer.use

    async def find(self, link: Link, trouble: PeerError | None) -> ModelCopy | None:
        """The copy of a peer's model to use, fetched if there is a newer one; None: none is to be used."""
        bundle = await self._find_bundle(link, trouble)
        if bundle is None:
            await self.held.drop(link.name)
            return None
        key, seat = (link.name, "open", bundle.manifest.digest.hex()), self._seat()
        self._failed.check(*key)
        try:
            return await self.held.open(bundle, seat.agent, seat.feature_names)
        except CopyError as error:
            self._failed.add(error, *key)
            raise

    async def take(self, encoded: bytes, owner: str) -> Bundle:
        """Keep a copy of a peer's model, which the peer has sent; it is opened when the peer is next looked after."""
        seat, roster = self._seat(), None if self._credentials is None else self._credentials.roster
        revoked = frozenset[int]() if roster is None else roster.revoked_serials
        return await run_model_in_thread(self.held.take, encoded, owner, seat.agent, seat.feature_names, revoked)

    async def _find_bundle(self, link: Link, trouble: PeerError | None) -> Bundle | None:
        if COPY not in link.peer.use:
            return None
        held, told = await run_in_thread(self.held.refresh, link.name), link.description
        if trouble is not None or told is None:
            return held
        current = held is not None and held.version == told.model_version
        if told.offers_copy and not current:
            return await self._fetch(link, told.model_version)
        if held is None or current or QUERY not in link.peer.use:
            return held
        if link.name in self._seat().copies:
            self._log.warning("no copy any more: rows and asked points go to the peer from now on", peer=link.name)
        return None

    async def _fetch(self, link: Link, version: str) -> Bundle:
        """A copy from its owner."""
        key = link.name, "fetch", version
        self._failed.check(*key)
        try:
            encoded = await link.fetch_copy(self._configuration.limits.copy_bytes)
            bundle = await self.take(encoded, link.name)
        except DeGrootError as error:
            failure = error if isinstance(error, PeerError) else CopyError(link.name, str(error))
            self._failed.add(failure, *key)
            raise failure from error
        self._log.info("copied", peer=link.name, version=bundle.version, bytes=len(bundle.content))
        return bundle
