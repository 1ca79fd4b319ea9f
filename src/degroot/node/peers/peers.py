"""Peers: all peers of a node, followed as they come, go, restart and change their models; who can answer."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from degroot.compute.compiled import Array
from degroot.exceptions import DeGrootError, InvalidInput
from degroot.node.config import Configuration
from degroot.node.errors import LEFT, PeerError, PeerRefused, PeerUnreachable
from degroot.node.intervals.leave_one_out import Rehearsed
from degroot.node.peers.link import Link, LinkContext
from degroot.node.protocol.codec import CalibrationSummary, PeerOpinion, PeerPrediction, encode_models
from degroot.node.protocol.description import describe_node, find_difference
from degroot.node.protocol.v1 import collective_pb2 as v1
from degroot.node.records.metrics import Metrics
from degroot.node.scoring.calibrated import CalibratedScores
from degroot.node.scoring.on_demand import OnDemand
from degroot.node.scoring.scored_agent import ScoredAgent
from degroot.node.server.threads import run_model_in_thread
from degroot.rules.evidence import MOMENTS

READY, STALE, CALIBRATING, ABSENT = "ready", "stale", "calibrating", "absent"


class TooFew(DeGrootError):
    """Fewer agents can answer than the quorum."""


@dataclass(frozen=True, slots=True)
class Membership:
    """Who answers, in order, and who is missing and why."""

    members: tuple[str, ...]
    missing: Mapping[str, str]  # name -> reason

    def check(self, quorum: int) -> None:
        """Refuse to answer with too few."""
        if len(self.members) < quorum:
            told = (
                "; ".join(f"{name}: {reason.rstrip('.')}" for name, reason in sorted(self.missing.items()))
                or "nobody else"
            )
            raise TooFew(f"At least {quorum} agents must answer, the quorum; {len(self.members)} can. Missing: {told}.")


def settle(
    roster: Sequence[str],
    scored: Mapping[str, Iterable[str]],
    missing: Mapping[str, str],
    asked: str,
    apart: Iterable[tuple[str, str]] = (),
    unlisted: Iterable[tuple[str, str]] = (),
) -> Membership:
    """Those of the roster who have all scored each other, once some have been left out: the fewest, one by one.

    Parameters
    ----------
    scored : whose models each agent at hand has scored
    missing : who is not at hand, and why; those who are not in the roster do not count
    asked : who is never left out
    apart : pairs that cannot hear each other
    unlisted : pairs of which the first does not have the second in its own roster

    Examples
    --------
    >>> settle(["a", "b", "c"], {"a": "abc", "b": "abc", "c": "c"}, {}, "a").missing
    {'c': 'has not scored yet: a, b'}
    >>> settle("abc", dict.fromkeys("abc", "abc"), {}, "a", unlisted=[("c", "b")]).missing
    {'c': 'its roster lacks: b'}
    """
    left = [name for name in roster if name in scored and name not in missing]
    reasons = {name: missing.get(name, "not reached yet") for name in roster if name not in left}
    known = {name: set(models) for name, models in scored.items()}
    cut = {pair for one, other in apart for pair in ((one, other), (other, one))}
    strangers = set(unlisted)
    while True:
        holes = {
            (scorer, model)
            for scorer in left
            for model in left
            if model not in known[scorer] or (scorer, model) in cut or (scorer, model) in strangers
        }
        if not holes:
            return Membership(tuple(left), reasons)
        count = Counter(name for pair in sorted(holes) for name in set(pair) if name != asked)
        worst = max(count, key=lambda name: (count[name], left.index(name)), default=asked)
        left.remove(worst)
        reasons[worst] = _reason(worst, holes, cut, strangers)
        if worst == asked:
            return Membership((), reasons)


def _reason(name: str, holes: set[tuple[str, str]], cut: set[tuple[str, str]], strangers: set[tuple[str, str]]) -> str:
    by = sorted(scorer for scorer, other in holes & strangers if other == name)
    if by:
        return f"not in the roster of: {', '.join(by)}"
    lacking = sorted(other for scorer, other in holes & strangers if scorer == name)
    if lacking:
        return f"its roster lacks: {', '.join(lacking)}"
    unheard = sorted(other for scorer, other in holes & cut if scorer == name)
    if unheard:
        return f"cannot be heard by: {', '.join(unheard)}"
    by = sorted(scorer for scorer, model in holes if model == name and scorer != name)
    if by:
        return f"not scored yet by: {', '.join(by)}"
    return f"has not scored yet: {', '.join(sorted(model for scorer, model in holes if scorer == name))}"


class Peers:
    """A node's peers: who can be asked, and whose models are scored."""

    def __init__(
        self, configuration: Configuration, wiring: LinkContext, scores: CalibratedScores | OnDemand, log: Any
    ) -> None:
        self.configuration, self.wiring, self.scores = configuration, wiring, scores
        self.links: dict[str, Link] = {}
        self.rehearsed: Rehearsed | None = None  # for intervals, and
        self.lacking = "it has not rehearsed yet"  # why there is nothing
        self._log = log
        self._following: dict[str, asyncio.Task[None]] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Everybody in the roster with a node, in order."""
        return tuple(sorted([self.configuration.name, *self.links]))

    def rights(self) -> Mapping[str, frozenset[str]]:
        """Who may do what at this node, as the roster is now."""
        return self.configuration.rights

    async def change(self, configuration: Configuration) -> None:
        """Go on with the peers of another configuration; those that stay are not disturbed."""
        wanted = {peer.name: peer for peer in configuration.peers}
        addresses = {name: peer.address for name, peer in wanted.items()}
        gone = [name for name, link in self.links.items() if addresses.get(name) != link.peer.address]
        closing = [self._forget(name) for name in gone]
        for name, peer in wanted.items():
            if name not in self.links:
                self.links[name] = Link(peer, self.wiring)
                self._following[name] = asyncio.create_task(self._follow(self.links[name]))
        self.configuration = configuration  # up to here nothing is awaited: nobody sees half of a roster
        for link in closing:
            await link.close()
        await self.scores.keep(self.links)

    async def close(self) -> None:
        """Hang up on everybody."""
        for name in list(self.links):
            await self._forget(name).close()

    async def opinion(
        self, points: Array, *, spread: bool = False, guard: bool = False, interval: bool = False
    ) -> PeerOpinion:
        """What this node says of points."""
        seat = self.scores.seat
        if isinstance(self.scores, OnDemand):
            seat = await self.scores.seat_for(points, self.links)
        if guard and not seat.guarded:
            raise InvalidInput("The guard must be on at all nodes; here it is off.")
        rehearsed, lacking = self.rehearsed, self.lacking

        def formed() -> PeerOpinion:
            opinion = seat.give_opinion(points, distances=spread, guard=guard)
            if not interval:
                return opinion
            return replace(
                opinion, calibrated=CalibrationSummary(lacking) if rehearsed is None else rehearsed.told(points)
            )

        return formed() if seat.quick(len(points)) else await run_model_in_thread(formed)

    async def prediction(self, points: Array, seat: ScoredAgent | None = None) -> PeerPrediction:
        """What this node's model says of points, by default as it is now."""
        seat = self.scores.seat if seat is None else seat
        said = seat.predict(points) if seat.quick(len(points)) else await run_model_in_thread(seat.predict, points)
        return PeerPrediction(seat.version, said)

    @property
    def no_view(self) -> str:
        """Why this node cannot answer from its own view; empty: it can."""
        if self.scores.seat.agent.scored_by_peers:
            return "its own model is scored by its peers, not on its own rows"
        return "it scores models near asked points only, on demand" if isinstance(self.scores, OnDemand) else ""

    def membership(
        self, found: Mapping[str, Any], missing: Mapping[str, str], apart: Any = (), unlisted: Any = ()
    ) -> Membership:
        """Who can answer together. `found`: whose models each node at hand has scored."""
        return settle(self.names, found, missing, self.configuration.name, apart, unlisted)

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
                await link.describe(lambda description: self.accept(description, link.name))
            except PeerError as error:
                return error.reason
            return None

        links = [self.links[name] for name in names if name in self.links]
        troubles = await asyncio.gather(*map(find_trouble, links))
        return {link.name: why for link, why in zip(links, troubles, strict=True) if why is not None}

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
        if link.trouble is not None:
            return ABSENT
        if self.scores.known(link):
            return READY
        return STALE if link.name in {model.name for model in self.scores.seat.scored} else CALIBRATING

    def description(self) -> v1.Description:
        """Who this node is, and how it stands with its peers."""
        seat = self.scores.seat
        description = describe_node(self.configuration, seat.agent, seat.feature_names)
        description.model_version, description.no_view = seat.version, self.no_view
        description.scored.extend(encode_models(seat.scored))
        description.members.extend(
            v1.Member(name=name, state=self.state(link), reason=link.trouble or "", progress=link.progress)
            for name, link in sorted(self.links.items())
        )
        if self.rehearsed is not None:
            description.rehearsed.extend(encode_models(self.rehearsed.models))
            description.calibrated = self.rehearsed.summary is not None
        return description

    def accept(self, description: v1.Description, name: str) -> None:
        """Refuse a peer that cannot take part: another protocol, other settings, other features."""
        difference = find_difference(self.description(), description, name)
        if difference is not None:
            raise PeerRefused(name, difference)

    def _forget(self, name: str) -> Link:
        """Take a peer out of the roster; the way to it, which is to be closed."""
        self._following.pop(name).cancel()
        self.wiring.metrics.forget(name)
        return self.links.pop(name)

    async def _follow(self, link: Link) -> None:
        """Ask a peer who it is, every now and then, and score its model when that is new."""
        told: str | None = ""
        while True:
            trouble = await self._trouble(link)
            if trouble != told:
                told = trouble
                if trouble is None:
                    self._log.info("peer ready", peer=link.name, version=link.version)
                else:
                    self._log.warning("peer not ready", peer=link.name, reason=trouble)
            self._count(self.wiring.metrics)
            await asyncio.sleep(self.configuration.timing.probe_seconds)

    async def _trouble(self, link: Link) -> str | None:
        """Look after a peer; what kept it from being ready, if anything did."""
        try:
            await link.describe(lambda description: self.accept(description, link.name))
            await self.scores.score(link)
            self.wiring.metrics.calibrated(link.name, link.progress)
            link.setback = None
            return None
        except DeGrootError as error:
            link.setback = error
            return error.reason if isinstance(error, PeerError) else str(error)
        except Exception as error:  # a mistake of ours: the peer is looked after all the same
            self._log.exception("a peer could not be looked after", peer=link.name)
            return f"{type(error).__name__}: {error}"

    def _count(self, metrics: Metrics) -> None:
        states = dict.fromkeys((READY, STALE, CALIBRATING, ABSENT), 0)
        stale = []
        for link in self.links.values():
            states[self.state(link)] += 1
            if self.state(link) == STALE:
                stale.append(link.name)
        metrics.peers(states)
        metrics.stale(stale)
