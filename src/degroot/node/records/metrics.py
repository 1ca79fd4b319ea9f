"""Metrics: how a node does, in numbers that Prometheus reads."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from operator import add

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

UNKNOWN, OTHER = "unknown", "other"
NAMES = 1024  # how many names have numbers of their own; the rest are counted together
SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
ROUNDS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
EXCHANGE = ("peer", "kind", "direction")
EXCHANGED = {
    "exchanges": "Messages answered, by us (in) or for us (out).",
    "rows": "Rows in these messages.",
    "sent_bytes": "Bytes that left this node.",
    "received_bytes": "Bytes that came to this node.",
}


Totals = Mapping[tuple[str, str, str], Sequence[int]]  # by peer, kind and direction: a number for each of EXCHANGED


class Metrics:
    """The numbers of one node, in a registry of their own. `totals`: what was exchanged, as the ledger counts it."""

    def __init__(self, totals: Totals | None = None) -> None:
        self.registry = CollectorRegistry()
        self._names: set[str] = set()
        self._states: set[str] = set()
        self.registry.register(Exchanges({} if totals is None else totals, self._label))
        self._refusals = self._counter("refusals", "Calls and messages refused.", ("peer", "reason"))
        self.question_seconds = Histogram(
            "degroot_question_seconds", "Time to answer a question.", registry=self.registry, buckets=SECONDS
        )
        self.question_rounds = Histogram(
            "degroot_question_rounds", "Pooling rounds for a question.", registry=self.registry, buckets=ROUNDS
        )
        self._peers = self._gauge("peers", "Peers in each state.", ("state",))
        self._calibrated = self._gauge("calibrated_ratio", "Share of own rows scored with a peer's model.", ("peer",))
        self._stale = self._gauge("stale_models", "Peers whose model changed since it was scored.", ())
        self._own_rows = self._gauge(
            "own_rows_asked", "Own rows that a caller has asked about, exactly as they are, today.", ("peer",)
        )
        self._certificates = self._gauge(
            "certificate_expiry_timestamp_seconds", "When a certificate ends, in seconds since 1970.", ("name",)
        )
        self._duplicates = self._gauge("duplicate_identity", "1: two nodes run under this name.", ("peer",))
        self._roster = self._gauge("roster_number", "Number of the signed roster; 0: none.", ())
        self._data = self._gauge("data_changed", "1: files of the own rows have changed since they were read.", ())
        self._ready = self._gauge("ready", "1: the node can answer a question now.", ())
        self._trouble = self._gauge("trouble", "1: this keeps the node from answering.", ("kind",))
        ProcessCollector(registry=self.registry)

    def show_health(self, kinds: Iterable[str], find_troubles: Callable[[], Mapping[str, str]]) -> None:
        """Say, whenever metrics are read, whether the node can answer and which kinds of trouble keep it from that."""
        self._ready.set_function(lambda: float(not find_troubles()))
        for kind in kinds:
            self._trouble.labels(kind).set_function(partial(_is_among, kind, find_troubles))

    def refused(self, peer: str | None, reason: str) -> None:
        """Count a refusal; `peer` is None unless it is in the roster."""
        self._refusals.labels(UNKNOWN if peer is None else self._label(peer), reason).inc()

    def peers(self, states: Mapping[str, int]) -> None:
        """Say how many peers are in each state; none in those that are not named."""
        self._states |= states.keys()
        for state in self._states:
            self._peers.labels(state).set(states.get(state, 0))

    def calibrated(self, peer: str, share: float) -> None:
        """Say which share of the own rows has been scored with the peer's model."""
        self._calibrated.labels(self._label(peer)).set(share)

    def own_rows_asked(self, peer: str, rows: int) -> None:
        """Say how many of the own rows a caller has asked about."""
        self._own_rows.labels(self._label(peer)).set(rows)

    def show_certificate_end(self, name: str, at: float) -> None:
        """Say when a certificate ends: the node's own, a peer's, or the CA's, which is called ca."""
        self._certificates.labels(self._label(name)).set(at)

    def show_duplicate(self, peer: str, is_duplicate: bool) -> None:
        """Say whether two nodes run under a peer's name."""
        self._duplicates.labels(self._label(peer)).set(is_duplicate)

    def show_roster(self, number: int) -> None:
        """Say which signed roster the node goes by."""
        self._roster.set(number)

    def show_data_change(self, *, is_changed: bool) -> None:
        """Say whether files of the own rows have changed since they were read."""
        self._data.set(is_changed)

    def forget(self, peer: str) -> None:
        """A peer has left the roster."""
        for gauge in (self._calibrated, self._certificates, self._duplicates):
            with suppress(KeyError):
                gauge.remove(self._label(peer))

    def stale(self, peers: Iterable[str]) -> None:
        """Say whose models have changed since they were scored."""
        self._stale.set(len(set(peers)))

    def _label(self, name: str) -> str:
        if name not in self._names:
            if len(self._names) >= NAMES:
                return OTHER
            self._names.add(name)
        return name

    def _counter(self, name: str, meaning: str, labels: Iterable[str]) -> Counter:
        return Counter(f"degroot_{name}", meaning, tuple(labels), registry=self.registry)

    def _gauge(self, name: str, meaning: str, labels: Iterable[str]) -> Gauge:
        return Gauge(f"degroot_{name}", meaning, tuple(labels), registry=self.registry)


def _is_among(kind: str, find: Callable[[], Mapping[str, str]]) -> float:
    return float(kind in find())


class Exchanges(Collector):
    """What was exchanged, read when Prometheus asks: a question takes a millisecond or two, and counting is quick."""

    def __init__(self, totals: Totals, label: Callable[[str], str]) -> None:
        self._totals, self._label = totals, label

    def collect(self) -> Iterable[Metric]:
        """All of them, for Prometheus."""
        totals: dict[tuple[str, str, str], list[int]] = {}
        for (peer, kind, direction), counts in list(self._totals.items()):
            total = totals.setdefault((self._label(peer), kind, direction), [0] * len(EXCHANGED))
            total[:] = map(add, total, counts)
        for place, (name, meaning) in enumerate(EXCHANGED.items()):
            family = CounterMetricFamily(f"degroot_{name}", meaning, labels=EXCHANGE)
            for key, total in totals.items():
                family.add_metric(key, total[place])
            yield family
