"""Answering: a question is put to the collective, whoever asks it, and kept count of."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from degroot.exceptions import DeGrootError
from degroot.node.answering.ask_peers import NodeQuestion, consult
from degroot.node.answering.modes import ROUNDS, SOLVE
from degroot.node.peers.peers import Peers
from degroot.node.peers.quorum import TooFew
from degroot.node.pooling.coordinator import Until, pool
from degroot.node.pooling.session import Sessions
from degroot.node.protocol.codec import NodeAnswer
from degroot.node.records.metrics import Metrics
from degroot.node.records.recent import QuestionRecord, Recent

LARGEST = 1 << 20  # numbers of trust that are looked at where nobody has asked for them


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
        answered = await self._answered(replace(asked, fields=[*asked.fields, *extra]) if extra else asked, until)
        self._metrics.answered(time.perf_counter() - begun, answered.rounds)
        if self.recent is not None and extra is not None:
            self.recent.sample.add(asked.points, answered)
        return _without(answered, extra or ())

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

    async def _answered(self, asked: NodeQuestion, until: Until | None) -> NodeAnswer:
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


def _without(answered: NodeAnswer, extra: Sequence[str]) -> NodeAnswer:
    """The answer as it was asked for."""
    if not extra:
        return answered
    return replace(answered, fields={name: array for name, array in answered.fields.items() if name not in extra})
