"""Rehearsing: once nodes have scored each other, each puts a sample of its own rows to all, to calibrate intervals.

First every node learns how far off the collective is on its rows. When all have done so, it learns how far off it is
near them, and sums up. Both are done anew when a model or the roster changes.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array
from degroot.consultation.consult import MalformedOpinions
from degroot.consultation.leave_one_out import sample_rows
from degroot.exceptions import DeGrootError
from degroot.node.answering.gathering import ask_peer, make_question
from degroot.node.errors import PeerError
from degroot.node.intervals.leave_one_out import Rehearsed, class_scores_of, errors_at, scores_of
from degroot.node.peers.link import kind_of
from degroot.node.peers.peers import Peers
from degroot.node.peers.retry import retry_when_limited
from degroot.node.protocol.codec import CalibrationSummary, Model, PeerOpinion, encode_models
from degroot.node.scoring.on_demand import OnDemand
from degroot.node.scoring.scored_agent import ScoredAgent
from degroot.node.server.threads import run_in_thread
from degroot.rules.evidence import NOTHING

CHUNK = 256  # rows put to everybody at once
CALM = 10  # looks at which the same nodes are ready, before those who are there but not ready are not waited for
MOST, WITHIN = 60, 600.0  # tries in so many seconds, at most: rows leave at each
APART = 10.0  # seconds for which it is done without a peer that failed
ON_DEMAND = 'with `queries = "on-demand"` its rows are not sent to everybody'
FAILED = "it could not rehearse, and its log says why"
WAITING = "it waits until enough nodes have scored each other"


class Changed(DeGrootError):
    """A model changed while it was rehearsed with: it is tried again."""


async def keep_rehearsed(circle: Peers, log: Any) -> None:
    """Rehearse whenever it is due, as long as the node runs."""
    if isinstance(circle.scores, OnDemand):
        circle.lacking = ON_DEMAND
        return
    rehearsals = Rehearsals(circle, log)
    while True:
        await asyncio.sleep(circle.configuration.timing.probe_seconds)
        try:
            await rehearsals.look()
        except DeGrootError as error:
            circle.lacking = FAILED
            log.warning("not rehearsed", reason=str(error))
        except Exception:  # a mistake of ours: it is tried again all the same
            circle.lacking = FAILED
            log.exception("not rehearsed")


class Rehearsals:
    """What a node does for intervals, and when."""

    def __init__(self, circle: Peers, log: Any) -> None:
        self._circle, self._log = circle, log
        self._seen: tuple[Model, ...] = ()
        self._calm = 0
        self._tries: deque[float] = deque(maxlen=MOST)  # when
        self._failed: dict[str, float] = {}  # peers that failed, and when

    async def look(self) -> None:
        """Rehearse, or sum up, if it is due."""
        circle, away = self._circle, self._away()
        models = taking_part(circle, away)
        self._calm = self._calm + 1 if models == self._seen else 0
        self._seen, done = models, circle.rehearsed
        try:
            if done is None or not serves(done, models, circle.names):
                circle.lacking = WAITING
                if self._settled(models, away) and self._may():
                    circle.lacking = "it is rehearsing"
                    circle.rehearsed = await self._rehearsed(circle.scores.seat, models)
            elif done.summary is None and self._all_rehearsed(models) and self._may():
                circle.rehearsed = await self._summed_up(done)
                self._log.info("intervals calibrated", rows=len(done.rows), models=len(models))
        except (PeerError, MalformedOpinions) as error:
            names = [error.peer] if isinstance(error, PeerError) else [models[k].name for k in error.agents]
            self._failed |= dict.fromkeys(names, time.monotonic())
            raise

    def _away(self) -> dict[str, str]:
        """Who cannot be asked now, or failed lately, and why."""
        now = time.monotonic()
        self._failed = {name: at for name, at in self._failed.items() if now - at < APART}
        return self._circle.troubled() | dict.fromkeys(self._failed, "failed")

    def _settled(self, models: Sequence[Model], away: Mapping[str, str]) -> bool:
        """Whether enough take part, and everybody who is there does, or others have been waited for."""
        there = len(set(self._circle.names) - set(away))
        least = 2 if self._circle.scores.seat.agent.scored_by_peers else 1  # somebody has to score its model
        enough = len(models) >= max(least, self._circle.configuration.needed)
        return enough and (len(models) == there or self._calm >= CALM)

    def _may(self) -> bool:
        """Whether it may be tried now, which then counts."""
        now = time.monotonic()
        if len(self._tries) == MOST and now - self._tries[0] < WITHIN:
            self._circle.lacking = "it has rehearsed too often lately"
            return False
        self._tries.append(now)
        return True

    def _all_rehearsed(self, models: Sequence[Model]) -> bool:
        """Whether all peers among them have said that they have rehearsed with the same models."""
        links = [self._circle.links[name] for name, _ in models if name in self._circle.links]
        told = [[] if link.description is None else link.description.rehearsed for link in links]
        return all(list(rehearsed) == encode_models(models) for rehearsed in told)

    async def _rehearsed(self, seat: ScoredAgent, models: tuple[Model, ...]) -> Rehearsed:
        rows, aside = sample_rows(seat.agent), self._circle.set_aside()
        names = [] if seat.option.definition.uses == NOTHING else [name for name, _ in models]
        errors = np.empty((len(rows), seat.outputs))

        def learn(part: NDArray[np.intp], opinions: dict[str, PeerOpinion]) -> None:
            for name, opinion in opinions.items():
                _check_models(name, opinion, models)
            errors[part] = errors_at(seat, models, rows[part], opinions, aside)

        await self._put(seat, rows, names, learn, interval=False)
        return await run_in_thread(Rehearsed.of, seat, models, errors)

    async def _summed_up(self, rehearsed: Rehearsed) -> Rehearsed:
        if rehearsed.seat.agent.classes is not None:
            return rehearsed.calibrated(class_scores_of(rehearsed))
        scores = np.empty_like(rehearsed.errors)

        def learn(part: NDArray[np.intp], opinions: dict[str, PeerOpinion]) -> None:
            told = [_check_rehearsed(name, opinion, rehearsed.models) for name, opinion in opinions.items()]
            scores[part] = scores_of(rehearsed, part, told)

        names = [name for name, _ in rehearsed.models]
        await self._put(rehearsed.seat, rehearsed.rows, names, learn, interval=True)
        return await run_in_thread(rehearsed.calibrated, scores)

    async def _put(
        self,
        seat: ScoredAgent,
        rows: NDArray[np.intp],
        names: Sequence[str],
        learn: Callable[[NDArray[np.intp], dict[str, PeerOpinion]], None],
        *,
        interval: bool,
    ) -> None:
        """Put rows to these nodes, shuffled and in chunks, and `learn` from what they say of each chunk."""
        names = [name for name in names if name != seat.agent.name]
        for part in _shuffled(len(rows)):
            points = seat.agent.X[rows[part]]
            replies = await asyncio.gather(*(self._ask_node(name, points, interval=interval) for name in names))
            await run_in_thread(learn, part, dict(zip(names, replies, strict=True)))

    async def _ask_node(self, name: str, points: Array, *, interval: bool) -> PeerOpinion:
        """What one node says of points; where that is over a limit, a little later."""
        circle, seat = self._circle, self._circle.scores.seat
        question = make_question(points, spread=circle.spread, interval=interval, rehearsal=True)

        async def once() -> PeerOpinion:
            circle.wiring.record([name], kind_of(question), len(points), question.ByteSize())
            reply = await ask_peer(circle.link(name), question, len(points), seat)
            if isinstance(reply, PeerError):
                raise reply
            return reply

        return await retry_when_limited(once)


def taking_part(circle: Peers, away: Mapping[str, str]) -> tuple[Model, ...]:
    """The models of those who are there and have scored each other as they are now, this node among them."""
    links = {name: link for name, link in circle.links.items() if link.description is not None}
    seat, me = circle.scores.seat, circle.configuration.name
    now = {me: seat.version} | {name: link.version for name, link in links.items()}
    told: dict[str, Sequence[Any]] = {me: seat.scored}
    told |= {name: link.description.scored for name, link in links.items() if link.description is not None}
    scored = {
        scorer: [each.name for each in seen if now.get(each.name) == each.version] for scorer, seen in told.items()
    }
    who = circle.membership(scored, away)
    return tuple(Model(name, now[name]) for name in who.members)


def serves(rehearsed: Rehearsed, models: Sequence[Model], roster: Sequence[str]) -> bool:
    """Whether what was rehearsed is still of use: with all models that answer now, and none that left for good.

    Until there is a summary it must be with those models and no others: who is away cannot be waited for.
    """
    if rehearsed.summary is None:
        return rehearsed.models == tuple(models)
    return set(models) <= set(rehearsed.models) and {name for name, _ in rehearsed.models} <= set(roster)


def _shuffled(m: int) -> Iterator[NDArray[np.intp]]:
    order = np.random.default_rng().permutation(m)  # which tells nothing
    for start in range(0, m, CHUNK):
        yield order[start : start + CHUNK]


def _check_models(name: str, opinion: PeerOpinion, models: Sequence[Model]) -> None:
    """Refuse an opinion with other models than those that are rehearsed with."""
    if opinion.version != dict(models)[name] or not set(models) <= set(opinion.scored):
        raise Changed(f"{name} has, or has scored, another model than was told.")


def _check_rehearsed(name: str, opinion: PeerOpinion, models: tuple[Model, ...]) -> CalibrationSummary:
    told = opinion.calibrated
    if told is None or told.models != models:
        raise Changed(f"{name} has rehearsed with other models than was told.")
    return told
