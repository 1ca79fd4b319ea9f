"""Answering: a question is put to the collective, whoever asks it, and kept count of.

By solving, the asked node gathers everybody's opinion, leaves out who does not answer in time, and solves.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import count

from degroot.compute.compiled import Array
from degroot.consultation.consult import FEW_POINTS, INVALID, MalformedOpinions, Opinion
from degroot.exceptions import DeGrootError, InvalidInput
from degroot.node.answering.answer import ROUNDS, SOLVE, NodeQuestion, solve
from degroot.node.errors import BadReply, PeerError
from degroot.node.intervals.bounds import add_bounds, collect_calibration
from degroot.node.peers.link import Link, kind_of
from degroot.node.peers.peers import Membership, Peers, TooFew
from degroot.node.pooling.coordinator import Until, pool
from degroot.node.pooling.session import Sessions
from degroot.node.protocol.codec import PROTOCOL, Malformed, NodeAnswer, PeerOpinion, decode_opinion, tensor
from degroot.node.protocol.v1 import collective_pb2 as v1
from degroot.node.records.metrics import Metrics
from degroot.node.records.recent import QuestionRecord, Recent
from degroot.node.scoring.scored_agent import ScoredAgent
from degroot.node.server.threads import run_in_thread
from degroot.rules.evidence import MOMENTS

LARGEST = 1 << 20  # numbers of trust that are looked at where nobody has asked for them
IMPOSSIBLE = INVALID.rstrip(".")
_numbers = count(1)


class Answering:
    """A node's answers. `recent`: where they are remembered, if somebody may want to look at them."""

    def __init__(self, circle: Peers, metrics: Metrics, recent: Recent | None) -> None:
        self.circle, self.recent, self.sessions = circle, recent, Sessions()
        self._metrics = metrics

    async def answer(self, who: str, asked: NodeQuestion, until: Until | None = None) -> NodeAnswer:
        """The collective's answer: by rounds until then or, without an end, by solving."""
        with self.remembered(who, SOLVE if until is None else ROUNDS, len(asked.points)) as missing:
            answered = await self.part(asked, until)
            missing.update(answered.missing)
        return answered

    async def part(self, asked: NodeQuestion, until: Until | None) -> NodeAnswer:
        """The answer to some rows of a question, which are no question by themselves."""
        begun = time.perf_counter()
        extra = self._extra(asked, until)
        answered = await self._answer_with_quorum(
            replace(asked, fields=[*asked.fields, *extra]) if extra else asked, until
        )
        self._metrics.question_seconds.observe(time.perf_counter() - begun)
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
                if until is None:
                    return await consult(self.circle, asked)
                return await pool(self.circle, self.sessions, asked, until)
            except TooFew:
                if not await self.circle.wait_for_rosters(rosters, deadline):
                    raise

    def _extra(self, asked: NodeQuestion, until: Until | None) -> list[str] | None:
        """What the sample wants beside what is asked for and costs nothing more; None: nothing of this question."""
        if self.recent is None or not self.recent.wants():
            return None
        M, K = len(asked.points), len(self.circle.names)
        wanted = ["value", "weights"]
        wanted += ["trust"] if until is None and M * K * K <= LARGEST else []
        wanted += ["influence"] if until is not None or "standard_error" in asked.fields else []
        return [name for name in wanted if name not in asked.fields]


def _drop_fields(answered: NodeAnswer, extra: Sequence[str]) -> NodeAnswer:
    """The answer as it was asked for."""
    if not extra:
        return answered
    return replace(answered, fields={name: array for name, array in answered.fields.items() if name not in extra})


async def consult(circle: Peers, asked: NodeQuestion) -> NodeAnswer:
    """The collective's answer in one round."""
    aside, missing = circle.set_aside(), circle.troubled()
    opinions = await _gather_opinions(circle, asked, missing)
    while True:
        scored = {name: [model.name for model in opinion.scored] for name, opinion in opinions.items()}
        roster, who = circle.names, circle.membership(scored, missing)
        who.check(circle.configuration.needed)
        work = partial(_solve, circle.scores.seat, asked, roster, who, opinions, aside)
        try:
            return work() if len(asked.points) <= FEW_POINTS else await run_in_thread(work)
        except MalformedOpinions as error:
            for name in [who.members[place] for place in error.agents]:
                missing[name] = IMPOSSIBLE
                del opinions[name]


def _solve(
    seat: ScoredAgent,
    asked: NodeQuestion,
    roster: Sequence[str],
    who: Membership,
    opinions: dict[str, PeerOpinion],
    aside: Sequence[str],
) -> NodeAnswer:
    """The answer of those who take part, with intervals if they are asked for."""
    fields = list(asked.fields)
    if asked.coverage is None:
        return solve(roster, who, opinions, seat.option, fields, guard=asked.guard, aside=aside)
    told = collect_calibration(who.members, opinions)
    with_value = list(dict.fromkeys([*fields, "value"]))
    answered = solve(roster, who, opinions, seat.option, with_value, guard=asked.guard, aside=aside)
    answered = add_bounds(answered, told, asked.coverage, classes=seat.agent.classes is not None)
    if "value" not in fields:
        del answered.fields["value"]
    return answered


def make_question(points: Array, **wanted: bool) -> v1.Question:
    """A question about points; `wanted`: what opinions are to have beside what they always have."""
    return v1.Question(protocol=PROTOCOL, id=next(_numbers), points=tensor(points), **wanted)


async def _gather_opinions(circle: Peers, asked: NodeQuestion, missing: dict[str, str]) -> dict[str, PeerOpinion]:
    """Everybody's opinion; who has none that can be used becomes `missing`."""
    wanted = {"spread": circle.spread, "guard": asked.guard, "interval": asked.coverage is not None}
    seat, question = circle.scores.seat, make_question(asked.points, **wanted)
    links = [link for name, link in circle.links.items() if name not in missing]
    circle.wiring.record([link.name for link in links], kind_of(question), len(asked.points), question.ByteSize())
    waiting = [asyncio.create_task(ask_peer(link, question, len(asked.points), seat)) for link in links]
    try:
        await asyncio.sleep(0)  # peers begin while this node forms its own opinion
        opinions = {circle.configuration.name: await circle.opinion(asked.points, **wanted)}
        replies = await asyncio.gather(*waiting)
    finally:
        for task in waiting:
            task.cancel()
    for link, reply in zip(links, replies, strict=True):
        if isinstance(reply, PeerOpinion):
            opinions[link.name] = reply
        else:
            missing[link.name] = reply.reason
    return opinions


async def ask_peer(link: Link, question: v1.Question, rows: int, seat: ScoredAgent) -> PeerOpinion | PeerError:
    """What a peer says, or why it says nothing that can be used."""
    try:
        reply = await link.opinion(question)
        told = decode_opinion(reply, rows, seat.outputs, classes=seat.agent.classes is not None)
    except PeerError as error:
        return error
    except Malformed as error:
        return BadReply(link.name, f"its opinion makes no sense: {error}")
    lacking = _find_lacking(told.opinion, question, seat)
    return BadReply(link.name, f"its opinion lacks {', '.join(lacking)}") if lacking else told


def _find_lacking(opinion: Opinion, question: v1.Question, seat: ScoredAgent) -> list[str]:
    """What was asked for and is not in the opinion."""
    wanted = ["moments"] if seat.option.definition.uses == MOMENTS else []
    wanted += ["spread", "effective"] if question.spread else []
    lacking = [name for name in wanted if getattr(opinion.measured, name) is None]
    if seat.option.definition.uses != MOMENTS and opinion.measured is not None and opinion.measured.moments is not None:
        lacking.append("errors")
    return [*lacking, "expectation"] if question.guard and opinion.forecast is None else lacking


def check_columns(points: Array, names: Sequence[str], seat: ScoredAgent) -> Array:
    """Points to ask about, if they have the features that the nodes have."""
    if points.shape[1] != seat.agent.n_features:
        raise InvalidInput(
            f"`X` must have {seat.agent.n_features} features, as the nodes' rows do; got {points.shape[1]}."
        )
    if names and len(names) != points.shape[1]:
        raise InvalidInput(f"`X` must have a name for each of {points.shape[1]} features, or none; got {len(names)}.")
    for k, (given, known) in enumerate(zip(names, seat.feature_names, strict=False)):
        if given != known:
            raise InvalidInput(
                f"`X` must have the same features in the same order; feature {k} is {given[:100]!r}, not {known!r}."
            )
    return points
