"""Metrics: how a node does, in numbers that Prometheus reads on a local port."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from operator import add
from threading import Thread
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, start_http_server
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from degroot.exceptions import InvalidInput

HOST = "127.0.0.1"
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
        ProcessCollector(registry=self.registry)

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

    def forget(self, peer: str) -> None:
        """A peer has left the roster."""
        with suppress(KeyError):
            self._calibrated.remove(self._label(peer))

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


class Endpoint:
    """Where metrics are read."""

    def __init__(self, server: WSGIServer, thread: Thread) -> None:
        self._server, self._thread = server, thread

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._server.server_port)

    def close(self) -> None:
        """Listen no longer."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def serve(registry: CollectorRegistry, port: int) -> Endpoint:
    """Let the metrics be read on a port of this machine; 0: any that is free."""
    try:
        return Endpoint(*start_http_server(port, addr=HOST, registry=registry))
    except OSError as error:
        raise InvalidInput(f"`metrics.port` must be free; {HOST}:{port}: {error.strerror}.") from error
