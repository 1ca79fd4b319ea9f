"""Gains: what this node gains by asking the collective, on its own rows, and whose models it owes that to."""

import asyncio
from typing import Any

import numpy as np

from degroot.answers.gains import LEVEL, Gains
from degroot.asker.mixture import clustered_standard_error
from degroot.compute.compiled import Array
from degroot.consultation.asker import AskerView
from degroot.consultation.gains import measure_gains
from degroot.consultation.shapley import list_coalitions, measure_contributions
from degroot.exceptions import DeGrootError
from degroot.node.page.answers import describe_mixture
from degroot.node.page.encoding import number
from degroot.node.peers.peers import Peers
from degroot.node.scoring.scored_agent import ScoredAgent
from degroot.node.server.threads import run_in_thread

MOST_SETS = 512  # of members that contributions are measured with: seconds of work, for up to ten members
ALONE = "no model of a peer has been scored yet"


class OwnGains:
    """The gains of one node; measured when somebody looks, and again when it has scored other models."""

    def __init__(self, circle: Peers) -> None:
        self._circle = circle
        self._seat: ScoredAgent | None = None
        self._measured: asyncio.Future[dict[str, Any]] | None = None

    async def read(self) -> dict[str, Any]:
        """All there is to say, ready to be encoded; or the reason why there is nothing."""
        seat, me = self._circle.scores.seat, self._circle.configuration.name
        names = [model.name for model in seat.scored]
        reason = self._circle.no_view or (ALONE if len(names) < 2 else "")
        if reason:
            return {"node": me, "reason": reason}
        if self._measured is None or self._seat is not seat:
            self._seat, self._measured = seat, asyncio.ensure_future(self._measure(seat, names))
        try:
            return await asyncio.shield(self._measured)
        except DeGrootError as error:
            self._measured = None
            return {"node": me, "reason": str(error)}

    async def _measure(self, seat: ScoredAgent, names: list[str]) -> dict[str, Any]:
        view = await seat.views.among(names)
        return await run_in_thread(describe_gains, view)


def describe_gains(view: AskerView) -> dict[str, Any]:
    """What the asker gains on its own left-out rows, in numbers and words; what was mixed, and who contributes."""
    agent = view.agent
    classes = () if agent.classes is None else tuple(map(repr, agent.classes.tolist()))
    gains = measure_gains([agent], lambda _: view, shapley=False, correct=False, classes=classes)
    about = {"node": agent.name, "reason": gains.reasons[0], "members": list(view.names), "measure": _measure(gains)}
    if gains.reasons[0]:
        return about
    errors = {"own": view.own_errors, "control": view.control_left_out, "collective": view.left_out}
    if view.control is None:
        del errors["control"]
    return about | {
        "rows": int(gains.rows[0]), "units": None if agent.units is None else int(gains.units[0]),
        "errors": {name: _error(view, values) for name, values in errors.items()},
        "words": [_against_own(gains), _against_control(gains, view)],
        "mixed": describe_mixture(view.choice()), "contributions": _contributions(view),
    }  # fmt: skip


def _measure(gains: Gains) -> str:
    return gains.measure if gains.classes else "root mean squared error"


def _error(view: AskerView, errors: Array) -> dict[str, float | None]:
    """The root mean squared error, for classes the Brier score, of errors (m, Q) on the scored rows; standard error."""
    losses = (view.as_answered(errors, view.sample) ** 2).sum(axis=1)
    mean, error = float(losses.mean()), float(clustered_standard_error(losses, view.units[view.sample]))
    if view.agent.classes is not None:
        return {"value": number(mean), "standard_error": number(error)}
    root = float(np.sqrt(mean))
    return {"value": number(root), "standard_error": number(error / (2.0 * root)) if root > 0.0 else 0.0}


def _against_own(gains: Gains) -> str:
    change = _change(gains.difference[0], gains.standard_error[0], gains.own[0])
    verdict = "beyond chance" if gains.p_value[0] < LEVEL else "which may be chance"
    return (
        f"The {gains.measure} of the collective's answers for this node is {change} that of its own model, {verdict}."
    )


def _against_control(gains: Gains, view: AskerView) -> str:
    if view.control is None:
        return "There are too few rows to learn a correction of the own model, which peers could be compared with."
    if view.control.regression is None:
        return "A correction of the own model, learned on its own rows without any peer, would change nothing."
    change = _change(gains.against_control[0], gains.against_control_error[0], gains.control[0])
    clear = gains.against_control_p_value[0] < LEVEL
    if gains.against_control[0] > 0.0 and clear:
        verdict = "beyond chance: a better own model would bring more than the peers do"
    else:
        verdict = "beyond chance: that is what the peers add" if clear else "which may be chance"
    return (
        f"It is {change} that of the own model with a correction learned on its own rows, without any peer, {verdict}."
    )


def _change(difference: float, error: float, base: float) -> str:
    """How much lower or higher than a base, with the standard error."""
    if base <= 0.0:
        return f"{abs(difference):.3g} ± {error:.2g} {'below' if difference < 0.0 else 'above'}"
    share, spread = 100.0 * abs(difference) / base, 100.0 * error / base
    digits = 1 if share < 100.0 else 0
    return f"{share:.{digits}f} ± {spread:.{digits}f} % {'below' if difference < 0.0 else 'above'}"


def _contributions(view: AskerView) -> list[dict[str, Any]] | None:
    """What each member adds to the gain, its Shapley value, largest first; None where there are too many members.

    The node itself is among them, with what its own rows bring without any peer.
    """
    if len(list_coalitions(view.K - 1).sets) > MOST_SETS:
        return None
    found, errors = measure_contributions(view, lambda *_: None)
    return [
        {
            "name": view.names[k], "own": k == view.place, "gain": number(found[k]),
            "standard_error": number(errors[k]),
        }
        for k in np.argsort(-found, kind="stable").tolist()
    ]  # fmt: skip
