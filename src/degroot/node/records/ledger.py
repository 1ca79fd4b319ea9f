"""The ledger: who exchanged how much with this node, and when; never what."""

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any

from degroot.exceptions import DeGrootError, InvalidInput

VERSION = 1
IN, OUT = "in", "out"  # they called us; we called them
ASKED_BY = {IN: "they", OUT: "we"}  # as people are told
DAY = 86_400
DAYS = 30  # how long exchanges are kept one by one, before only the totals of their day are
KEPT = 1_000_000  # how many of them at most
STEP = 256  # after so many exchanges, old ones are folded
PATIENCE = 0.25  # seconds that another writer may hold us up

TABLES = """
CREATE TABLE IF NOT EXISTS exchanges (
    id INTEGER PRIMARY KEY,
    at REAL NOT NULL,
    peer TEXT NOT NULL,
    kind TEXT NOT NULL,
    direction TEXT NOT NULL,
    "rows" INTEGER NOT NULL,
    sent INTEGER NOT NULL,
    received INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS days (
    day INTEGER NOT NULL,
    peer TEXT NOT NULL,
    kind TEXT NOT NULL,
    direction TEXT NOT NULL,
    exchanges INTEGER NOT NULL,
    "rows" INTEGER NOT NULL,
    sent INTEGER NOT NULL,
    received INTEGER NOT NULL,
    first REAL NOT NULL,
    last REAL NOT NULL,
    PRIMARY KEY (day, peer, kind, direction)
) WITHOUT ROWID;
"""
RECORD = 'INSERT INTO exchanges (at, peer, kind, direction, "rows", sent, received) VALUES (?, ?, ?, ?, ?, ?, ?)'
FOLDABLE = """
SELECT max(id) FROM (SELECT id, at FROM exchanges ORDER BY id LIMIT ?)
WHERE at < ? OR id <= (SELECT max(id) FROM exchanges) - ?
"""
FOLD = """
INSERT INTO days
SELECT CAST(at / 86400 AS INTEGER), peer, kind, direction, count(*), sum("rows"), sum(sent), sum(received),
    min(at), max(at)
FROM exchanges WHERE id <= ? GROUP BY 1, 2, 3, 4
ON CONFLICT DO UPDATE SET
    exchanges = exchanges + excluded.exchanges, "rows" = "rows" + excluded."rows", sent = sent + excluded.sent,
    received = received + excluded.received, first = min(first, excluded.first), last = max(last, excluded.last)
"""
SUMMARY = """
SELECT peer, kind, direction, sum(exchanges), sum("rows"), sum(sent), sum(received), min(first), max(last) FROM (
    SELECT peer, kind, direction, exchanges, "rows", sent, received, first, last FROM days
    UNION ALL SELECT peer, kind, direction, 1, "rows", sent, received, at, at FROM exchanges
) GROUP BY peer, kind, direction ORDER BY peer, kind, direction
"""
ASKED_ROWS = """
SELECT peer, sum("rows") FROM (
    SELECT peer, direction, "rows" FROM days WHERE day = :day
    UNION ALL SELECT peer, direction, "rows" FROM exchanges WHERE at >= :day * 86400.0 AND at < (:day + 1) * 86400.0
) WHERE direction = 'in' GROUP BY peer
"""


class LedgerError(DeGrootError):
    """An exchange could not be recorded, so it must not take place."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = " ".join(reason.split())

    def __str__(self) -> str:
        return f"The ledger must be written before an exchange takes place; {self.path}: {self.reason}."


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """All exchanges of one kind with one peer, in one direction."""

    peer: str
    kind: str
    direction: str  # "in": they called us; "out": we called them
    exchanges: int
    rows: int
    sent: int  # bytes
    received: int  # bytes
    first: datetime
    last: datetime


class Ledger:
    """The record of all exchanges, in an SQLite file; what is recorded outlives the process, however it ends.

    Exchanges are kept one by one for a while, then as the totals of their day, so that the file stays small. `totals`
    are those since the node started, for its metrics: by peer, kind and direction, the number of exchanges, rows, bytes
    sent and bytes received.
    """

    def __init__(
        self, path: Path, days: float = DAYS, kept: int = KEPT, clock: Callable[[], float] = time.time
    ) -> None:
        self.path, self.days, self.kept, self._clock = path, days, kept, clock
        self.totals: dict[tuple[str, str, str], list[int]] = {}
        self._lock, self._since_fold = Lock(), 0
        try:
            self._connection = _open(path)
            while self._fold(100 * STEP):
                pass
        except sqlite3.Error as error:
            raise LedgerError(path, str(error)) from error

    def record(self, peer: str, kind: str, direction: str, rows: int, sent_bytes: int, received_bytes: int) -> None:
        """Write down one exchange; it is safe from the end of this process when this returns."""
        self.record_all([peer], kind, direction, rows, sent_bytes, received_bytes)

    def record_all(
        self, peers: Sequence[str], kind: str, direction: str, rows: int, sent_bytes: int, received_bytes: int
    ) -> None:
        """The same exchange with several peers, all of them or, if that fails, none."""
        now = self._clock()
        try:
            with self._lock:
                if len(peers) == 1:
                    self._connection.execute(RECORD, (now, peers[0], kind, direction, rows, sent_bytes, received_bytes))
                elif peers:
                    self._together([(now, peer, kind, direction, rows, sent_bytes, received_bytes) for peer in peers])
                for peer in peers:
                    total = self.totals.setdefault((peer, kind, direction), [0, 0, 0, 0])
                    for place, count in enumerate((1, rows, sent_bytes, received_bytes)):
                        total[place] += count
                self._tidy()
        except sqlite3.Error as error:
            raise LedgerError(self.path, str(error)) from error

    def _together(self, exchanges: Sequence[tuple[Any, ...]]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            self._connection.executemany(RECORD, exchanges)
            self._connection.execute("COMMIT")
        except sqlite3.Error:
            self._connection.rollback()  # if SQLite has not done so already, as on a full disk
            raise

    def count_rows_asked(self, day: int) -> dict[str, int]:
        """How many rows each peer and client has asked about on a day, counted from 1970 in UTC."""
        try:
            with self._lock:
                return dict(self._connection.execute(ASKED_ROWS, {"day": day}).fetchall())
        except sqlite3.Error as error:
            raise LedgerError(self.path, str(error)) from error

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _tidy(self) -> None:
        """Fold a few old exchanges now and then: twice as many as came, so that it catches up."""
        self._since_fold += 1
        if self._since_fold >= STEP:
            self._since_fold = 0
            with suppress(sqlite3.Error):  # if it cannot be done now, it can wait
                self._fold(2 * STEP)

    def _fold(self, number: int) -> bool:
        """Fold up to `number` of the oldest exchanges into the totals of their days, if they are old enough."""
        oldest = self._clock() - self.days * DAY
        (until,) = self._connection.execute(FOLDABLE, (number, oldest, self.kept)).fetchone()
        if until is None:
            return False
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.execute(FOLD, (until,))
            self._connection.execute("DELETE FROM exchanges WHERE id <= ?", (until,))
        return True


def summary(path: Path) -> list[LedgerEntry]:
    """What the ledger holds, by peer, kind and direction; the node may be running meanwhile."""
    if not path.is_file():
        raise InvalidInput(f"The ledger must be a file that a node has written; {path} is not there.")
    with opened(path) as connection:
        _check_version(connection, path)
        return [make_entry(*row) for row in connection.execute(SUMMARY)]


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """The ledger for reading, as it is at one moment; the node may be running meanwhile."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            connection.execute("BEGIN")
            yield connection
    except sqlite3.Error as error:
        raise InvalidInput(f"The ledger must be a file that a node has written; {path}: {error}.") from error


def _open(path: Path) -> sqlite3.Connection:
    # no thread is special: the lock keeps them apart
    connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")  # the log is written, not flushed, at each record
        if _check_version(connection, path) == 0:
            connection.executescript(f"BEGIN IMMEDIATE; {TABLES} PRAGMA user_version = {VERSION}; COMMIT;")
    except BaseException:
        connection.close()
        raise
    return connection


def _check_version(connection: sqlite3.Connection, path: Path) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version not in (0, VERSION):
        raise InvalidInput(f"The ledger must be of version {VERSION}; {path} is of version {version}.")
    return int(version)


def make_entry(
    peer: str, kind: str, direction: str, exchanges: int, rows: int, sent: int, received: int, first: float, last: float
) -> LedgerEntry:
    """An entry of a row of `SUMMARY`; `first`, `last`: seconds since 1970."""
    begun, ended = (datetime.fromtimestamp(at, UTC) for at in (first, last))
    return LedgerEntry(peer, kind, direction, exchanges, rows, sent, received, begun, ended)
