"""The overview: this node, its peers, how their models are used, and the last questions, as they are now."""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from statistics import median
from typing import Any

import degroot
from degroot.node.answering.answering import NotPooled, check_consensus
from degroot.node.config import MAPS, OWN, POOLED
from degroot.node.errors import BadReply, PeerError, PeerLate, PeerRefused
from degroot.node.page.encoding import moment
from degroot.node.page.fields import describe_columns, describe_target
from degroot.node.page.uses import describe_own_model, describe_use, describe_witnesses, find_held_version
from degroot.node.peers.link import Link
from degroot.node.peers.peers import ANSWERING, CALIBRATING, READY, STALE, Peers
from degroot.node.records.departures import find_departures
from degroot.node.records.ledger import LedgerEntry
from degroot.node.records.own_rows import DAY, Alert, OwnRowsWatch
from degroot.node.records.recent import QuestionRecord, Recent

UP, LATE, REFUSED, DOWN = "up", "late", "refused", "down"
ANOTHER = "its model has changed; what was found of the earlier one serves until it is scored anew"
MODES = {
    OWN: "Labels and errors stay here: answers weigh models by this node's own rows.",
    MAPS: "Evidence is published as private maps for the consensus; labels and errors of single rows stay here.",
    POOLED: "Evidence is pooled for the consensus: members can recover each other's labels from it.",
}
MAY_MEAN = (
    "It may be testing whether these rows are in the data here, or have them too; its replies stay the same, since "
    "another reply would tell."
)


class Overview:
    """What there is to see of a node, but for its ledger."""

    def __init__(
        self, circle: Peers, recent: Recent, watch: OwnRowsWatch, find_faults: Callable[[], Mapping[str, str]],
        find_notices: Callable[[], Iterable[tuple[str, str]]],
    ) -> None:  # fmt: skip
        self._circle, self._recent, self._watch = circle, recent, watch
        self._find_faults, self._find_notices = find_faults, find_notices
        self._started = time.time()
        agent = circle.scores.seat.agent
        self._table = {"columns": describe_columns(agent.schema, agent.X), "target": describe_target(agent.schema)}

    def state(self) -> dict[str, Any]:
        """All of it, ready to be encoded."""
        circle = self._circle
        scored = {model.name: model.version for model in circle.scores.seat.scored}
        return {
            "node": _node(circle, self._started, list(self._find_faults().values())) | self._table,
            "notices": _notices(self._find_notices()),
            "peers": [_peer(circle, link, scored.get(name)) for name, link in sorted(circle.links.items())],
            "questions": _questions(self._recent),
            "alerts": [_alert(each, time.time()) for each in self._watch.alerts.values()],
        }

    def departures(self, entries: Iterable[LedgerEntry]) -> list[dict[str, Any]]:
        """What has left, of what the ledger holds; with the versions of our model that peers say they hold."""
        held = {name: find_held_version(link) or "" for name, link in self._circle.links.items()}
        found = find_departures(entries, self._circle.configuration.name, held)
        return [{"peer": each.peer, "rows": each.rows, "what": each.what, "why": each.why} for each in found]


def features(circle: Peers) -> list[str]:
    """The names of the features; x0, x1, ... where they have none."""
    seat = circle.scores.seat
    return list(seat.feature_names) or [f"x{k}" for k in range(seat.agent.n_features)]


def classes(circle: Peers) -> list[str]:
    """The classes whose probabilities are the outputs; none where there are no classes."""
    known = circle.scores.seat.agent.classes
    return [] if known is None else [str(each) for each in known.tolist()]


def find_consensus_lacking(circle: Peers) -> str:
    """What the consensus would need that this node's own file does not allow; empty: nothing."""
    try:
        check_consensus(circle)
    except NotPooled as error:
        return str(error)
    return ""


def describe_map(circle: Peers) -> dict[str, Any] | None:
    """This node's evidence map, why there is none of this version, and what maps have cost; None: none are made."""
    maps, terms = circle.maps, circle.configuration.maps
    if terms is None:
        return None
    return {
        "serial": None if maps.published is None else maps.published.serial, "lacking": maps.lacking,
        "epsilon_spent": maps.epsilon_spent, "lifetime_epsilon": terms.lifetime_epsilon,
    }  # fmt: skip


def _node(circle: Peers, started: float, faults: list[str]) -> dict[str, Any]:
    configuration, seat, pooled = circle.configuration, circle.scores.seat, circle.configuration.has_consensus
    ready, able = circle.find_answering(), circle.count_able() if pooled else None
    consensus = able is not None and able >= configuration.needed
    return {
        "name": configuration.name, "listen": configuration.listen, "degroot": degroot.__version__,
        "model_version": seat.version, "rule": configuration.collective.rule,
        "neighbours": configuration.collective.neighbours, "guard": seat.guarded, "evidence": configuration.evidence,
        "mode": MODES[configuration.evidence], "ready": 1 + len(ready), "able": able,
        "needed": configuration.needed if pooled else None, "consensus": consensus,
        "answering": not faults and (consensus or not circle.no_view), "faults": faults, "no_view": circle.no_view,
        "no_consensus": find_consensus_lacking(circle),
        "witnesses": {
            "row": describe_witnesses(circle, "this row"), "rows": describe_witnesses(circle, "these rows"),
        },
        "map": describe_map(circle), "features": features(circle),
        "outputs": seat.agent.outputs, "classes": classes(circle), "rows": len(seat.agent.X),
        "started": moment(started),
    }  # fmt: skip


def _peer(circle: Peers, link: Link, scored: str | None) -> dict[str, Any]:
    milliseconds = [round(1000.0 * seconds, 3) for seconds in link.pace.seconds]
    state, reason = _standing(circle, link)
    return {
        "name": link.name, "address": link.peer.address, "state": state, "reason": reason,
        "ready": circle.state(link) in ANSWERING, "use": describe_use(circle, link),
        "ours": describe_own_model(circle, link), "model_version": link.version or None,
        "scored_version": scored, "progress": link.progress, "latency_ms": _latency(milliseconds),
        "latencies": milliseconds, "seen": moment(link.pace.seen),
    }  # fmt: skip


def _standing(circle: Peers, link: Link) -> tuple[str, str | None]:
    """How it stands with a peer, and what is the matter, if anything is."""
    state, setback = circle.state(link), link.setback
    if link.fault is not None and state == READY:
        return READY, f"{link.fault.reason}; the copy of its model is here"
    if link.fault is not None:
        return _kind(link.fault), link.fault.reason
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


def _notices(found: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    """What whoever runs the node should know, what is worst first."""
    return [{"level": level, "words": words} for level, words in sorted(found, key=lambda each: each[0] != "error")]


def _alert(alert: Alert, now: float) -> dict[str, Any]:
    """That somebody has asked about many of the node's own rows."""
    day = "today" if now // DAY == alert.at // DAY else f"on {datetime.fromtimestamp(alert.at, UTC):%Y-%m-%d}"
    words = (
        f"{alert.caller} has asked about {alert.rows} of this node's own rows, exactly as they are "
        f"({alert.asked} points asked in all {day})."
    )
    return {
        "caller": alert.caller, "rows": alert.rows, "asked": alert.asked, "at": moment(alert.at), "words": words,
        "meaning": MAY_MEAN,
    }  # fmt: skip


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
