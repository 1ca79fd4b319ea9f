"""Jobs: questions that come through the page are answered in the background, batch by batch.

They are the node's own, asked and recorded as ``degroot ask`` would in its name.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from degroot.answers.answer import ASKER_FIELDS, FIELDS, Consensus
from degroot.answers.flags import MISSING
from degroot.compute.compiled import Array
from degroot.exceptions import DeGrootError, InvalidInput
from degroot.node.answering.answer import NodeQuestion
from degroot.node.answering.answering import OWN_VIEW, Answering, NotPooled, check_consensus
from degroot.node.answering.terms import CONSENSUS, OWN, SOLVE, check_coverage, merge_batches
from degroot.node.client import BATCH
from degroot.node.page.answers import FAILED, KEPT, WORKING, Answer, Archive, entry, new_id
from degroot.node.page.fields import describe_target
from degroot.node.page.overview import classes, features
from degroot.node.page.requests import Inquiry, TooMuch
from degroot.node.pooling.coordinator import Until
from degroot.node.protocol.codec import NodeAnswer, draw_question
from degroot.node.records.chain import IN, Origin
from degroot.node.records.ledger import ASKED_AT_PAGE
from degroot.node.server.threads import run_in_thread


@dataclass(slots=True)
class Work:
    """A question that is being answered, or could not be."""

    id: str
    at: float  # seconds since 1970
    inquiry: Inquiry
    person: str  # who asks
    question: str = field(default_factory=draw_question)  # its number in ledgers
    done: int = 0  # rows
    error: str | None = None
    ended: float | None = None  # when; None: it is still at work

    @property
    def status(self) -> str:
        """How it stands."""
        return WORKING if self.error is None else FAILED

    def summary(self) -> dict[str, Any]:
        """What there is to say of it."""
        terms, total = self.inquiry.terms, len(self.inquiry.points)
        return self.entry() | {
            "question": self.question, "kept": False, "until": None, "coverage": terms.coverage,
            "done": self.done, "total": total, "error": self.error,
            "ignored": list(self.inquiry.ignored), "note": self.inquiry.note, "units": {},
            "seconds": round((self.ended or time.time()) - self.at, 3),
            "rounds": None, "asker": None, "lacking": "", "mixed": None, "missing": [], "flags": [],
        }  # fmt: skip

    def entry(self) -> dict[str, Any]:
        """Its line in a list of answers."""
        inquiry = self.inquiry
        about = (inquiry.source, len(inquiry.points), inquiry.terms, self.person)
        return entry(self.id, self.at, *about, self.status)


AT_WORK = 4  # questions at a time
TRUST, NUMBERS = 4_000_000, 20_000_000  # of one answer: numbers of trust, without which it can do, and others
UNTIL = Until(1e-9, 1000)  # as of `degroot ask`


@dataclass(slots=True)
class Side:
    """An answer in front or beside it, batch by batch."""

    view: str
    coverage: float | None
    answers: list[NodeAnswer] = field(default_factory=list)
    lacking: str = ""  # why there is no more, or no interval
    over: bool = False

    def give_up(self, why: str) -> None:
        """Take back what was answered, and answer no more."""
        self.answers, self.lacking, self.over = [], why, True


class JobQueue:
    """Takes questions and works on a few at a time; what is done is in the archive."""

    def __init__(self, answering: Answering, archive: Archive, log: Any) -> None:
        self._answering, self._circle, self._archive, self._log = answering, answering.circle, archive, log
        self._works: OrderedDict[str, Work] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()

    def take(self, inquiry: Inquiry, person: str) -> Work:
        """Begin to answer what somebody asks."""
        if len(self._tasks) >= AT_WORK:
            raise TooMuch(f"The page works on at most {AT_WORK} questions at a time; this is one more.")
        self._check_front(inquiry)
        self._check_size(inquiry)
        work = Work(new_id(), time.time(), inquiry, person)
        self._works[work.id] = work
        task = asyncio.create_task(self._work(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        while len(self._works) > KEPT:
            self._works.popitem(last=False)
        return work

    def find(self, id_: str) -> Work | None:
        """The question with this id, unless it is answered."""
        return self._works.get(id_)

    def summary(self, work: Work) -> dict[str, Any]:
        """What there is to say of a question that is not answered."""
        circle = self._circle
        return work.summary() | {
            "rule": circle.configuration.collective.rule, "features": features(circle), "names": list(circle.names),
            "outputs": circle.scores.seat.agent.outputs, "classes": classes(circle),
            "target": describe_target(circle.scores.seat.agent.schema),
        }  # fmt: skip

    def entries(self) -> list[dict[str, Any]]:
        """A line for each question that is not answered, the newest first."""
        return [work.entry() for work in reversed(self._works.values())]

    async def close(self) -> None:
        """Give up what is at work."""
        for task in (left := list(self._tasks)):
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _work(self, work: Work) -> None:
        try:
            answer = await self._answer(work)
            await run_in_thread(self._archive.save, answer)
            self._works.pop(work.id, None)
        except DeGrootError as error:
            work.error = str(error)
        except asyncio.CancelledError:
            work.error = "The node was stopped before this was answered."
            raise
        except Exception as error:  # a mistake of ours: the node goes on
            work.error = f"The page has failed ({type(error).__name__}); the node's log says why."
            self._log.exception("a question through the page has failed")
        finally:
            work.ended = time.time()

    async def _answer(self, work: Work) -> Answer:
        begun, inquiry, rule = time.perf_counter(), work.inquiry, self._circle.configuration.collective.rule
        names = tuple(features(self._circle))
        me, terms = self._circle.configuration.name, inquiry.terms
        way = OWN_VIEW if self._front(inquiry) == OWN else terms.way
        with self._answering.remembered(me, way, len(inquiry.points)) as missing:
            answered = await self._answer_batches(work)
            missing.update(flag.agent for flag in answered[0].flags if flag.kind == MISSING)
        return Answer(
            work.id, work.at, time.perf_counter() - begun, inquiry.source, terms, rule, names, inquiry.ignored,
            inquiry.points, *answered, work.question, self._circle.scores.seat.agent.schema, inquiry.note,
            work.person,
        )  # fmt: skip

    async def _answer_batches(self, work: Work) -> tuple[Consensus, Consensus | None, str]:
        """The answer in front and the one beside it, of all batches; why that is not there, or has no interval."""
        inquiry, points = work.inquiry, work.inquiry.points
        front = Side(self._front(inquiry), inquiry.terms.coverage)
        beside = self._beside(front)
        origin = Origin(work.question, self._circle.configuration.name, inquiry.terms.purpose)
        self._circle.wiring.ledger.note(ASKED_AT_PAGE, work.person, question=work.question)
        for start in range(0, len(points), BATCH):
            batch = points[start : start + BATCH]
            front.answers.append(await self._answer_batch(batch, inquiry, front, origin))
            await self._answer_beside(batch, inquiry, beside, origin)
            self._record(batch, [front.answers[-1], *beside.answers[-1:]], origin)
            work.done = start + len(batch)
        told = await run_in_thread(self._merge_parts, front)
        return told, await run_in_thread(self._merge_parts, beside) if beside.answers else None, beside.lacking

    def _front(self, inquiry: Inquiry) -> str:
        """Whose view is in front."""
        able = inquiry.terms.way == SOLVE and not self._circle.no_view
        return inquiry.terms.view or (OWN if able else CONSENSUS)

    def _check_front(self, inquiry: Inquiry) -> None:
        """Refuse a question whose answer in front cannot be had, whoever is there."""
        front = self._front(inquiry)
        check_coverage(inquiry.terms.coverage, front)
        if front == CONSENSUS:
            check_consensus(self._circle)

    def _beside(self, front: Side) -> Side:
        """The other answer, before it is asked for; what it will lack, if that is known."""
        beside = Side(CONSENSUS if front.view == OWN else OWN, None)
        if beside.view == OWN:
            if self._circle.no_view:
                beside.give_up(f"This node has no view of its own: {self._circle.no_view}.")
            return beside
        try:
            check_consensus(self._circle)
            check_coverage(front.coverage, CONSENSUS)
        except NotPooled as error:
            beside.give_up(str(error))
        except InvalidInput as error:
            beside.lacking = str(error)
        return beside

    async def _answer_beside(self, batch: Array, inquiry: Inquiry, beside: Side, origin: Origin) -> None:
        """What else there is to say of a batch, if anything is."""
        if beside.over:
            return
        try:
            beside.answers.append(await self._answer_batch(batch, inquiry, beside, origin))
        except DeGrootError as error:
            beside.give_up(str(error))

    async def _answer_batch(self, batch: Array, inquiry: Inquiry, side: Side, origin: Origin) -> NodeAnswer:
        """The answer to one batch."""
        seat, terms = self._circle.scores.seat, inquiry.terms
        fields = list(ASKER_FIELDS) if side.view == OWN else self._fields(inquiry)
        question = NodeQuestion(
            batch, fields, seat.guarded, side.coverage, side.view, origin=origin, absent=inquiry.absent
        )
        return await self._answering.part(question, None if side.view == OWN or terms.way == SOLVE else UNTIL)

    def _record(self, batch: Array, answers: Sequence[NodeAnswer], origin: Origin) -> None:
        """Record what will be shown of a batch, for which no message is made."""
        shown = sum(values.nbytes for answered in answers for values in answered.fields.values())
        me = self._circle.configuration.name
        self._circle.wiring.ledger.record(me, "consult", IN, len(batch), shown, batch.nbytes, origin)

    def _merge_parts(self, side: Side) -> Consensus:
        agent = self._circle.scores.seat.agent
        about = {"coverage": side.coverage, "classes": agent.class_names}
        return merge_batches(side.answers, agent.outputs, self._circle.names, **about)

    def _fields(self, inquiry: Inquiry) -> list[str]:
        """All of the consensus that can be shown: trust only by solving, and where it is not too much."""
        trust = len(inquiry.points) * len(self._circle.names) ** 2
        hidden = inquiry.terms.way != SOLVE or trust > TRUST
        return [name for name in FIELDS if name != "trust" or not hidden]

    def _check_size(self, inquiry: Inquiry) -> None:
        M, d = inquiry.points.shape
        K, Q = len(self._circle.names), self._circle.scores.seat.outputs
        most = max(1, NUMBERS // (d + 2 * (4 * Q + K * (1 + 2 * Q))))
        if most < M:
            told = f"{K} nodes, {d} features and {Q} outputs"
            raise TooMuch(f"With {told} the page takes at most {most} rows; {M} came. `degroot ask` takes more.")
