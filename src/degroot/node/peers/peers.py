"""Peers: all peers of a node, followed as they come, go, restart and change their models."""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from degroot.agents.abstention import ColumnMask
from degroot.compute.compiled import Array
from degroot.exceptions import DeGrootError, InvalidInput
from degroot.node.config import COPY, OPINION, POOLED, QUERY, Configuration
from degroot.node.copies.copy import CopyError
from degroot.node.copies.exchange import CopyExchange, FailedAttempts
from degroot.node.errors import LEFT, PeerError, PeerRefused, PeerUnreachable
from degroot.node.maps.exchange import MapExchange
from degroot.node.peers.instances import InstanceWatch
from degroot.node.peers.link import Link, LinkContext
from degroot.node.peers.membership import Membership, settle
from degroot.node.peers.retry import DAILY
from degroot.node.peers.roster import RosterStore, apply_roster
from degroot.node.protocol.codec import PeerPrediction, clean_instance, clean_places, encode_models
from degroot.node.protocol.description import describe_node, find_difference
from degroot.node.protocol.opinions import PeerOpinion
from degroot.node.protocol.schemas import ModelInputs, write_schema
from degroot.node.protocol.v3 import collective_pb2 as wire
from degroot.node.records.metrics import Metrics
from degroot.node.scoring.calibrated import CalibratedScores
from degroot.node.scoring.scored_agent import ScoredAgent
from degroot.node.server.background import start_background
from degroot.node.server.threads import BatchWork, run_model_in_thread
from degroot.node.tls.roster import SignedRoster
from degroot.rules.evidence import MOMENTS

NO_COPY = "it grants no copy of its model, and `use` allows nothing else"
NOT_READY = "the copy of its model is not ready yet"
NO_MAP = "the evidence maps that are here do not have its model together with the others'"
KEEPS_EVIDENCE = f"it keeps its evidence to itself: `evidence` in its file is not {POOLED!r}"

SOFTWARE = version("degroot")
READY, STALE, CALIBRATING, ABSENT = "ready", "stale", "calibrating", "absent"
ANSWERING = (READY, STALE)  # how it stands with peers that can take part in an answer


class Peers:
    """A node's peers: who can be asked, whose models are scored, and who holds copies of whose.

    `configuration` is that of the node's file with the members of the signed roster, if there is one, as its peers.
    """

    def __init__(
        self, file: Configuration, wiring: LinkContext, scores: CalibratedScores, log: Any,
        rosters: RosterStore | None = None,
    ) -> None:  # fmt: skip
        self.file, self.roster_store = file, rosters
        configuration = apply_roster(file, self.signed_roster)
        self.configuration, self.wiring, self.scores = configuration, wiring, scores
        self.instances = InstanceWatch()
        self._changing = asyncio.Lock()
        self._standing_changed = asyncio.Event()  # whether a peer can be asked, or its model is scored
        self._taking: set[asyncio.Task[None]] = set()  # rosters that are being taken in
        self._told_removal: str | None = None
        self._refused_rosters: dict[str, str] = {}  # by peer: why the one that it offers is not taken in
        self.changed_data: tuple[Path, ...] = ()  # files of the own rows that have changed since they were read
        self.failures: dict[str, str] = {}  # why a change of a file could not be taken in; empty: it was
        self.links: dict[str, Link] = {}
        self.copies = CopyExchange(configuration, lambda: scores.seat, log, wiring.credentials)
        self.maps = MapExchange(configuration, log)
        self.maps.prepare(scores.seat)
        self.solutions, self.views = BatchWork(), BatchWork()  # of the consensus, and of this node's own view
        self._opinions = BatchWork(run_model_in_thread)
        self._log = log
        self._following: dict[str, asyncio.Task[None]] = {}
        self._failed = FailedAttempts()
        self._described: tuple[Configuration, ScoredAgent, wire.Description] | None = None  # by what it depends on

    @property
    def signed_roster(self) -> SignedRoster | None:
        """The roster that the CA has signed, as far as there is one."""
        return None if self.roster_store is None else self.roster_store.current

    @property
    def removal(self) -> str | None:
        """That this node is not among the members of the signed roster; None: it is, or there is none."""
        roster = self.signed_roster
        if roster is None or not roster.members or self.configuration.name in roster.members:
            return None
        return f"this node is not in the consortium's roster, number {roster.number}"

    @property
    def names(self) -> tuple[str, ...]:
        """Everybody in the roster with a node, in order."""
        return tuple(sorted([self.configuration.name, *self.links]))

    def rights(self) -> Mapping[str, frozenset[str]]:
        """Who may do what at this node, as the roster is now."""
        return self.configuration.rights

    async def change(self, file: Configuration) -> None:
        """Go on with the peers of another configuration, and of the roster; those that stay are not disturbed."""
        async with self._changing:
            self.file = file
            await self._change(apply_roster(file, self.signed_roster))

    async def _apply_roster(self) -> None:
        """Go on with the members of the roster, and the configuration as it is by then; tried until it succeeds."""
        told = ""
        while True:
            try:
                async with self._changing:
                    await self._change(apply_roster(self.file, self.signed_roster))
            except (DeGrootError, OSError) as error:  # storage that fails may be mended
                if str(error) != told:
                    self._log.error("change not taken in", what="roster", reason=str(error))
                told = str(error)
                await asyncio.sleep(self.configuration.timing.probe_seconds)
            else:
                return

    def take_roster(self, content: bytes, name: str) -> None:
        """Go by the signed roster that a peer offers from now on, if it is newer; why it is not is logged once."""
        if self.roster_store is None:
            return
        try:
            newer = self.roster_store.offer(content, f"the roster of {name!r}")
        except InvalidInput as error:
            if self._refused_rosters.get(name) != str(error):
                self._log.warning("roster not taken in", source=name, reason=str(error))
            self._refused_rosters[name] = str(error)
            return
        self._refused_rosters.pop(name, None)
        if newer is not None:
            self.use_roster(newer, name)

    def use_roster(self, roster: SignedRoster, where: object) -> None:
        """Go by a roster that was taken in; a task of its own, which links that it ends cannot cancel."""
        if self.wiring.credentials is not None:
            self.wiring.credentials.use_roster(roster)
        about = {"members": len(roster.members), "revoked": len(roster.revoked)}
        self._log.info("roster taken in", number=roster.number, source=str(where), **about)
        task = start_background("roster", self._apply_roster(), self._log)
        self._taking.add(task)
        task.add_done_callback(self._taking.discard)

    async def _change(self, configuration: Configuration) -> None:
        self.maps.change(configuration)
        await self.copies.change(configuration)  # before anybody is asked: a model that is here is not queried
        wanted = {peer.name: peer for peer in configuration.peers}
        addresses = {name: peer.address for name, peer in wanted.items()}
        gone = [name for name, link in self.links.items() if addresses.get(name) != link.peer.address]
        closing = [self._forget(name) for name in gone]
        for name, peer in wanted.items():
            if name not in self.links:
                self.links[name] = Link(peer, self.wiring)
                self._following[name] = start_background(f"peer {name}", self._follow(self.links[name]), self._log)
        self.configuration = configuration  # and links, with nothing awaited between: nobody sees half of a roster
        for link in self.links.values():
            link.peer = wanted[link.name]
            link.wake()
        for link in closing:
            await link.close()
        if self.removal is not None and self.removal != self._told_removal:
            self._log.error("not in the roster", reason=self.removal)
        self._told_removal = self.removal
        await self.scores.keep(self.links)
        await self.copies.keep(self.links)
        self.maps.keep(self.links)

    async def close(self) -> None:
        """Hang up on everybody."""
        for name in list(self.links):
            await self._forget(name).close()

    async def opinion(self, points: Array, *, spread: bool = False, guard: bool = False) -> PeerOpinion:
        """What this node measures of all models near points: pooled evidence, which it has to have agreed to."""
        seat = self.scores.seat
        if not self.configuration.pooled:
            raise InvalidInput(f"An opinion must come from a node with evidence = {POOLED!r}; here it is not.")
        if guard and not seat.guarded:
            raise InvalidInput("The guard must be on at all nodes; here it is off.")

        def formed() -> PeerOpinion:
            return seat.give_opinion(points, distances=spread, guard=guard)

        return formed() if seat.quick(len(points)) else await self._opinions.compute(len(points), formed)

    async def prediction(
        self, points: Array, seat: ScoredAgent | None = None, absent: ColumnMask = None
    ) -> PeerPrediction:
        """What this node's model says of points, by default as it is now; for this node itself, NaN where it abstains.

        Others do not ask about points at which it lacks an input. `absent`: columns (d,) that the points do not have.
        """
        work = partial(self.scores.seat.predict, points) if seat is None else partial(seat.predict_able, points, absent)
        seat = self.scores.seat if seat is None else seat
        return PeerPrediction(seat.version, work() if seat.quick(len(points)) else await run_model_in_thread(work))

    @property
    def no_view(self) -> str:
        """Why this node cannot answer from its own view; empty: it can."""
        by_peers = self.scores.seat.agent.scored_by_peers
        return "its own model is scored by its peers, not on its own rows" if by_peers else ""

    def without_evidence(self) -> dict[str, str]:
        """Who cannot take part in the consensus: who cannot be asked now, or keeps its evidence to itself."""
        if self.maps.is_used:
            maps = self.maps.all_maps
            scored = {model for each in maps.values() for model, _ in each.models}
            hindered = self.find_hindrances(self.scores.seat)
            return {name: NO_MAP for name in self.links if name not in scored} | hindered
        told = {name: link.description for name, link in self.links.items()}
        kept = {name: KEEPS_EVIDENCE for name, each in told.items() if each is not None and not each.pooled}
        return kept | self.troubled()

    def find_answering(self) -> set[str]:
        """Which peers can take part in an answer now."""
        return {name for name, link in self.links.items() if self.state(link) in ANSWERING}

    def count_able(self) -> int:
        """How many nodes can take part in the consensus now, this one included."""
        return 1 + len(self.find_answering() - self.without_evidence().keys())

    def find_hindrances(self, seat: ScoredAgent) -> dict[str, str]:
        """Whose models cannot be asked now, neither copies of them nor their owners, and why."""
        found = {name: self.find_hindrance(link, seat) for name, link in self.links.items()}
        return {name: why for name, why in found.items() if why is not None}

    def find_hindrance(self, link: Link, seat: ScoredAgent) -> str | None:
        """Why a peer's model cannot be asked now, neither a copy of it nor its owner; None: it can."""
        if link.name in seat.copies:
            return None
        if self.copies.is_wanted(link):
            return link.setback_reason or NOT_READY
        if QUERY not in link.peer.use:
            return link.trouble or NO_COPY
        return link.trouble

    def find_inputs(self, name: str, seat: ScoredAgent) -> ModelInputs:
        """What a peer's model takes of the columns, as its owner last said, or the copy that is asked."""
        copy = seat.copies.get(name)
        if copy is not None:
            return copy.inputs
        return self.links[name].inputs if name in self.links else ModelInputs()

    def has_changed(self, name: str, version: str) -> bool:
        """Whether a peer that can be asked has said that its model is another version by now."""
        link = self.links.get(name)
        return link is not None and link.fault is None and link.version not in ("", version)

    def membership(
        self, found: Mapping[str, Any], missing: Mapping[str, str], apart: Any = (), unlisted: Any = ()
    ) -> Membership:
        """Who can answer together. `found`: whose models each node at hand has scored."""
        return settle(self.names, found, missing, self.configuration.name, apart, unlisted)

    def note_instance(self, name: str, instance: str, where: str) -> None:
        """Take in which process spoke under a peer's name, and tell if it is not the only one."""
        if name in self.links and self.instances.note(name, instance, where):
            self._log.error("two nodes run under one name", peer=name, where=self.instances.describe(name))

    def note_call(self, name: str, instance: str, where: str) -> None:
        """Take in that a process has called under a peer's name: one that was away is looked at at once."""
        self.note_instance(name, instance, where)
        if name in self.links:
            self.links[name].try_again(clean_instance(instance))

    def rosters(self) -> dict[str, frozenset[str]]:
        """Whom this node has in its roster, and whom its peers have, as they last described themselves."""
        told = {name: link.description.members for name, link in self.links.items() if link.description is not None}
        peers = {name: frozenset([name, *(each.name for each in members)]) for name, members in told.items() if members}
        return {self.configuration.name: frozenset(self.names)} | peers

    def unlisted(self) -> set[tuple[str, str]]:
        """Pairs of this node's roster of which the first does not have the second in its own roster."""
        return {(name, other) for name, roster in self.rosters().items() for other in self.names if other not in roster}

    async def describe_again(self, names: Iterable[str]) -> dict[str, str]:
        """Ask these peers anew who they are; which of them cannot be asked, and why."""

        async def find_trouble(link: Link) -> str | None:
            try:
                await self._describe(link)
            except PeerError as error:
                return error.reason
            return None

        links = [self.links[name] for name in names if name in self.links]
        troubles = await asyncio.gather(*map(find_trouble, links))
        return {link.name: why for link, why in zip(links, troubles, strict=True) if why is not None}

    async def wait_for_change(self, seconds: float) -> None:
        """Wait until it stands differently with a peer, but not longer than so many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._standing_changed.wait()
        self._standing_changed.clear()

    async def wait_for_rosters(self, known: Mapping[str, frozenset[str]], until: float) -> bool:
        """Whether rosters are others than those `known`. Where some differ, that is waited for, until then."""
        clock = asyncio.get_running_loop()
        while True:
            await self.describe_again([name for name, link in self.links.items() if link.trouble is None])
            if self.rosters() != known:
                return clock.time() < until
            left = until - clock.time()
            if not self.unlisted() or left <= 0.0:
                return False
            await asyncio.sleep(min(self.configuration.timing.probe_seconds, left))

    def link(self, name: str) -> Link:
        """The way to a peer."""
        if name not in self.links:
            raise PeerUnreachable(name, LEFT)
        return self.links[name]

    def troubled(self) -> dict[str, str]:
        """Who cannot be asked now, and why."""
        return {name: link.trouble for name, link in self.links.items() if link.trouble is not None}

    def set_aside(self) -> list[str]:
        """Whose models are scored by their peers, not by themselves."""
        told = [name for name, link in self.links.items() if link.description and link.description.scored_by_peers]
        return [*told, self.configuration.name] if self.scores.seat.agent.scored_by_peers else told

    @property
    def spread(self) -> bool:
        """Whether it has to be known how near rows are, to weigh opinions."""
        return bool(self.set_aside()) or self.scores.seat.option.definition.uses == MOMENTS

    def state(self, link: Link) -> str:
        """How it stands with a peer."""
        seat = self.scores.seat
        scored = {model.name: model.version for model in seat.scored}
        if link.trouble is not None:
            return READY if link.name in seat.copies else ABSENT
        if link.name not in scored or (link.name not in seat.copies and self.copies.is_wanted(link)):
            return CALIBRATING
        return READY if scored[link.name] == link.version else STALE

    def _find_reason(self, link: Link) -> str:
        """What is the matter with a peer, if anything is."""
        if self.state(link) == READY:
            return ""
        copied = isinstance(link.setback, CopyError)  # which says more than that its owner cannot be reached
        return (link.setback_reason if copied else link.trouble or link.setback_reason) or ""

    def description(
        self,
        caller: str | None = None,
        *,
        with_schema: bool = False,
        known_roster: int | None = None,
        instance: str = "",
    ) -> wire.Description:
        """Who this node is, and how it stands with its peers; with what concerns the caller.

        `known_roster`: the number of the roster that the caller has, who is given a newer one; `instance`: its process.

        Where evidence stays at home, nobody but this node itself is told which models are scored and how far they have
        come: a model that is slow or fails on certain rows would tell its owner of them.
        """
        seat, links = self.scores.seat, sorted(self.links.items())
        description = wire.Description()
        description.CopyFrom(self._describe_self())
        if with_schema and seat.agent.schema is not None:
            description.schema = write_schema(seat.agent.schema)
        if caller not in (None, self.configuration.name) and not self.configuration.pooled:
            description.members.extend(wire.Member(name=name) for name, _ in links)
        else:
            description.scored.extend(encode_models(seat.scored))
            description.members.extend(
                wire.Member(name=name, state=self.state(link), reason=self._find_reason(link), progress=link.progress)
                for name, link in links
            )
        description.instance, description.software = self.wiring.instance, SOFTWARE
        roster = self.signed_roster
        if roster is not None:
            description.roster = self.wiring.roster_number()
            if known_roster is not None and description.roster > known_roster and caller in self.links:
                description.signed_roster = roster.content
        if caller is not None:
            self._describe_to(description, caller)
            description.duplicate = self.instances.describe(caller, instance)
        return description

    def _describe_self(self) -> wire.Description:
        """What this node says whoever asks, made anew only for another configuration or another model."""
        configuration, seat = self.configuration, self.scores.seat
        if self._described is None or self._described[0] is not configuration or self._described[1] is not seat:
            told = describe_node(configuration, seat.agent, seat.feature_names)
            told.model_version, told.no_view, told.map_grid = seat.version, self.no_view, self.maps.grid
            self._described = configuration, seat, told
        return self._described[2]

    def _describe_to(self, description: wire.Description, caller: str) -> None:
        """Add what the caller may see, and how copies of models stand between it and this node."""
        configuration = self.configuration  # by which a peer is known before there is a link to it
        description.fields.extend(sorted(configuration.fields.get(caller, ())))
        uses = {peer.name: peer.use for peer in configuration.peers}
        if caller in uses:
            link = self.links.get(caller)
            description.offers_copy = COPY in configuration.rights[caller] and not self.copies.offer_lacking
            description.takes_copy = COPY in uses[caller] and configuration.identity is not None
            description.held_copy = self.copies.held.find_version(caller) or ""
            description.reaches_caller = link is not None and link.trouble is None
            if self.maps.published is not None and OPINION in configuration.rights[caller]:
                description.map = self.maps.published.serial

    def accept(self, description: wire.Description, name: str) -> None:
        """Refuse a peer that cannot take part: another protocol, other settings, other features."""
        difference = find_difference(self._describe_self(), description, name, self.scores.seat.agent.schema)
        if difference is not None:
            raise PeerRefused(name, difference)

    def _forget(self, name: str) -> Link:
        """Take a peer out of the roster; the way to it, which is to be closed."""
        self._following.pop(name).cancel()
        self.wiring.metrics.forget(name)
        self.instances.forget(name)
        self._refused_rosters.pop(name, None)
        return self.links.pop(name)

    async def _follow(self, link: Link) -> None:
        """Ask a peer who it is, every now and then, and score its model when that is new."""
        told: str | None = ""
        while True:
            trouble = await self._trouble(link)
            if trouble != told:
                told = trouble
                self._standing_changed.set()
                if trouble is None:
                    copy = self.scores.seat.copies.get(link.name)
                    version = link.version if copy is None else copy.model.version
                    self._log.info("peer ready", peer=link.name, version=version, copy=copy is not None)
                else:
                    self._log.warning("peer not ready", peer=link.name, reason=trouble)
            self._count(self.wiring.metrics)
            await self._confirm(link)
            timing = self.configuration.timing
            await link.rest(timing.probe_seconds if trouble and self.removal is None else timing.heartbeat_seconds)

    async def _confirm(self, link: Link) -> None:
        """Exchange receipts with a peer that can be asked, if that is due."""
        receipts, seconds = self.wiring.receipts, self.configuration.timing.receipt_seconds
        if receipts is None or link.trouble is not None or not receipts.is_due(link.name, seconds):
            return
        try:
            for found in await link.confirm(receipts):
                self._log.warning("ledgers differ", peer=link.name, found=found)
            reason = ""
        except DeGrootError as error:
            reason = str(error)
        except Exception as error:  # a mistake of ours: the peer is looked after all the same
            self._log.exception("receipts could not be exchanged", peer=link.name)
            reason = f"{type(error).__name__}: {error}"
        if reason and reason != link.unconfirmed:
            self._log.warning("no receipts", peer=link.name, reason=reason)
        link.unconfirmed = reason

    async def _trouble(self, link: Link) -> str | None:
        """Look after a peer; what kept it from being ready, if anything did."""
        try:
            trouble = await self._hear_from(link)
            copy = await self.copies.find(link, trouble)
            if copy is not None:
                await self.scores.score_copy(copy, link)
            elif trouble is not None:
                raise trouble
            elif QUERY in link.peer.use:
                await self._score_at_owner(link)
            else:
                raise PeerRefused(link.name, NO_COPY)
            if trouble is None:
                await self.copies.push(link)
            await self.maps.publish(self.scores.seat)
            if trouble is None:
                await self.maps.fetch(link)
            self.wiring.metrics.calibrated(link.name, link.progress)
            link.setback = None
            return None
        except DeGrootError as error:
            link.setback = error
            return link.setback_reason
        except Exception as error:  # a mistake of ours: the peer is looked after all the same
            self._log.exception("a peer could not be looked after", peer=link.name)
            return f"{type(error).__name__}: {error}"

    async def _score_at_owner(self, link: Link) -> None:
        """Score a peer's model by queries; once they are over its budget for the day, not again for a while."""
        key = link.name, QUERY, link.version
        self._failed.check(*key)
        try:
            await self.scores.score(link)
        except PeerRefused as error:
            if DAILY in error.reason:
                self._failed.add(error, *key)
            raise

    async def _hear_from(self, link: Link) -> PeerError | None:
        """Ask a peer who it is; why it cannot be asked, if it cannot."""
        try:
            await self._describe(link)
        except PeerError as error:
            return error
        return None

    async def _describe(self, link: Link) -> None:
        def accept(description: wire.Description) -> None:
            description.duplicate = clean_places(description.duplicate)
            self.note_instance(link.name, description.instance, link.peer.address)
            if description.signed_roster and description.roster > self.wiring.roster_number():
                self.take_roster(description.signed_roster, link.name)
            self.accept(description, link.name)

        await link.describe(accept, self.scores.seat.agent.schema)
        if link.description is not None and link.description.duplicate != link.duplicate:
            link.duplicate = link.description.duplicate
            if link.duplicate:
                self._log.error("another node runs under this node's name", where=link.duplicate, seen_by=link.name)

    def _count(self, metrics: Metrics) -> None:
        states = dict.fromkeys((READY, STALE, CALIBRATING, ABSENT), 0)
        stale = []
        for link in self.links.values():
            states[self.state(link)] += 1
            if self.state(link) == STALE:
                stale.append(link.name)
        metrics.peers(states)
        metrics.stale(stale)
        metrics.show_duplicate(self.configuration.name, any(link.duplicate for link in self.links.values()))
        for name, link in self.links.items():
            metrics.show_duplicate(name, self.instances.is_duplicate(name))
            if link.certificate_ends is not None:
                metrics.show_certificate_end(name, link.certificate_ends.timestamp())
