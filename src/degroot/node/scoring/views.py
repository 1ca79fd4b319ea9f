"""Views: a node's own view on the models that it has scored, made when it is first asked for."""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence

from degroot.agents.agent import Agent, Scorer
from degroot.consultation.asker import AskerView, ViewQuestion
from degroot.node.server.threads import run_model_in_thread
from degroot.rules.rules import RuleSettings

KEPT = 4  # views: on all models, and where some are missing, on the others


class OwnViews:
    """The views of one agent: on all models that it has scored, or on those of some members only."""

    def __init__(self, agent: Agent, scorer: Scorer, names: Sequence[str], option: RuleSettings) -> None:
        self._agent, self._scorer, self._names, self._option = agent, scorer, list(names), option
        self._made: OrderedDict[tuple[str, ...], asyncio.Future[AskerView]] = OrderedDict()

    async def among(self, members: Sequence[str]) -> AskerView:
        """The view on the models of these members, the agent among them, in this order; it is made once."""
        key = tuple(members)
        view = self._made.get(key)
        if view is None:
            view = self._made[key] = asyncio.ensure_future(run_model_in_thread(self._make, key))
            view.add_done_callback(lambda done: self._forget_failed(key, done))
            while len(self._made) > KEPT:
                self._made.popitem(last=False)
        self._made.move_to_end(key)
        return await asyncio.shield(view)  # others may wait for it

    def find_prepared(self, members: Sequence[str], question: ViewQuestion) -> AskerView | None:
        """The view on these members' models, if it has answered questions with the same needs before."""
        key = tuple(members)
        made = self._made.get(key)
        if made is None or not made.done() or made.cancelled() or made.exception() is not None:
            return None
        self._made.move_to_end(key)
        return made.result() if made.result().is_prepared_for(question) else None

    def _make(self, members: tuple[str, ...]) -> AskerView:
        scorer = self._scorer
        if list(members) != self._names:
            columns = [self._names.index(name) for name in members]
            unscored = None if scorer.unscored is None else scorer.unscored[columns]
            scorer = scorer.with_residuals(scorer.residuals[..., columns], unscored)
        return AskerView(scorer, members, members.index(self._agent.name), self._option)

    def _forget_failed(self, key: tuple[str, ...], done: "asyncio.Future[AskerView]") -> None:
        failed = done.cancelled() or done.exception() is not None
        if failed and self._made.get(key) is done:
            del self._made[key]
