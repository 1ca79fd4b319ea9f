"""Held copies: bundles of peers' models in a folder, opened when they are first needed."""

import asyncio
import threading
import time
from collections.abc import Collection, Container
from pathlib import Path
from typing import Any

from degroot.agents.agent import Agent
from degroot.exceptions import InvalidInput
from degroot.files.atomic import PRIVATE, find_stamp, make_folder, save
from degroot.node.config import COPY, Configuration
from degroot.node.copies.bundle import SUFFIX, Bundle, open_bundle, read_bundle
from degroot.node.copies.copy import CopyError, ModelCopy, open_copy
from degroot.node.protocol.codec import PROTOCOL
from degroot.node.protocol.description import describe_node, find_difference
from degroot.node.protocol.v3 import collective_pb2 as wire
from degroot.node.server.threads import run_in_thread, run_model_in_thread

CLOCK_SECONDS = 86_400.0  # by which an owner's clock may be ahead


def check_bundle(
    configuration: Configuration, encoded: bytes, agent: Agent, names: tuple[str, ...], revoked: Container[int]
) -> Bundle:
    """A new bundle that is for this node, of a peer whose model it may hold, and that fits its rows.

    Whoever has stolen a key can sign with it, until the roster revokes the certificate.
    """
    uses = {peer.name: peer.use for peer in configuration.peers}
    if configuration.identity is None:
        raise InvalidInput("Copies must be signed; this node runs without certificates.")
    bundle = open_bundle(encoded, configuration.identity.ca, configuration.name, revoked=revoked)
    if bundle.owner not in uses:
        raise InvalidInput(f"A copy must be of a peer's model; {bundle.owner!r} is not in the roster.")
    if COPY not in uses[bundle.owner]:
        raise InvalidInput(f"A copy must be one that this node uses; its `use` of {bundle.owner!r} is queries only.")
    check_fit(configuration, bundle, agent, names)
    return bundle


def check_fit(configuration: Configuration, bundle: Bundle, agent: Agent, names: tuple[str, ...]) -> None:
    """Raise unless a copy is no larger than allowed and takes this node's features for its outputs."""
    most = configuration.limits.copy_bytes
    if len(bundle.content) > most:
        raise InvalidInput(
            f"A copied model must have at most {most} bytes (limits.copy_bytes); that of {bundle.owner!r} has "
            f"{len(bundle.content)}."
        )
    mine = describe_node(configuration, agent, names)
    difference = find_difference(mine, _as_description(bundle.manifest), bundle.owner, agent.schema)
    if difference is not None:
        raise InvalidInput(f"A copy must fit this node's rows; {bundle.owner!r}: {difference}.")


def check_newer(configuration: Configuration, bundle: Bundle) -> None:
    """Raise if a bundle in a file is older than what is held, or signed in the future, so that none would be newer.

    What comes from its owner itself is what the owner has now, whatever its clock says.
    """
    held = read_held(configuration, bundle.owner)
    if bundle.manifest.issued > time.time() + CLOCK_SECONDS:
        raise InvalidInput(f"A bundle must have been signed before now; {bundle.owner!r} signed it at {bundle.issued}.")
    if held is not None and held.manifest.issued > bundle.manifest.issued:
        raise InvalidInput(
            f"A copy must not be older than the one that is held; {bundle.owner!r} signed this one at {bundle.issued}, "
            f"that one at {held.issued}."
        )


def keep_bundle(configuration: Configuration, bundle: Bundle, encoded: bytes) -> None:
    """Keep a bundle in the state folder: all of it or, if that fails, the one before."""
    make_folder(configuration.state, mode=PRIVATE)
    make_folder(configuration.copies, mode=PRIVATE)
    save(_held_path(configuration, bundle.owner), encoded)


def list_held(configuration: Configuration) -> list[str]:
    """By the names of files: whose models are kept, whether they are used or not."""
    return sorted(path.name.removesuffix(SUFFIX) for path in configuration.copies.glob(f"*{SUFFIX}"))


def read_held(configuration: Configuration, owner: str) -> Bundle | None:
    """The bundle that is kept of a peer's model; None: there is none that holds."""
    if configuration.identity is None or not _held_path(configuration, owner).is_file():
        return None
    try:
        return check_held(configuration, owner)
    except InvalidInput:  # damaged, or of another CA: as good as none
        return None


def check_held(configuration: Configuration, owner: str) -> Bundle:
    """The bundle that is kept of a peer's model, if it holds."""
    if configuration.identity is None:
        raise InvalidInput("Copies must be signed; this node runs without certificates.")
    encoded = read_bundle(_held_path(configuration, owner), configuration.limits.copy_bytes)
    bundle = open_bundle(encoded, configuration.identity.ca, configuration.name, allow_expired=True)
    if bundle.owner != owner:
        raise InvalidInput(f"A held copy must be in its owner's file; that of {owner!r} is of {bundle.owner!r}.")
    return bundle


def _held_path(configuration: Configuration, owner: str) -> Path:
    return configuration.copies / f"{owner}{SUFFIX}"


def open_held(configuration: Configuration, bundle: Bundle, agent: Agent, names: tuple[str, ...]) -> ModelCopy:
    """The model in a bundle, tried out, if it fits this node's rows, which may have changed since it was taken in."""
    try:
        check_fit(configuration, bundle, agent, names)
    except InvalidInput as error:
        raise CopyError(bundle.owner, str(error)) from None
    return open_copy(bundle, agent, configuration.limits)


def _as_description(manifest: wire.Manifest) -> wire.Description:
    """What a manifest says of its owner's model, as the owner would say it itself."""
    return wire.Description(
        protocol=PROTOCOL, name=manifest.owner, model_version=manifest.version, n_features=manifest.n_features,
        feature_names=manifest.feature_names, outputs=manifest.outputs, classes=manifest.classes,
        schema_digest=manifest.schema_digest,
    )  # fmt: skip


class HeldCopies:
    """The copies of one node, as they are on disk, and those that are open."""

    def __init__(self, configuration: Configuration, log: Any) -> None:
        self._configuration, self._log = configuration, log
        self._held: dict[str, tuple[object, Bundle | None]] = {}  # name -> the file's stamp, and what it holds
        self._opened: dict[str, ModelCopy] = {}
        self._opening: dict[str, asyncio.Lock] = {}
        self._keeping = threading.Lock()

    async def change(self, configuration: Configuration) -> None:
        """Go on with another roster."""
        self._configuration = configuration
        for peer in configuration.peers:
            await run_in_thread(self.refresh, peer.name)

    def find_version(self, name: str) -> str | None:
        """The version that is held of a peer's model, as of the last refresh; None: none is."""
        held = self._held.get(name, (None, None))[1]
        return None if held is None else held.version

    def refresh(self, name: str) -> Bundle | None:
        """What is held of a peer's model: read anew when its file has changed, as `degroot node import` changes it."""
        stamp = find_stamp(_held_path(self._configuration, name))
        if name not in self._held or self._held[name][0] != stamp:
            self._held[name] = (stamp, None if stamp is None else self._read(name))
        return self._held[name][1]

    def _read(self, name: str) -> Bundle | None:
        """What is held, if it can be used. A damaged copy is logged, and fetched again."""
        if self._configuration.identity is None:
            return None
        try:
            return check_held(self._configuration, name)
        except InvalidInput as error:
            path = _held_path(self._configuration, name)
            self._log.warning("a copy that is held cannot be used", peer=name, file=str(path), reason=str(error))
            return None

    def take(
        self, encoded: bytes, owner: str, agent: Agent, names: tuple[str, ...], revoked: Container[int]
    ) -> Bundle:  # fmt: skip
        """Keep what a peer sent, if it is of its own model."""
        bundle = check_bundle(self._configuration, encoded, agent, names, revoked)
        if bundle.owner != owner:
            raise InvalidInput(f"A copy must come from its owner, {bundle.owner!r}; it came from {owner!r}.")
        with self._keeping:
            keep_bundle(self._configuration, bundle, encoded)
        self.refresh(owner)
        return bundle

    async def open(self, bundle: Bundle, agent: Agent, names: tuple[str, ...]) -> ModelCopy:
        """The model in a bundle, ready to be asked."""
        name = bundle.owner
        async with self._opening.setdefault(name, asyncio.Lock()):
            opened = self._opened.get(name)
            if opened is None or opened.bundle.manifest.digest != bundle.manifest.digest:
                opened = await run_model_in_thread(open_held, self._configuration, bundle, agent, names)
                self._opened[name] = opened  # the one before serves until it is scored, and ends with its last question
        return opened

    async def drop(self, name: str) -> None:
        """Keep the copy of a peer's model open no longer."""
        self._opened.pop(name, None)

    async def close_others(self, names: Collection[str]) -> None:
        """Keep no copies open but of these peers' models."""
        for name in [each for each in self._opened if each not in names]:
            await self.drop(name)
