"""Assemblies: agents in processes of their own before a question, which they answer part by part."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from degroot.answers import FIELDS, Consensus, asked
from degroot.cluster.faults import heard
from degroot.cluster.hearing import Hearing
from degroot.cluster.member import Source
from degroot.cluster.opinion import Opinion
from degroot.evidence import Question
from degroot.exceptions import InvalidInput
from degroot.tables import take

SAID_BYTES = 1 << 25  # of points, and of what all agents say of them, for one part
AHEAD = 1  # parts that agents work on while the one before is concluded


@dataclass(frozen=True, slots=True)
class Assembly:
    """Agents that answer from other processes. It can itself be sent to other processes."""

    actors: tuple[Any, ...]
    sources: tuple[Source, ...]  # what gives each actor its agent
    names: tuple[str, ...]  # of the agents
    outputs: int | None  # how many numbers they predict for each row; None: one, as (n,)
    hearing: Hearing
    judged: bool = True  # whether they can be asked for more than what they believe

    def consult(self, X: Any, fields: Sequence[str] | str = FIELDS) -> Consensus:
        """The collective prediction for the points `X`, with what lies behind it."""
        return Consensus(self.names, **self.answer(X, asked(fields, FIELDS)), peers=self.hearing.peers)

    def answer(self, X: Any, names: Iterable[str]) -> dict[str, Any]:
        """The fields in `names` for the points `X`, and flags."""
        draft = self.hearing.blank(names, X.shape[0], len(self.actors), self.outputs or 1)
        question = self.hearing.question(draft.fields)
        if question.reach is not None and not self.judged:
            raise InvalidInput("Agents must have scored each other's models for these fields; they have not.")
        for part, opinions in self._opinions(X, question):
            self.hearing.conclude(opinions, draft.part(part))
        return draft.told(self.names, self.outputs)

    def with_jobs(self, n_jobs: int) -> "Assembly":
        """The same agents; whoever asks them uses so many threads."""
        return replace(self, hearing=replace(self.hearing, n_jobs=n_jobs))

    def close(self) -> None:
        """End the agents' processes."""
        end(self.actors)

    def _opinions(self, X: Any, question: Question) -> Iterator[tuple[slice, list[Opinion]]]:
        """What all agents say of one part of the points after the other."""
        under_way: deque[tuple[slice, list[Any]]] = deque()
        for part in self._parts(X, question):
            under_way.append((part, self._ask(take(X, part), question)))
            if len(under_way) > AHEAD:
                done, references = under_way.popleft()
                yield done, heard(references, self.names)
        for done, references in under_way:
            yield done, heard(references, self.names)

    def _parts(self, X: Any, question: Question) -> list[slice]:
        """Parts of X small enough to hold what all agents say of them."""
        K, Q = len(self.actors), self.outputs or 1
        floats = X.shape[1] + K * question.floats(K, Q, self.hearing.scored(K))
        step = max(64, SAID_BYTES // (8 * floats))
        return [slice(start, min(start + step, X.shape[0])) for start in range(0, X.shape[0], step)]

    def _ask(self, X: Any, question: Question) -> list[Any]:
        """Put points to all agents; they are stored once, for all to read."""
        import ray

        points = ray.put(X)
        asked = zip(self.actors, self.sources, strict=True)
        return [actor.opinion.remote(source, points, question) for actor, source in asked]


def end(actors: Iterable[Any]) -> None:
    """End agents' processes."""
    import ray

    if ray.is_initialized():
        for actor in actors:
            ray.kill(actor)
