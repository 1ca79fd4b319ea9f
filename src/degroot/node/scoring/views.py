"""Views: a node's own view on the models that it has scored, made when it is first asked for."""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from degroot.agents.agent import Agent, Scorer
from degroot.consultation.asker import AskerView, ViewQuestion
from degroot.node.server.threads import run_model_in_thread
from degroot.rules.rules import RuleSettings

KEPT = 4  # views: on all models, and where some are missing, on the others


@dataclass(slots=True)
class _Entry:
    """A view, and what questions that it has answered needed: what it makes at the first one is made."""

    view: "asyncio.Future[AskerView]"
    prepared: set[tuple[bool, ...]] = field(default_factory=set)


class OwnViews:
    """The views of one agent: on all models that it has scored, or on those of some members only."""

    def __init__(self, agent: Agent, scorer: Scorer, names: Sequence[str], option: RuleSettings) -> None:
        self._agent, self._scorer, self._names, self._option = agent, scorer, list(names), option
        self._entries: OrderedDict[tuple[str, ...], _Entry] = OrderedDict()

    async def among(self, members: Sequence[str]) -> AskerView:
        """The view on the models of these members, the agent among them, in this order; it is made once."""
        key = tuple(members)
        entry = self._entries.get(key)
        if entry is None:
            made = asyncio.ensure_future(run_model_in_thread(self._make, key))
            entry = self._entries[key] = _Entry(made)
            made.add_done_callback(lambda done: self._forget_failed(key, done))
            while len(self._entries) > KEPT:
                self._entries.popitem(last=False)
        self._entries.move_to_end(key)
        return await asyncio.shield(entry.view)  # others may wait for it

    def find_prepared(self, members: Sequence[str], question: ViewQuestion) -> AskerView | None:
        """The view on these members' models, if it has answered questions with the same needs before."""
        key = tuple(members)
        entry = self._entries.get(key)
        if entry is None or question.needs not in entry.prepared:
            return None
        self._entries.move_to_end(key)
        return entry.view.result()

    def mark_prepared(self, view: AskerView, members: Sequence[str], question: ViewQuestion) -> None:
        """The view has answered this question."""
        entry = self._entries.get(tuple(members))
        if entry is not None and entry.view.done() and entry.view.result() is view:
            entry.prepared.add(question.needs)

    def _make(self, members: tuple[str, ...]) -> AskerView:
        scorer = self._scorer
        if list(members) != self._names:
            columns = [self._names.index(name) for name in members]
            scorer = scorer.with_residuals(scorer.residuals[..., columns])
        return AskerView(scorer, members, members.index(self._agent.name), self._option)

    def _forget_failed(self, key: tuple[str, ...], done: "asyncio.Future[AskerView]") -> None:
        failed, entry = done.cancelled() or done.exception() is not None, self._entries.get(key)
        if failed and entry is not None and entry.view is done:
            del self._entries[key]
