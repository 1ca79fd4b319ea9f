"""The overview: this node, its peers and the last questions, as they are now."""

import math
import time
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

import degroot
from degroot.node.errors import BadReply, PeerError, PeerLate, PeerRefused
from degroot.node.page.encoding import moment
from degroot.node.peers.link import Link
from degroot.node.peers.peers import CALIBRATING, READY, STALE, Peers
from degroot.node.records.recent import QuestionRecord, Recent

UP, LATE, REFUSED, DOWN = "up", "late", "refused", "down"
ANOTHER = "its model has changed; what was found of the earlier one serves until it is scored anew"
ANSWERING = (READY, STALE)  # how it stands with peers that can take part in an answer


class Overview:
    """What there is to see of a node, but for its ledger."""

    def __init__(self, circle: Peers, recent: Recent) -> None:
        self._circle, self._recent = circle, recent
        self._started = time.time()

    def state(self) -> dict[str, Any]:
        """All of it, ready to be encoded."""
        circle = self._circle
        scored = {model.name: model.version for model in circle.scores.seat.scored}
        return {
            "node": _node(circle, self._started),
            "peers": [_peer(circle, link, scored.get(name)) for name, link in sorted(circle.links.items())],
            "questions": _questions(self._recent),
        }


def features(circle: Peers) -> list[str]:
    """The names of the features; x0, x1, ... where they have none."""
    seat = circle.scores.seat
    return list(seat.feature_names) or [f"x{k}" for k in range(seat.agent.n_features)]


def classes(circle: Peers) -> list[str]:
    """The classes whose probabilities are the outputs; none where there are no classes."""
    known = circle.scores.seat.agent.classes
    return [] if known is None else [str(each) for each in known.tolist()]


def _node(circle: Peers, started: float) -> dict[str, Any]:
    configuration, seat = circle.configuration, circle.scores.seat
    ready = 1 + sum(circle.state(link) in ANSWERING for link in circle.links.values())
    return {
        "name": configuration.name, "listen": configuration.listen, "degroot": degroot.__version__,
        "model_version": seat.version, "rule": configuration.collective.rule,
        "neighbours": configuration.collective.neighbours, "guard": seat.guarded, "queries": configuration.queries,
        "needed": configuration.needed, "ready": ready, "answering": ready >= configuration.needed,
        "intervals": _calibrated(circle), "no_view": circle.no_view, "features": features(circle),
        "outputs": seat.agent.outputs, "classes": classes(circle), "rows": len(seat.agent.X),
        "started": moment(started),
    }  # fmt: skip


def _calibrated(circle: Peers) -> bool:
    """Whether this node and all that answer with it have rehearsed: then intervals can be asked for."""
    there = [link for link in circle.links.values() if circle.state(link) in ANSWERING]
    own = circle.rehearsed is not None and circle.rehearsed.summary is not None
    return own and all(link.description is not None and link.description.calibrated for link in there)


def _peer(circle: Peers, link: Link, scored: str | None) -> dict[str, Any]:
    milliseconds = [round(1000.0 * seconds, 3) for seconds in link.pace.seconds]
    state, reason = _standing(circle, link)
    return {
        "name": link.name, "address": link.peer.address, "state": state, "reason": reason,
        "ready": circle.state(link) in ANSWERING, "model_version": link.version or None,
        "scored_version": scored, "progress": link.progress, "latency_ms": _latency(milliseconds),
        "latencies": milliseconds, "seen": moment(link.pace.seen),
    }  # fmt: skip


def _standing(circle: Peers, link: Link) -> tuple[str, str | None]:
    """How it stands with a peer, and what is the matter, if anything is."""
    if link.fault is not None:
        return _kind(link.fault), link.fault.reason
    state, setback = circle.state(link), link.setback
    if state == READY:
        return UP, None
    if setback is None:
        return state, ANOTHER if state == STALE else None
    reason = setback.reason if isinstance(setback, PeerError) else str(setback)
    return (REFUSED if state == CALIBRATING and isinstance(setback, PeerRefused) else state), reason


def _kind(fault: PeerError) -> str:
    if isinstance(fault, PeerLate):
        return LATE
    return REFUSED if isinstance(fault, PeerRefused | BadReply) else DOWN


def _latency(milliseconds: Sequence[float]) -> dict[str, float] | None:
    return {"last": milliseconds[-1], **_middle(milliseconds)} if milliseconds else None


def _middle(milliseconds: Iterable[float]) -> dict[str, float]:
    """The median, and what 95 of 100 are within."""
    ordered = sorted(milliseconds)
    late = ordered[math.ceil(0.95 * len(ordered)) - 1]
    return {"median": round(median(ordered), 3), "p95": round(late, 3)}


def _questions(recent: Recent) -> dict[str, Any]:
    times = _middle(1000.0 * seconds for seconds in recent.seconds) if recent.answered else {}
    return {
        "answered": recent.answered, "failed": recent.failed, "median_ms": times.get("median"),
        "p95_ms": times.get("p95"), "recent": [_question(each) for each in reversed(recent.questions)],
    }  # fmt: skip


def _question(question: QuestionRecord) -> dict[str, Any]:
    return {
        "at": moment(question.at), "who": question.who, "rows": question.rows, "way": question.way,
        "ms": round(1000.0 * question.seconds, 3), "missing": list(question.missing), "error": question.error,
    }  # fmt: skip
