"""What a node is told, as frozen records."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from degroot.files.addresses import bracket

if TYPE_CHECKING:
    from degroot.files.source import DataSource
    from degroot.maps.settings import MapSettings
    from degroot.models.source import ModelSource

# evidence: it stays at home; a private map of it is published; or it goes to whoever asks for the consensus
OWN, MAPS, POOLED = "own", "maps", "pooled"
QUERY, COPY, OPINION, ASK = "query", "copy", "opinion", "ask"
RIGHTS = (QUERY, COPY, OPINION, ASK)  # query our model; get its file; get our pooled evidence; ask us for answers
CLIENT_RIGHTS = (QUERY, ASK)  # who has no node takes part in nothing
USES = (COPY, QUERY)  # how we use a peer's model
VALUE, INTERVAL = "value", "interval"
GRANTS = (VALUE, INTERVAL, "weights", "beliefs", "trust", "standard_error")  # fields of answers, each granted by itself
DEFAULT_FIELDS = (VALUE, INTERVAL)
PEER_ROWS_PER_DAY, CLIENT_ROWS_PER_DAY = 1_000_000, 100_000
ANSWER_DAYS = 30.0
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class IdentityFiles:
    """The consortium's CA, this node's certificate and its key, and where the CA's roster is put, if anywhere."""

    ca: Path
    certificate: Path
    key: Path
    roster: Path | None = None


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """What all nodes of a collective have to agree on."""

    rule: str = "degroot"
    neighbours: float | None = None
    metric: str = "euclidean"
    kernel: str | None = None
    ridge: float | None = None
    guard: bool = True


@dataclass(frozen=True, slots=True)
class Peer:
    """Another organisation's node, what it may do here, and how its model is used."""

    name: str
    address: str
    may: frozenset[str] = frozenset({QUERY})
    fields: frozenset[str] = frozenset(DEFAULT_FIELDS)  # of answers, if it may ask
    use: frozenset[str] = frozenset(USES)  # a copy of its model where it offers one, else queries; or one of them only
    rows_per_day: int = PEER_ROWS_PER_DAY


@dataclass(frozen=True, slots=True)
class Client:
    """Someone without a node, and what they may do here."""

    name: str
    may: frozenset[str] = frozenset({ASK})
    fields: frozenset[str] = frozenset(DEFAULT_FIELDS)
    rows_per_day: int = CLIENT_ROWS_PER_DAY


@dataclass(frozen=True, slots=True)
class Disclosure:
    """How much has to be behind what leaves as pooled evidence."""

    least_rows: int = 10


@dataclass(frozen=True, slots=True)
class MapTerms:
    """What a node declares of its evidence maps, without looking at rows, and what they may cost."""

    ranges: tuple[tuple[str, tuple[float, float]], ...]  # of features by name, or by place where they have no names
    residual_bound: float
    rows: int
    epsilon: float
    lifetime_epsilon: float
    delta: float = 1e-6
    lifetime_delta: float = 1e-5
    seed: int = 0
    trees: int | None = None
    depth: int | None = None

    def to_settings(self, ranges: Iterable[tuple[float, float]]) -> "MapSettings":
        """The settings of maps with these ranges, in the order of the features."""
        from degroot.maps.settings import MapSettings

        return MapSettings(
            tuple(ranges), self.residual_bound, self.rows, self.epsilon, self.delta, self.seed, self.trees, self.depth
        )


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one peer or client may ask for."""

    requests_per_second: float = 2000.0
    rows_per_second: float = 1_000_000.0
    rows_per_request: int = 20_000
    concurrent_calls: int = 32
    message_bytes: int = 67_108_864
    idle_seconds: float = 60.0
    copy_bytes: int = 67_108_864  # of a peer's model, and what it may take when it is asked
    copy_memory_bytes: int = 1_073_741_824
    copy_seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class Timing:
    """How long to wait, and how much to ask at once."""

    deadline_seconds: float = 5.0
    probe_seconds: float = 1.0
    heartbeat_seconds: float = 10.0
    chunk_rows: int = 1000
    shutdown_seconds: float = 10.0
    receipt_seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class LedgerSettings:
    """How long records of exchanges are kept one by one, and how many; after that only their totals are."""

    days: float = 30.0
    records: int = 1_000_000


@dataclass(frozen=True, slots=True)
class MetricsAddress:
    """Where metrics and the node's health are read. There is no TLS, and nobody is asked who they are."""

    port: int
    host: str = LOOPBACK

    @property
    def text(self) -> str:
        """As one text, host:port."""
        return f"{bracket(self.host)}:{self.port}"


@dataclass(frozen=True, slots=True)
class Page:
    """Where the node's page is, on this machine only, and how long it keeps answers; 0: not at all."""

    port: int
    host: str = LOOPBACK
    answer_days: float = ANSWER_DAYS

    @property
    def address(self) -> str:
        """For a browser."""
        return f"http://{bracket(self.host)}:{self.port}/"


@dataclass(frozen=True)
class Configuration:
    """All that a node is told."""

    path: Path
    name: str
    listen: str
    state: Path
    evidence: str
    quorum: int | None
    identity: IdentityFiles | None
    model: "ModelSource"
    data: "DataSource"
    collective: NodeSettings
    peers: tuple[Peer, ...] = ()
    clients: tuple[Client, ...] = ()
    limits: Limits = Limits()
    timing: Timing = Timing()
    records: LedgerSettings = LedgerSettings()
    metrics: MetricsAddress | None = None
    page: Page | None = None
    disclosure: Disclosure = Disclosure()
    maps: MapTerms | None = None  # None: evidence is not maps

    @property
    def pooled(self) -> bool:
        """Whether this organisation has agreed to pool its evidence."""
        return self.evidence == POOLED

    @property
    def has_consensus(self) -> bool:
        """Whether this node can be asked for the consensus: its evidence is pooled, or published as maps."""
        return self.evidence in (MAPS, POOLED)

    @cached_property
    def rights(self) -> Mapping[str, frozenset[str]]:
        """Who may do what here: clients, peers, and the node itself, which may do all."""
        clients, peers = {each.name: each.may for each in self.clients}, {each.name: each.may for each in self.peers}
        return clients | peers | {self.name: frozenset(RIGHTS)}

    @cached_property
    def fields(self) -> Mapping[str, frozenset[str]]:
        """Who may see which fields of answers: the node itself all, others who may ask what they were granted."""
        others: tuple[Client | Peer, ...] = (*self.clients, *self.peers)
        granted = {each.name: each.fields if ASK in each.may else frozenset[str]() for each in others}
        return granted | {self.name: frozenset(GRANTS)}

    @cached_property
    def budgets(self) -> Mapping[str, int]:
        """How many rows a day each peer and client may ask about; the node itself has no such limit."""
        clients = {each.name: each.rows_per_day for each in self.clients}
        return clients | {each.name: each.rows_per_day for each in self.peers}

    @cached_property
    def needed(self) -> int:
        """How many nodes have to take part in an answer: the quorum, or else more than half of all."""
        return self.quorum if self.quorum is not None else (1 + len(self.peers)) // 2 + 1

    @property
    def ledger(self) -> Path:
        """The file that records all exchanges."""
        return self.state / "ledger.sqlite"

    @property
    def maps_folder(self) -> Path:
        """The folder for evidence maps, and what they have cost."""
        return self.state / "maps"

    @property
    def copies(self) -> Path:
        """The folder for copies of peers' models."""
        return self.state / "copies"
