"""The exchange of evidence maps: a node publishes its own, once for a version of models and rows, and fetches others'.

Whoever has everybody's maps answers for the consensus without another message about evidence.
"""

import asyncio
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from degroot.agents.abstention import has_gaps
from degroot.compute.compiled import Array
from degroot.exceptions import DeGrootError, InvalidInput
from degroot.files.atomic import PRIVATE, make_folder, save
from degroot.files.checksums import DamagedFile, read_sealed, seal
from degroot.maps import (
    BudgetSpent,
    CollectedMaps,
    EvidenceMap,
    LifetimeBudget,
    MapSettings,
    PreparedMap,
    TooFewRows,
    name_version,
    prepare_map,
)
from degroot.maps.table import MAX_MAP_BYTES
from degroot.node.config import MAPS, Configuration
from degroot.node.copies.exchange import FailedAttempts
from degroot.node.errors import BadReply
from degroot.node.peers.link import Link
from degroot.node.protocol.codec import Model
from degroot.node.scoring.scored_agent import ScoredAgent
from degroot.node.server.threads import run_in_thread

SUFFIX = ".map"
OWN_FILE = "published"  # of this node's own map; peers' have a folder of their own
NOT_SCORED = "not all models are scored yet"


def make_settings(configuration: Configuration, names: Sequence[str], n_features: int) -> MapSettings:
    """The settings of a node's maps: what its file declares, with ranges in the order of its features."""
    terms = configuration.maps
    if terms is None:
        raise InvalidInput(f"Evidence maps must be declared in a table [maps]; {configuration.path} has none.")
    ranges = dict(terms.ranges)
    features = list(names) or [str(place) for place in range(n_features)]
    for name in features:
        if name not in ranges:
            raise InvalidInput(f"{configuration.path}: `maps.ranges` must have a range for {name!r}; it has none.")
    strange = [name for name in ranges if name not in features]
    if strange:
        raise InvalidInput(f"{configuration.path}: `maps.ranges` must be of features; {strange[0]!r} is none.")
    return terms.to_settings(ranges[name] for name in features)


def _collect(maps: Sequence[EvidenceMap], members: Sequence[str], uses: str) -> CollectedMaps:
    collected = CollectedMaps.collect(maps, members)
    collected.at(np.empty((0, len(maps[0].settings.ranges))), uses)  # what all questions share is cached
    return collected


class MapExchange:
    """The maps of one node and its peers; nothing happens where its evidence is not maps."""

    def __init__(self, configuration: Configuration, log: Any) -> None:
        self.configuration, self._log = configuration, log
        self.published: EvidenceMap | None = None
        self.published_bytes = b""  # of that, for peers
        self.epsilon_spent: float | None = None  # for life; None: the record of it cannot be read
        self.lacking = NOT_SCORED  # why there is none of this version, for our own people; empty: there is
        self.held: dict[str, EvidenceMap] = {}  # peers', by owner
        self._settings: MapSettings | None = None
        self._tried: tuple[Model, ...] = ()  # the models of a map that is published, or is refused for good
        self._failed = FailedAttempts()
        self._collected: tuple[tuple[Any, ...], CollectedMaps] | None = None
        self._publishing, self._collecting = asyncio.Lock(), asyncio.Lock()

    @property
    def is_used(self) -> bool:
        """Whether this node's evidence is maps."""
        return self.configuration.evidence == MAPS

    @property
    def grid(self) -> str:
        """What maps have to have in common, as one string; empty where there are none."""
        return "" if self._settings is None else repr(self._settings.grid)

    def prepare(self, seat: ScoredAgent) -> None:
        """Check the settings, and take up the maps that are in the state folder."""
        if not self.is_used:
            return
        self._settings = make_settings(self.configuration, seat.feature_names, seat.agent.n_features)
        self.published = self._read(self._own_path, self.configuration.name)
        self.published_bytes = b"" if self.published is None else self.published.to_bytes()
        self._add_up()
        for peer in self.configuration.peers:
            found = self._read(self._peer_path(peer.name), peer.name)
            if found is not None:
                self.held[peer.name] = found

    def change(self, configuration: Configuration) -> None:
        """Go on with another roster."""
        self.configuration = configuration
        names = {peer.name for peer in configuration.peers}
        self.held = {name: each for name, each in self.held.items() if name in names}

    def keep(self, names: Container[str]) -> None:
        """Delete the maps of all but these peers."""
        for path in self._peers_folder.glob(f"*{SUFFIX}"):
            if path.name.removesuffix(SUFFIX) not in names:
                path.unlink(missing_ok=True)

    async def publish(self, seat: ScoredAgent) -> None:
        """Publish a map of the models as they are, once all peers' are scored, unless that is done or was refused."""
        me, others = self.configuration.name, {peer.name for peer in self.configuration.peers}
        models = tuple(model for model in seat.scored if model.name != me and model.name in others)
        if not self.is_used or models == self._tried:
            return
        waiting = sorted(others - {model.name for model in models})
        if waiting:
            self.lacking = f"{NOT_SCORED}: {', '.join(waiting)}"
            return
        key = me, "publish", *(model.version for model in models)
        async with self._publishing:
            if models == self._tried or self._failed.has(*key):
                return
            try:
                made, content = await run_in_thread(self._make, seat, models)
            except (DeGrootError, OSError) as error:
                if isinstance(error, BudgetSpent | TooFewRows):
                    self._tried = models
                else:
                    self._failed.add(InvalidInput(str(error)), *key)
                self._note_lacking(str(error))
                return
            is_new = self.published is None or made.serial != self.published.serial
            self.published, self.published_bytes, self.lacking, self._tried = made, content, "", models
            if is_new:
                self._log.info("evidence map published", serial=made.serial, epsilon_spent=self.epsilon_spent)

    def _note_lacking(self, reason: str) -> None:
        """Say once why there is no map of this version, on one line."""
        reason = " ".join(reason.split())
        if reason != self.lacking:
            self._log.warning("no evidence map of this version is published", reason=reason)
        self.lacking = reason

    def fill_gaps(self, X: Array) -> Array:
        """Rows with the middle of the declared range in the place of gaps: public, and the same at all nodes."""
        if self._settings is None or not has_gaps(X):
            return X
        return np.where(np.isnan(X), np.mean(self._settings.ranges, axis=1), X)

    @property
    def budget(self) -> LifetimeBudget:
        """What maps may cost together, for life."""
        terms = self.configuration.maps
        if terms is None:
            raise InvalidInput(f"Evidence maps must be declared in a table [maps]; {self.configuration.path} has none.")
        return LifetimeBudget(self.configuration.maps_folder, terms.lifetime_epsilon, terms.lifetime_delta)

    def _add_up(self) -> None:
        """Look up what maps have cost so far."""
        try:
            self.epsilon_spent = self.budget.spent()[0]
        except InvalidInput as error:
            self.epsilon_spent = None
            self._note_lacking(str(error))

    def _make(self, seat: ScoredAgent, models: Sequence[Model]) -> tuple[EvidenceMap, bytes]:
        """The map of this node's rows: the stored one of the same version, or a new one that is paid for."""
        agent, settings, me = seat.agent, self._settings, self.configuration.name
        if settings is None:
            raise InvalidInput("Evidence maps must be prepared before they are published; they are not.")
        rows = self.fill_gaps(agent.X)
        make_folder(self.configuration.maps_folder, mode=PRIVATE)
        places = [seat.scored.index(model) for model in models]
        told = [(model.name, model.version) for model in models]

        def prepare() -> PreparedMap:
            residuals = np.moveaxis(seat.scorer.residuals[:, :, places], 1, 2)  # (n, m, Q)
            return prepare_map(rows, residuals, settings, owner=me, models=told, units=agent.units)

        version = name_version(rows, agent.y, settings, owner=me, models=told, units=agent.units)
        try:
            made = self.budget.publish(version, settings, prepare)
        finally:
            self._add_up()
        content = made.to_bytes()
        save(self._own_path, seal(content))
        return made, content

    async def fetch(self, link: Link) -> None:
        """Fetch a peer's map, if it has published one that is not here."""
        told = link.description
        held = self.held.get(link.name)
        if not self.is_used or told is None or not told.map or (held is not None and held.serial == told.map):
            return
        key = link.name, "fetch"  # not the serial: a peer might tell another each time
        self._failed.check(*key)
        try:
            content = await link.fetch_map(MAX_MAP_BYTES)
            found = await run_in_thread(self._decode, link.name, told.map, content)
        except BadReply as error:
            self._failed.add(error, *key)
            raise
        self.held[link.name] = found
        self._log.info("evidence map fetched", peer=link.name, serial=found.serial, epsilon=found.settings.epsilon)
        try:
            await run_in_thread(self._keep, link.name, content)
        except (InvalidInput, OSError) as error:  # it is fetched again when the node starts
            self._log.warning("an evidence map could not be kept", peer=link.name, reason=str(error))

    def _decode(self, owner: str, serial: str, content: bytes) -> EvidenceMap:
        """The map that a peer has sent, if it is the one it told of and can be used."""
        try:
            found = EvidenceMap.from_bytes(content)
            self._check(found, owner)
            if found.serial != serial:
                raise InvalidInput("It must have the serial that its owner tells; it has another.")
        except InvalidInput as error:
            raise BadReply(owner, f"its evidence map cannot be used: {error}") from error
        return found

    def _check(self, found: EvidenceMap, owner: str) -> None:
        """Refuse a map that is not of its owner, or cannot be used with this node's."""
        if found.owner != owner:
            raise InvalidInput(f"It must be of {owner!r}; it is of {found.owner[:100]!r}.")
        if self._settings is not None and found.settings.grid != self._settings.grid:
            raise InvalidInput("It must have the ranges, residual bound, seed, trees and depth that are declared here.")

    async def collect(self, members: Sequence[str], uses: str) -> CollectedMaps:
        """The maps of all, for answers with these members; read in a thread, once for the same maps and members.

        uses : what the rule takes of evidence, whose tables are added up here rather than at the first question.
        """
        maps = self.all_maps
        key = (tuple(members), uses, tuple(sorted(each.serial for each in maps.values())))
        async with self._collecting:
            if self._collected is None or self._collected[0] != key:
                self._collected = key, await run_in_thread(_collect, list(maps.values()), members, uses)
            return self._collected[1]

    @property
    def all_maps(self) -> Mapping[str, EvidenceMap]:
        """This node's map and its peers', as far as they are here."""
        own = {} if self.published is None else {self.configuration.name: self.published}
        return own | self.held

    def find_versions(self, scorer: str) -> dict[str, str]:
        """The versions of the models in a member's map."""
        found = self.all_maps.get(scorer)
        return {} if found is None else dict(found.models)

    def _keep(self, owner: str, content: bytes) -> None:
        make_folder(self.configuration.maps_folder, mode=PRIVATE)
        make_folder(self._peers_folder, mode=PRIVATE)
        save(self._peer_path(owner), seal(content))

    def _read(self, path: Path, owner: str) -> EvidenceMap | None:
        """A map that is kept, if it can be used; None: there is none, and a peer's is fetched again."""
        try:
            found = EvidenceMap.from_bytes(read_sealed(path))
            self._check(found, owner)
        except FileNotFoundError:
            return None
        except (DamagedFile, InvalidInput, OSError) as error:
            self._log.warning("an evidence map that is kept cannot be used", owner=owner, reason=str(error))
            return None
        return found

    @property
    def _own_path(self) -> Path:
        return self.configuration.maps_folder / f"{OWN_FILE}{SUFFIX}"

    @property
    def _peers_folder(self) -> Path:
        return self.configuration.maps_folder / "peers"

    def _peer_path(self, owner: str) -> Path:
        return self._peers_folder / f"{owner}{SUFFIX}"
