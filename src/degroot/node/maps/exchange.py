"""The exchange of evidence maps: a node publishes its own, once for a version of models and rows, and fetches others'.

Whoever has everybody's maps answers for the consensus without another message about evidence.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from degroot.exceptions import DeGrootError, InvalidInput
from degroot.files.atomic import PRIVATE, make_folder, save
from degroot.maps import CollectedMaps, EvidenceMap, LifetimeBudget, MapSettings, make_map, name_version
from degroot.maps.table import MOST_BYTES
from degroot.node.config import MAPS, Configuration
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
    return MapSettings(
        tuple(ranges[name] for name in features), terms.residual_bound, terms.rows, terms.epsilon, terms.delta,
        terms.seed, terms.trees, terms.depth,
    )  # fmt: skip


class MapExchange:
    """The maps of one node and its peers; nothing happens where its evidence is not maps."""

    def __init__(self, configuration: Configuration, log: Any) -> None:
        self.configuration, self._log = configuration, log
        self.published: EvidenceMap | None = None
        self.lacking = NOT_SCORED  # why there is none of this version; empty: there is
        self.held: dict[str, EvidenceMap] = {}  # peers', by owner
        self._settings: MapSettings | None = None
        self._tried: tuple[Model, ...] = ()  # the models of the last attempt to publish
        self._collected: tuple[tuple[Any, ...], CollectedMaps] | None = None
        self._publishing = asyncio.Lock()

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
        for peer in self.configuration.peers:
            found = self._read(self._peer_path(peer.name), peer.name)
            if found is not None:
                self.held[peer.name] = found

    def change(self, configuration: Configuration) -> None:
        """Go on with another roster; maps of those who have left are deleted."""
        self.configuration = configuration
        names = {peer.name for peer in configuration.peers}
        for name in [each for each in self.held if each not in names]:
            del self.held[name]
            self._peer_path(name).unlink(missing_ok=True)

    async def publish(self, seat: ScoredAgent) -> None:
        """Publish a map of the models as they are, once all peers' are scored, unless that is done or was refused."""
        me, others = self.configuration.name, {peer.name for peer in self.configuration.peers}
        models = tuple(model for model in seat.scored if model.name != me and model.name in others)
        if not self.is_used or models == self._tried or {model.name for model in models} != others:
            return
        async with self._publishing:
            if models == self._tried:
                return
            self._tried = models
            try:
                made = await run_in_thread(self._make, seat, models)
            except DeGrootError as error:
                self.lacking = str(error)
                self._log.warning("no evidence map of this version is published", reason=self.lacking)
                return
            is_new = self.published is None or made.serial != self.published.serial
            self.published, self.lacking = made, ""
            if is_new:
                spent, _ = self.budget.spent()
                self._log.info("evidence map published", serial=made.serial, epsilon_spent=spent)

    @property
    def budget(self) -> LifetimeBudget:
        """What maps may cost together, for life."""
        terms = self.configuration.maps
        if terms is None:
            raise InvalidInput(f"Evidence maps must be declared in a table [maps]; {self.configuration.path} has none.")
        return LifetimeBudget(self.configuration.maps_folder, terms.lifetime_epsilon, terms.lifetime_delta)

    def _make(self, seat: ScoredAgent, models: Sequence[Model]) -> EvidenceMap:
        """The map of this node's rows: the stored one of the same version, or a new one that is paid for."""
        agent, settings, me = seat.agent, self._settings, self.configuration.name
        if settings is None:
            raise InvalidInput("Evidence maps must be prepared before they are published; they are not.")
        make_folder(self.configuration.maps_folder, mode=PRIVATE)
        places = [seat.scored.index(model) for model in models]
        told = [(model.name, model.version) for model in models]

        def draw() -> EvidenceMap:
            residuals = np.moveaxis(seat.scorer.residuals[:, :, places], 1, 2)  # (n, m, Q)
            return make_map(agent.X, residuals, settings, owner=me, models=told, units=agent.units)

        version = name_version(agent.X, agent.y, settings, owner=me, models=told, units=agent.units)
        made = self.budget.publish(version, settings, draw)
        save(self._own_path, made.to_bytes())
        return made

    async def fetch(self, link: Link) -> None:
        """Fetch a peer's map, if it has published one that is not here."""
        told = link.description
        held = self.held.get(link.name)
        if not self.is_used or told is None or not told.map or (held is not None and held.serial == told.map):
            return
        content = await link.fetch_map(MOST_BYTES)
        try:
            found = EvidenceMap.from_bytes(content)
            self._check(found, link.name)
        except InvalidInput as error:
            raise BadReply(link.name, f"its evidence map cannot be used: {error}") from error
        await run_in_thread(self._keep, link.name, content)
        self.held[link.name] = found
        self._log.info("evidence map fetched", peer=link.name, serial=found.serial, epsilon=found.settings.epsilon)

    def _check(self, found: EvidenceMap, owner: str) -> None:
        """Refuse a map that is not of its owner, or cannot be used with this node's."""
        if found.owner != owner:
            raise InvalidInput(f"It must be of {owner!r}; it is of {found.owner[:100]!r}.")
        if self._settings is not None and found.settings.grid != self._settings.grid:
            raise InvalidInput("It must have the ranges, residual bound, seed, trees and depth that are declared here.")

    def collect(self, members: Sequence[str]) -> CollectedMaps:
        """The maps of all, for answers with these members; read once for the same maps and members."""
        maps = self.all_maps
        key = (tuple(members), tuple(sorted(each.serial for each in maps.values())))
        if self._collected is None or self._collected[0] != key:
            self._collected = key, CollectedMaps.collect(maps.values(), members)
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
        make_folder(self._peer_path(owner).parent, mode=PRIVATE)
        save(self._peer_path(owner), content)

    def _read(self, path: Path, owner: str) -> EvidenceMap | None:
        """A map that is kept, if it can be used; None: there is none, and a peer's is fetched again."""
        try:
            found = EvidenceMap.from_bytes(path.read_bytes())
            self._check(found, owner)
        except FileNotFoundError:
            return None
        except (InvalidInput, OSError) as error:
            self._log.warning("an evidence map that is kept cannot be used", owner=owner, reason=str(error))
            return None
        return found

    @property
    def _own_path(self) -> Path:
        return self.configuration.maps_folder / f"{OWN_FILE}{SUFFIX}"

    def _peer_path(self, owner: str) -> Path:
        return self.configuration.maps_folder / "peers" / f"{owner}{SUFFIX}"
