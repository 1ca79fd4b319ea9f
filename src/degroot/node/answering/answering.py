"""Answering: a question is put to the collective, whoever asks it, and kept count of.

A node answers from its own view. Where evidence is pooled it can be asked for the consensus too: by solving, it
gathers everybody's opinion, leaves out who does not answer in time, and solves.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from degroot.agents.abstention import has_gaps
from degroot.compute.compiled import Array
from degroot.consultation.abstention import name_columns
from degroot.consultation.consult import FEW_POINTS, INVALID, MalformedOpinions
from degroot.exceptions import DeGrootError, InvalidInput
from degroot.node.answering.answer import NodeQuestion, solve
from degroot.node.answering.by_maps import consult_maps
from degroot.node.answering.gathering import gather_opinions
from degroot.node.answering.own_view import consult_own_view
from degroot.node.answering.terms import OWN, ROUNDS, SOLVE
from degroot.node.config import MAPS, POOLED
from degroot.node.config import OWN as OWN_EVIDENCE
from degroot.node.peers.membership import TooFew
from degroot.node.peers.peers import Peers
from degroot.node.pooling.coordinator import Until, pool
from degroot.node.pooling.session import Sessions
from degroot.node.protocol.codec import NodeAnswer
from degroot.node.records.metrics import Metrics
from degroot.node.records.recent import QuestionRecord, Recent
from degroot.node.scoring.scored_agent import ScoredAgent

LARGEST = 1 << 20  # numbers of trust that are looked at where nobody has asked for them
IMPOSSIBLE = INVALID.rstrip(".")
OWN_VIEW = "own view"  # how a question is listed that is no question for the consensus


class NotPooled(DeGrootError):
    """The consensus is asked for where evidence stays at home."""


class Answering:
    """A node's answers. `recent`: where they are remembered, if somebody may want to look at them."""

    def __init__(self, circle: Peers, metrics: Metrics, recent: Recent | None, log: Any = None) -> None:
        self.circle, self.recent, self.sessions = circle, recent, Sessions()
        self._metrics, self._log = metrics, log

    async def answer(self, who: str, asked: NodeQuestion, until: Until | None = None) -> NodeAnswer:
        """The answer from this node's own view, or the consensus: by rounds until then or, without an end, solved."""
        if self.recent is None:
            return await self.part(asked, until)
        way = SOLVE if until is None else ROUNDS
        with self.remembered(who, OWN_VIEW if asked.view == OWN else way, len(asked.points)) as missing:
            answered = await self.part(asked, until)
            missing.update(answered.missing)
        return answered

    async def part(self, asked: NodeQuestion, until: Until | None) -> NodeAnswer:
        """The answer to some rows of a question, which are no question by themselves."""
        begun = time.perf_counter()
        if asked.view == OWN:
            extra = self._extra(asked, until)
            answered = await consult_own_view(self.circle, _add_fields(asked, extra))
        else:
            check_consensus(self.circle)
            check_complete(asked, self.circle, until)
            extra = self._extra(asked, until)
            answered = await self._answer_with_quorum(_add_fields(asked, extra), until)
        seconds = time.perf_counter() - begun
        asyncio.get_running_loop().call_soon(self._metrics.question_seconds.observe, seconds)  # nobody waits for it
        if self._log is not None:
            origin, missing = asked.origin, list(answered.missing)
            about = {"question": origin.question, "asker": origin.asker, "rows": len(asked.points), "missing": missing}
            asyncio.get_running_loop().call_soon(
                partial(self._log.info, "answered", **about, seconds=round(seconds, 4))
            )
        if answered.rounds:  # 0: it was solved
            self._metrics.question_rounds.observe(answered.rounds)
        if self.recent is not None and extra is not None:
            self.recent.sample.add(asked.points, answered)
        return _drop_fields(answered, extra or ())

    @contextmanager
    def remembered(self, who: str, way: str, rows: int) -> Iterator[set[str]]:
        """Remember what is answered in here as one question; the set that is given takes in who was missing."""
        begun, missing = time.perf_counter(), set[str]()

        def remember(error: str | None = None) -> None:
            if self.recent is not None:
                seconds = time.perf_counter() - begun
                self.recent.add(QuestionRecord(time.time(), who, rows, way, seconds, tuple(sorted(missing)), error))

        try:
            yield missing
        except DeGrootError as error:
            remember(str(error))
            raise
        remember()

    async def _answer_with_quorum(self, asked: NodeQuestion, until: Until | None) -> NodeAnswer:
        """The answer; where too few can give one while rosters differ, again once a roster has changed."""
        deadline = asyncio.get_running_loop().time() + self.circle.configuration.timing.deadline_seconds
        while True:
            rosters = self.circle.rosters()
            try:
                if self.circle.maps.is_used:
                    return await self._consult_maps(asked, until)
                if until is None:
                    return await consult(self.circle, asked)
                return await pool(self.circle, self.sessions, asked, until)
            except TooFew:
                if not await self.circle.wait_for_rosters(rosters, deadline):
                    raise

    async def _consult_maps(self, asked: NodeQuestion, until: Until | None) -> NodeAnswer:
        if until is not None:
            raise InvalidInput("Rounds exchange exact evidence, and here it is maps: ask by solving, way='solve'.")
        return await consult_maps(self.circle, asked)

    def _extra(self, asked: NodeQuestion, until: Until | None) -> list[str] | None:
        """What the sample wants beside what is asked for and costs nothing more; None: nothing of this question.

        Where there is a consensus the sample is of it; elsewhere of the node's own view, which knows no trust.
        """
        own = asked.view == OWN
        if self.recent is None or (own and self.circle.configuration.has_consensus) or not self.recent.wants():
            return None
        M, K = len(asked.points), len(self.circle.names)
        wanted = ["value", "weights"]
        wanted += ["trust"] if not own and until is None and M * K * K <= LARGEST else []
        wanted += ["influence"] if until is not None or "standard_error" in asked.fields else []
        return [name for name in wanted if name not in asked.fields]


def _add_fields(asked: NodeQuestion, extra: Sequence[str] | None) -> NodeQuestion:
    """The question with further fields."""
    return replace(asked, fields=[*asked.fields, *extra]) if extra else asked


def _drop_fields(answered: NodeAnswer, extra: Sequence[str]) -> NodeAnswer:
    """The answer as it was asked for."""
    if not extra:
        return answered
    return replace(answered, fields={name: array for name, array in answered.fields.items() if name not in extra})


async def consult(circle: Peers, asked: NodeQuestion) -> NodeAnswer:
    """The collective's answer in one round."""
    aside, missing = circle.set_aside(), circle.without_evidence()
    opinions = await gather_opinions(circle, asked, missing)
    while True:
        scored = {name: [model.name for model in opinion.scored] for name, opinion in opinions.items()}
        who = circle.membership(scored, missing, unlisted=circle.unlisted())
        roster, seat = circle.names, circle.scores.seat
        who.check(circle.configuration.needed)
        work = partial(
            solve, roster, who, opinions, seat.option, list(asked.fields), guard=asked.guard, aside=aside,
            points=asked.points, features=seat.feature_names,
        )  # fmt: skip
        try:
            rows = len(asked.points)
            return work() if rows <= FEW_POINTS else await circle.solutions.compute(rows, work)
        except MalformedOpinions as error:
            for name in [who.members[place] for place in error.agents]:
                missing[name] = IMPOSSIBLE
                del opinions[name]


def check_consensus(circle: Peers) -> None:
    """Raise unless this node may ask for the consensus."""
    if not circle.configuration.has_consensus:
        raise NotPooled(
            f"The consensus needs everybody's evidence, in the file of every node that answers: evidence = {MAPS!r}, "
            f"as private maps, or evidence = {POOLED!r}, which lets members recover each other's labels; "
            f"{circle.configuration.name!r} has {OWN_EVIDENCE!r}."
        )


def check_complete(asked: NodeQuestion, circle: Peers, until: Until | None) -> None:
    """Refuse points for the consensus that lack whole columns, or have gaps where beliefs are pooled in rounds."""
    if asked.absent is not None:
        names = circle.scores.seat.feature_names
        raise InvalidInput(
            f"The consensus of nodes must be asked about points with all columns; these lack "
            f"{name_columns(asked.absent, names)}. Add them, or ask for the node's own view."
        )
    if until is not None and has_gaps(asked.points):
        raise InvalidInput("Rounds must be asked about points without gaps; these have some: ask by solving.")


def check_columns(points: Array, names: Sequence[str], seat: ScoredAgent) -> None:
    """Refuse points with other features than the nodes' rows have."""
    d = seat.agent.n_features
    if points.shape[1] != d:
        raise InvalidInput(f"`X` must have {d} features, as the nodes' rows do; got {points.shape[1]}.")
    if names and len(names) != d:
        raise InvalidInput(f"`X` must have a name for each of {d} features, or none; got {len(names)}.")
    for k, (given, known) in enumerate(zip(names, seat.feature_names, strict=False)):
        if given != known:
            raise InvalidInput(
                f"`X` must have the same features in the same order; feature {k} is {given[:100]!r}, not {known!r}."
            )
