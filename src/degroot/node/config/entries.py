"""What a node is told, as frozen records."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from degroot.files import DataSource
from degroot.models import ModelSource

QUERY, OPINION, ASK = "query", "opinion", "ask"
RIGHTS = (QUERY, OPINION, ASK)  # query our model; take part in answers; ask us for a collective answer
CLIENT_RIGHTS = (QUERY, ASK)  # who has no node takes part in nothing
CALIBRATE, ON_DEMAND = "calibrate", "on-demand"


@dataclass(frozen=True, slots=True)
class IdentityFiles:
    """The consortium's CA, this node's certificate and its key."""

    ca: Path
    certificate: Path
    key: Path


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
    """Another organisation's node, and what it may do here."""

    name: str
    address: str
    may: frozenset[str] = frozenset(RIGHTS)


@dataclass(frozen=True, slots=True)
class Client:
    """Someone without a node, and what they may do here."""

    name: str
    may: frozenset[str] = frozenset({ASK})


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one peer or client may ask for."""

    requests_per_second: float = 2000.0
    rows_per_second: float = 1_000_000.0
    rows_per_request: int = 20_000
    concurrent_calls: int = 32
    message_bytes: int = 67_108_864
    idle_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class Timing:
    """How long to wait, and how much to ask at once."""

    deadline_seconds: float = 5.0
    probe_seconds: float = 1.0
    chunk_rows: int = 1000
    shutdown_seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class Page:
    """Where the node's page is: on this machine only."""

    port: int
    host: str = "127.0.0.1"

    @property
    def address(self) -> str:
        """For a browser."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}/"


@dataclass(frozen=True)
class Configuration:
    """All that a node is told."""

    path: Path
    name: str
    listen: str
    state: Path
    quorum: int | None
    queries: str
    identity: IdentityFiles | None
    model: ModelSource
    data: DataSource
    collective: NodeSettings
    peers: tuple[Peer, ...] = ()
    clients: tuple[Client, ...] = ()
    limits: Limits = Limits()
    timing: Timing = Timing()
    metrics_port: int | None = None
    page: Page | None = None

    @cached_property
    def rights(self) -> Mapping[str, frozenset[str]]:
        """Who may do what here: clients, peers, and the node itself, which may do all."""
        clients, peers = {each.name: each.may for each in self.clients}, {each.name: each.may for each in self.peers}
        return clients | peers | {self.name: frozenset(RIGHTS)}

    @cached_property
    def needed(self) -> int:
        """How many nodes have to take part in an answer: the quorum, or else more than half of all."""
        return self.quorum if self.quorum is not None else (1 + len(self.peers)) // 2 + 1

    @property
    def ledger(self) -> Path:
        """The file that records all exchanges."""
        return self.state / "ledger.sqlite"
