"""The ledger: who exchanged how much with this node, and when; never what."""

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock

from degroot.exceptions import DeGrootError, InvalidInput
from degroot.node.records.journal import DIRECTIONS, Journal, read_journal

VERSION = 2  # version 1 has no journal
IN, OUT = DIRECTIONS  # they called us; we called them
ASKED_BY = {IN: "they", OUT: "we"}  # as people are told
DAY = 86_400
DAYS = 30  # how long exchanges are kept one by one, before only the totals of their day are
KEPT = 1_000_000  # how many of them at most
STEP = 256  # after so many exchanges, they are moved from the journal to the database, and old ones are folded
NO_EXCHANGES = (0, 0, 0, 0)  # exchanges, rows, bytes sent and received
LOG_PAGES = 100  # of SQLite's write-ahead log, after which it is merged into the database
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
CREATE TABLE IF NOT EXISTS journal (moved INTEGER NOT NULL);
INSERT INTO journal SELECT 0 WHERE NOT EXISTS (SELECT * FROM journal);
"""
INSERT = 'INSERT INTO exchanges (at, peer, kind, direction, "rows", sent, received) VALUES (?, ?, ?, ?, ?, ?, ?)'
SELECT_MOVED = "SELECT moved FROM journal"  # the number of the last entry that was moved here
WITH_JOURNAL = (  # in what is read, `exchanges` has those in the journal too
    "CREATE TEMP TABLE waiting AS SELECT * FROM main.exchanges LIMIT 0",
    "CREATE TEMP VIEW exchanges AS SELECT * FROM main.exchanges UNION ALL SELECT * FROM temp.waiting",
)
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

    Exchanges are written to a journal beside that file, and moved into it many at a time. There they are kept one by
    one for a while, then as the totals of their day, so that the file stays small. `totals` are those since the node
    started, for its metrics: by peer, kind and direction, the number of exchanges, rows, bytes sent and bytes received.
    """

    def __init__(
        self, path: Path, days: float = DAYS, kept: int = KEPT, clock: Callable[[], float] = time.time
    ) -> None:
        self.path, self.days, self.kept, self._clock = path, days, kept, clock
        self.totals: dict[tuple[str, str, str], tuple[int, int, int, int]] = {}
        self.damaged_lines = 0  # of the journal, since the node started
        self._lock, self._since_move = Lock(), 0
        try:
            self._connection = _open(path)
            self._journal = Journal(journal_path(path))
            self._last = self._move()
            while self._fold(100 * STEP):
                pass
        except (sqlite3.Error, OSError) as error:
            raise LedgerError(_find_file(error, path), _describe(error)) from error

    def record(self, peer: str, kind: str, direction: str, rows: int, sent_bytes: int, received_bytes: int) -> None:
        """Write down one exchange; it is safe from the end of this process when this returns."""
        self.record_all([peer], kind, direction, rows, sent_bytes, received_bytes)

    def record_all(
        self, peers: Sequence[str], kind: str, direction: str, rows: int, sent_bytes: int, received_bytes: int
    ) -> None:
        """The same exchange with several peers, all of them or, if that fails, none."""
        now = self._clock()
        with self._lock:
            number, lines = self._last, ""
            same = f"{kind}\t{direction}\t{rows}\t{sent_bytes}\t{received_bytes}"
            for peer in peers:
                number += 1
                lines += f"{number}\t{now!r}\t{peer}\t{same}\n"
            try:
                self._journal.append(lines)
            except OSError as error:
                raise LedgerError(self.path, _describe(error)) from error
            self._last = number
            for peer in peers:
                exchanges, all_rows, sent, received = self.totals.get((peer, kind, direction), NO_EXCHANGES)
                total = exchanges + 1, all_rows + rows, sent + sent_bytes, received + received_bytes
                self.totals[peer, kind, direction] = total
            self._since_move += len(peers)
            if self._since_move >= STEP:
                self._tidy()

    def count_rows_asked(self, day: int) -> dict[str, int]:
        """How many rows each peer and client has asked about on a day, counted from 1970 in UTC."""
        try:
            with self._lock:
                self._move()
                return dict(self._connection.execute(ASKED_ROWS, {"day": day}).fetchall())
        except (sqlite3.Error, OSError) as error:
            raise LedgerError(self.path, _describe(error)) from error

    def close(self) -> None:
        """Close the files."""
        with suppress(sqlite3.Error, OSError), self._lock:  # what is in the journal stays there
            self._move()
        self._journal.close()
        self._connection.close()

    def _tidy(self) -> None:
        """Move exchanges to the database, and fold old ones: twice as many as came, so that it catches up."""
        self._since_move = 0
        with suppress(sqlite3.Error, OSError):  # if it cannot be done now, it can wait
            self._move()
            self._fold(2 * STEP)

    def _move(self) -> int:
        """Move what is in the journal to the database; the number of the last entry that ever was."""
        (last,) = self._connection.execute(SELECT_MOVED).fetchone()
        content = self._journal.read()
        self._keep_damaged(content.damaged)
        new = [entry for entry in content.entries if entry[0] > last]
        if new:
            last = new[-1][0]
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                self._connection.executemany(INSERT, [entry[1:] for entry in new])
                self._connection.execute("UPDATE journal SET moved = ?", (last,))
        self._journal.clear()  # if this fails, what it holds is known to have been moved
        return int(last)

    def _keep_damaged(self, lines: Sequence[bytes]) -> None:
        """Keep lines of the journal that are no exchanges where somebody can look at them."""
        if lines:
            with damaged_path(self.path).open("ab") as kept:
                kept.write(b"".join(line + b"\n" for line in lines))
            self.damaged_lines += len(lines)

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


def record_beside(
    path: Path, peer: str, kind: str, direction: str, rows: int, sent_bytes: int, received_bytes: int
) -> None:
    """Write down one exchange of another process than the node, which may be running meanwhile and has the journal."""
    try:
        with closing(_open(path)) as connection:
            connection.execute(INSERT, (time.time(), peer, kind, direction, rows, sent_bytes, received_bytes))
    except sqlite3.Error as error:
        raise LedgerError(path, str(error)) from error


def journal_path(path: Path) -> Path:
    """The journal of the ledger at `path`."""
    return path.with_suffix(".journal")


def damaged_path(path: Path) -> Path:
    """Where lines of the journal are kept that were damaged."""
    return path.with_suffix(".journal.damaged")


def summary(path: Path) -> list[LedgerEntry]:
    """What the ledger holds, by peer, kind and direction; the node may be running meanwhile."""
    if not path.is_file():
        raise InvalidInput(f"The ledger must be a file that a node has written; {path} is not there.")
    with opened(path) as connection:
        return [make_entry(*row) for row in connection.execute(SUMMARY)]


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """The ledger for reading, as it is at one moment, with its journal; the node may be running meanwhile.

    What is in the journal has the numbers after all others in the table, until it is there.
    """
    try:
        newest = read_journal(journal_path(path))  # first: what is moved meanwhile is then in both, not in neither
    except OSError as error:
        raise _not_a_ledger(path, error) from error
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            connection.execute("BEGIN")
            has_journal = _check_version(connection, path) == VERSION
            for statement in WITH_JOURNAL:
                connection.execute(statement)
            if has_journal:
                (moved,) = connection.execute(SELECT_MOVED).fetchone()
                (last,) = connection.execute("SELECT coalesce(max(id), 0) FROM main.exchanges").fetchone()
                waiting = [(last + number - moved, *entry) for number, *entry in newest.entries if number > moved]
                connection.executemany("INSERT INTO temp.waiting VALUES (?, ?, ?, ?, ?, ?, ?, ?)", waiting)
            yield connection
    except sqlite3.Error as error:
        raise _not_a_ledger(path, error) from error


def _not_a_ledger(path: Path, error: sqlite3.Error | OSError) -> InvalidInput:
    file = _find_file(error, path)
    return InvalidInput(f"The ledger must be a file that a node has written; {file}: {_describe(error)}.")


def _find_file(error: sqlite3.Error | OSError, path: Path) -> Path:
    """The file that an error is of: the journal's, or the database's."""
    return Path(error.filename) if isinstance(error, OSError) and error.filename else path


def _open(path: Path) -> sqlite3.Connection:
    # no thread is special: the lock keeps them apart
    connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")  # the log is written, not flushed, at each move
        connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")
        if _check_version(connection, path) < VERSION:
            connection.executescript(f"BEGIN IMMEDIATE; {TABLES} PRAGMA user_version = {VERSION}; COMMIT;")
    except BaseException:
        connection.close()
        raise
    return connection


def _check_version(connection: sqlite3.Connection, path: Path) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if not 0 <= version <= VERSION:
        raise InvalidInput(f"The ledger must be of version {VERSION} or older; {path} is of version {version}.")
    return int(version)


def _describe(error: sqlite3.Error | OSError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def make_entry(
    peer: str, kind: str, direction: str, exchanges: int, rows: int, sent: int, received: int, first: float, last: float
) -> LedgerEntry:
    """An entry of a row of `SUMMARY`; `first`, `last`: seconds since 1970."""
    begun, ended = (datetime.fromtimestamp(at, UTC) for at in (first, last))
    return LedgerEntry(peer, kind, direction, exchanges, rows, sent, received, begun, ended)
