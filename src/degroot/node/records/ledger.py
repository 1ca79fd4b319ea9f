"""The ledger: who exchanged how much with this node, when, for whom and why; never what.

Records form a chain of hashes, whose newest link is signed by the node. They are kept one by one for a while; after
that a signed checkpoint and the totals of their days stand for them.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import file_digest, sha256
from pathlib import Path
from threading import Event, Lock, RLock, Thread
from typing import Any

from google.protobuf.message import DecodeError

from degroot.exceptions import DeGrootError, InvalidInput
from degroot.files.lock import wait_for_lock
from degroot.node.protocol.v3 import collective_pb2 as wire
from degroot.node.records.chain import (
    GENESIS,
    IN,
    LARGEST_COUNT,
    NO_ORIGIN,
    OUT,
    Origin,
    Record,
    digest_receipt,
    is_linked,
    link,
    parse_line,
    write_line,
)
from degroot.node.records.journal import Journal, read_journal, rotated_path
from degroot.node.tls.signing import LEDGER_CONTEXT, Signer

VERSION = 3  # versions 1 and 2 have no chain
ASKED_BY = {IN: "they", OUT: "we"}  # as people are told
DAY = 86_400
DAYS = 30  # how long records are kept one by one
KEPT = 1_000_000  # how many of them at most
SPARE = 0.05  # of `KEPT`, by which there may be more until they are folded
STEP = 1024  # after so many records, they are moved from the journal to the database
FLUSH_SECONDS = 0.05  # in which what is written reaches the disk, all that came meanwhile at once
MOVE_SECONDS = 1.0  # in which it reaches the database
COUNT_SECONDS = 900.0  # between records of heartbeats
FOLD_SECONDS = 86_400.0  # between looks at what has expired
RECENT = 10_000  # records among which a note of another process is looked for, which no index has
NO_EXCHANGES = (0, 0, 0, 0)  # exchanges, rows, bytes sent and received
LOG_PAGES = 100  # of SQLite's write-ahead log, after which it is merged into the database
PATIENCE = 0.25  # seconds that another writer may hold us up
NOT_A_DATABASE, CORRUPT = 26, 11  # of SQLite's error codes
TAKEN_OVER, SET_ASIDE, DAMAGED_LINES = "taken over", "damaged ledger set aside", "damaged lines set aside"  # notes
ASKED_AT_PAGE = "asked at the page"  # a note of a question: the person, whose name stays in this ledger
LOST = "records lost"

TABLES = """
CREATE TABLE records (
    number INTEGER PRIMARY KEY,
    at REAL NOT NULL,
    peer TEXT NOT NULL,
    kind TEXT NOT NULL,
    direction TEXT NOT NULL,
    exchanges INTEGER NOT NULL,
    "rows" INTEGER NOT NULL,
    sent INTEGER NOT NULL,
    received INTEGER NOT NULL,
    question TEXT NOT NULL,
    asker TEXT NOT NULL,
    purpose TEXT NOT NULL,
    digest BLOB NOT NULL,
    hash BLOB NOT NULL
);
CREATE INDEX records_of_questions ON records (question) WHERE question != '';
CREATE TABLE totals (
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
CREATE TABLE checkpoint (
    number INTEGER NOT NULL,
    at REAL NOT NULL,
    hash BLOB NOT NULL,
    totals BLOB NOT NULL,
    signature BLOB NOT NULL,
    certificate BLOB NOT NULL
);
CREATE TABLE head (
    number INTEGER NOT NULL,
    at REAL NOT NULL,
    hash BLOB NOT NULL,
    signature BLOB NOT NULL,
    certificate BLOB NOT NULL
);
CREATE TABLE certificates (
    fingerprint BLOB PRIMARY KEY,
    content BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE receipts (
    number INTEGER PRIMARY KEY,
    at REAL NOT NULL,
    peer TEXT NOT NULL,
    direction TEXT NOT NULL,
    statement BLOB NOT NULL,
    reply BLOB NOT NULL
);
"""
COLUMNS = 'number, at, peer, kind, direction, exchanges, "rows", sent, received, question, asker, purpose'
SELECT_RECORDS = f"SELECT {COLUMNS}, lower(hex(digest)), lower(hex(hash)) FROM records"
INSERT = f"INSERT INTO records ({COLUMNS}, digest, hash) VALUES ({', '.join('?' * 14)})"
HAS_QUESTION = "SELECT 1 FROM records WHERE question = ? AND question != '' LIMIT 1"  # as the index has it
HAS_NOTE = f"""
SELECT 1 FROM main.records WHERE number > (SELECT max(number) FROM main.records) - {RECENT} AND peer = ''
    AND question = '' AND at = ? AND kind = ? AND purpose = ? LIMIT 1
"""
SELECT_LAST = "SELECT number, hash FROM records ORDER BY number DESC LIMIT 1"
SELECT_EXPIRED = "SELECT number, hash FROM checkpoint"
KEEP_RECEIPT = """
INSERT INTO receipts SELECT min(ifnull(min(number), 0), 0) - 1, ?, ?, ?, ?, ? FROM receipts
"""
FORGET_RECEIPT = "DELETE FROM receipts WHERE number = (SELECT min(number) FROM receipts)"  # the latest that was kept
NUMBER_RECEIPT = "UPDATE receipts SET number = ? WHERE number = (SELECT min(number) FROM receipts)"
FORGET_UNRECORDED = """
DELETE FROM receipts WHERE number < 0
    AND NOT EXISTS (SELECT 1 FROM records WHERE digest = digest_receipt(statement, reply))
"""
NUMBER_RECORDED = """
UPDATE OR REPLACE receipts SET number = (SELECT number FROM records WHERE digest = digest_receipt(statement, reply))
WHERE number < 0
"""
NUMBERED_RECEIPTS = """
SELECT number, at, peer, direction, statement, reply FROM main.receipts WHERE number > 0
UNION ALL SELECT records.number, kept.at, kept.peer, kept.direction, statement, reply FROM main.receipts AS kept
    JOIN records ON records.digest = digest_receipt(statement, reply) WHERE kept.number < 0
"""
WITH_JOURNAL = (  # in what is read, `records` has those in the journal too, and `receipts` the numbers of records
    "CREATE TEMP TABLE waiting AS SELECT * FROM main.records LIMIT 0",
    "CREATE TEMP VIEW records AS SELECT * FROM main.records UNION ALL SELECT * FROM temp.waiting",
    f"CREATE TEMP VIEW receipts AS {NUMBERED_RECEIPTS}",
)
FOLD = """
INSERT INTO totals
SELECT CAST(at / 86400 AS INTEGER), peer, kind, direction, sum(exchanges), sum("rows"), sum(sent), sum(received),
    min(at), max(at)
FROM records WHERE number <= ? AND peer != '' GROUP BY 1, 2, 3, 4
ON CONFLICT DO UPDATE SET
    exchanges = exchanges + excluded.exchanges, "rows" = "rows" + excluded."rows", sent = sent + excluded.sent,
    received = received + excluded.received, first = min(first, excluded.first), last = max(last, excluded.last)
"""
SELECT_TOTALS = """
SELECT day, peer, kind, direction, exchanges, "rows", sent, received, first, last FROM totals
ORDER BY day, peer, kind, direction
"""
SUMMARY = """
SELECT peer, kind, direction, sum(exchanges), sum("rows"), sum(sent), sum(received), min(first), max(last) FROM (
    SELECT peer, kind, direction, exchanges, "rows", sent, received, first, last FROM totals
    UNION ALL SELECT peer, kind, direction, exchanges, "rows", sent, received, at, at FROM records WHERE peer != ''
) GROUP BY peer, kind, direction ORDER BY peer, kind, direction
"""
ASKED_ROWS = """
SELECT peer, sum("rows") FROM (
    SELECT peer, direction, "rows" FROM totals WHERE day = :day
    UNION ALL SELECT peer, direction, "rows" FROM records WHERE at >= :day * 86400.0 AND at < (:day + 1) * 86400.0
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


@dataclass(frozen=True, slots=True)
class Head:
    """The newest link of a chain: the number and the hash of a record."""

    number: int
    hash: bytes


class Ledger:
    """The record of all exchanges, in an SQLite file; what is recorded outlives the process, however it ends.

    Only heartbeats are counted in memory first.

    Records are written to a journal beside that file, flushed many at a time, and moved into it. `totals` are those
    since the node started, for its metrics: by peer, kind and direction, the number of exchanges, rows, bytes sent and
    bytes received.

    Parameters
    ----------
    name : str
        Whose ledger it is, as its signatures say.
    sign : callable, optional
        Signs with the node's key; None: nothing is signed.
    days, kept : float, int
        How long, and how many, records are kept one by one.
    """

    def __init__(
        self,
        path: Path,
        name: str = "",
        sign: Signer | None = None,
        days: float = DAYS,
        kept: int = KEPT,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path, self.name, self.days, self.kept = path, name, days, kept
        self._sign, self._clock = sign, clock
        self.totals: dict[tuple[str, str, str], tuple[int, int, int, int]] = {}
        self.damaged_lines = 0  # of the journal, when it was opened
        self.damage = ""  # of the ledger that was there, which this one takes the place of
        self.set_aside: Path | None = None  # where that is now
        self.lost = range(0)  # the numbers of records that are neither in the database nor in its journal
        self.trouble = ""  # why what is recorded stays in the journal; empty: it reaches the database
        self._counts: dict[tuple[str, str, str], list[int]] = {}  # of heartbeats that are not recorded yet
        self._counted = self._folded = clock()
        self._connection: sqlite3.Connection
        self._journal: Journal
        self._head = self._expired = Head(0, GENESIS)  # the newest link; that of the last record that has expired
        self._pending: list[Record] = []  # in the journal, and not in the database
        self._rotated: list[Record] = []  # in the part of the journal that is being moved there
        self._lock, self._moving = Lock(), RLock()  # of what is written; of what is moved
        self._written, self._closing = Event(), Event()
        try:
            self.damage = find_damage(path)
            self._open()
            self._fold()
        except (sqlite3.Error, OSError) as error:
            raise LedgerError(_find_file(error, path), _describe(error)) from error
        self._worker = Thread(target=self._work, name="ledger", daemon=True)
        self._worker.start()

    def record(
        self, peer: str, kind: str, direction: str, rows: int, sent_bytes: int, received_bytes: int,
        origin: Origin = NO_ORIGIN, digest: str = "",
    ) -> Record:  # fmt: skip
        """Write down one exchange; it is safe from the end of this process when this returns."""
        exchange = (direction, 1, rows, sent_bytes, received_bytes)
        return self._write([(peer, kind, *exchange, *origin, digest)])[0]

    def record_all(
        self, peers: Sequence[str], kind: str, direction: str, rows: int, sent_bytes: int, received_bytes: int,
        origin: Origin = NO_ORIGIN,
    ) -> None:  # fmt: skip
        """The same exchange with several peers, all of them or, if that fails, none."""
        exchange = (direction, 1, rows, sent_bytes, received_bytes)
        self._write([(peer, kind, *exchange, *origin, "") for peer in peers])

    def record_replies(
        self, kind: str, replies: Iterable[tuple[str, int, str]], origin: Origin = NO_ORIGIN
    ) -> list[Record]:
        """Write down replies to what was recorded before: of each, the peer, its bytes, and the exchange's digest."""
        reply = (kind, OUT, 0, 0, 0)
        return self._write([(peer, *reply, received, *origin, digest) for peer, received, digest in replies])

    def count(self, peer: str, kind: str, direction: str, sent_bytes: int, received_bytes: int) -> None:
        """Count a heartbeat. Its count is recorded every now and then, or else heartbeats would be most records."""
        with self._lock:
            counts = self._counts.setdefault((peer, kind, direction), [0, 0, 0])
            for place, number in enumerate((1, sent_bytes, received_bytes)):
                counts[place] += number
            self._add_to_totals(peer, kind, direction, 1, 0, sent_bytes, received_bytes)
        if self._clock() - self._counted >= COUNT_SECONDS:
            with suppress(LedgerError):  # heartbeats go on; they stay counted until they can be recorded
                self.record_counts()

    def record_counts(self) -> None:
        """Record the heartbeats that were counted."""
        with self._lock:
            counts, self._counts, self._counted = self._counts, {}, self._clock()
        try:
            self._write(
                [
                    (peer, kind, direction, number, 0, sent, received, *NO_ORIGIN, "")
                    for (peer, kind, direction), (number, sent, received) in counts.items()
                ],
                counted=True,
            )
        except LedgerError:
            with self._lock:
                for key, numbers in counts.items():
                    known = self._counts.get(key, [0, 0, 0])
                    self._counts[key] = [*map(sum, zip(known, numbers, strict=True))]
            raise

    def record_receipt(
        self, peer: str, kind: str, direction: str, told: str, statement: bytes, reply: bytes
    ) -> Record:  # fmt: skip
        """Keep a receipt, and write down that it is kept.

        It is kept first, under a number below 0, so that a record is never without its receipt, however this process
        ends and whenever another reads. By its digest it is found to be that record's.
        """
        with self._moving:
            at = self._clock()
            self.execute(KEEP_RECEIPT, (at, peer, direction, statement, reply))
            digest = digest_receipt(statement, reply)
            try:
                record = self._write([(peer, kind, direction, 0, 0, 0, 0, "", "", told, digest)], at=at)[0]
            except LedgerError:
                with suppress(LedgerError):
                    self.execute(FORGET_RECEIPT)
                raise
            self.execute(NUMBER_RECEIPT, (record.number,))
            return record

    def note(self, kind: str, told: str, digest: str = "", question: str = "") -> str:
        """Write down something about the ledger itself, or about a question; what is written, in one line."""
        line = _make_printable(told)
        self._write([("", kind, IN, 0, 0, 0, 0, question, "", line, digest)])
        return line

    def count_rows_asked(self, day: int) -> dict[str, int]:
        """How many rows each peer and client has asked about on a day, counted from 1970 in UTC."""
        try:
            with self._moving:
                self._move()
                return dict(self._connection.execute(ASKED_ROWS, {"day": day}).fetchall())
        except (sqlite3.Error, OSError) as error:
            raise LedgerError(self.path, _describe(error)) from error

    def make_durable(self) -> Head:
        """Move all records into the database, on the disk; the newest link of the chain."""
        try:
            with self._moving:
                return self._move()
        except (sqlite3.Error, OSError) as error:
            raise LedgerError(self.path, _describe(error)) from error

    def execute(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """What a statement finds in the database, or changes there; records that are in the journal are not there."""
        try:
            with self._moving:
                return self._connection.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise LedgerError(self.path, _describe(error)) from error

    def list_notices(self) -> Iterator[str]:
        """What people should know of it, in sentences."""
        if self.set_aside is not None:
            yield f"The ledger was damaged when this node started ({self.damage}); a new one is begun beside it."
        if self.lost:
            yield f"Records {self.lost[0]} to {self.lost[-1]} of the ledger were lost before this node started."
        if self.damaged_lines:
            yield f"{self.damaged_lines} lines of the ledger's journal were damaged, and are kept beside it."
        if self.trouble:
            yield f"The ledger's database cannot be written ({self.trouble}); its journal keeps what is recorded."

    def close(self) -> None:
        """Write what was counted, and close the files."""
        if self._closing.is_set():
            return
        with suppress(LedgerError):
            self.record_counts()
        self._closing.set()
        self._written.set()
        self._worker.join()
        with suppress(sqlite3.Error, OSError, LedgerError), self._moving:  # what is in the journal stays there
            self._move()
        with self._lock:
            self._journal.close()
        self._connection.close()

    def _write(
        self, exchanges: Sequence[tuple[Any, ...]], *, counted: bool = False, at: float | None = None
    ) -> list[Record]:
        """Append records to the journal, all of them or, if that raises LedgerError, none.

        Parameters
        ----------
        exchanges : of each, the fields of `Record` from `peer` to `digest`
        counted : whether they are in the totals already
        at : when they took place; None: now
        """
        now = self._clock() if at is None else at
        with self._lock:
            number, before, lines, records = self._head.number, self._head.hash, "", []
            for fields in exchanges:
                number += 1
                line = f"{number}\t{now!r}\t" + "\t".join(map(str, fields))
                before = link(before, line)
                hashed = before.hex()
                lines += f"{line}\t{hashed}\n"
                records.append(Record._make((number, now, *fields, hashed)))
            try:
                self._journal.append(lines)
            except OSError as error:
                raise LedgerError(self.path, _describe(error)) from error
            self._head = Head(number, before)
            self._pending += records
            if not counted:
                for peer, kind, direction, exchanged, rows, sent, received, *_ in exchanges:
                    self._add_to_totals(peer, kind, direction, exchanged, rows, sent, received)
        if not self._written.is_set():
            self._written.set()
        return records

    def _add_to_totals(
        self, peer: str, kind: str, direction: str, exchanged: int, rows: int, sent: int, received: int
    ) -> None:
        if peer:
            known = self.totals.get((peer, kind, direction), NO_EXCHANGES)
            total = known[0] + exchanged, known[1] + rows, known[2] + sent, known[3] + received
            self.totals[peer, kind, direction] = total

    def _work(self) -> None:
        """Flush what was written soon after, all that came meanwhile at once; move it; fold what has expired."""
        moved = time.monotonic()
        while not self._closing.is_set():
            waiting = bool(self._pending or self._rotated)
            self._written.wait(MOVE_SECONDS if waiting else None)
            self._closing.wait(FLUSH_SECONDS)
            self._written.clear()
            try:
                with self._moving:
                    self._journal.flush()
                if len(self._pending) >= STEP or time.monotonic() - moved >= MOVE_SECONDS:
                    with self._moving:
                        self._move()
                    moved, self.trouble = time.monotonic(), ""
                if self._clock() - self._folded >= FOLD_SECONDS or self._has_too_many():
                    with self._moving:
                        self._fold()
            except (sqlite3.Error, OSError, LedgerError) as error:  # if it cannot be done now, it can wait
                self.trouble = error.reason if isinstance(error, LedgerError) else _describe(error)

    def _has_too_many(self) -> bool:
        return self._head.number - self._expired.number > self.kept * (1.0 + SPARE)

    def _open(self) -> None:
        """Open the files, and take in what is in the journal."""
        journal = journal_path(self.path)
        if self.damage:
            self.set_aside = _set_aside(self.path)
        self._connection = _connect(self.path)
        try:
            taken = _take_over(self._connection)
            self._expired, self._head = self._find_head(SELECT_EXPIRED), self._find_head(SELECT_LAST)
            if self._head.number < self._expired.number:
                self._head = self._expired
            content = read_journal(journal)
            self._keep_damaged(content.damaged)
            newer = [record for record in content.records if record.number > self._head.number]
            self.lost = range(self._head.number + 1, newer[0].number if newer else 0)
            self._insert(newer)
            self._number_receipts()
        except BaseException:
            self._connection.close()
            raise
        self._journal = Journal(journal)
        self._journal.forget_rotated()
        self._journal.rotate()
        self._journal.forget_rotated()
        if self.set_aside is not None:
            with self.set_aside.open("rb") as file:
                self.note(SET_ASIDE, self.set_aside.name, file_digest(file, "sha256").hexdigest())
        if taken is not None:
            with self._transaction():
                self._sign_checkpoint(self._expired)
            self.note(TAKEN_OVER, f"{taken} records of an earlier version, which had no chain")
        if content.damaged:
            digest = sha256(b"\n".join(content.damaged)).hexdigest()
            self.note(DAMAGED_LINES, f"{len(content.damaged)} lines of the journal", digest)
        if self.lost:
            self.note(LOST, f"records {self.lost[0]} to {self.lost[-1]}")
        self._take_in_beside()
        self._move()

    def _number_receipts(self) -> None:
        """Give receipts the numbers of their records where the process before was killed too early to do so."""
        with self._transaction():
            self._connection.execute(FORGET_UNRECORDED)
            self._connection.execute(NUMBER_RECORDED)

    def _find_head(self, statement: str) -> Head:
        found = self._connection.execute(statement).fetchone()
        return Head(0, GENESIS) if found is None else Head(*found)

    def _move(self) -> Head:
        """Move what is in the journal to the database; the newest link of what is there."""
        self._take_in_beside()
        if self._rotated:  # an earlier move has failed
            self._insert_rotated()
        with self._lock:
            if self._pending:
                self._journal.rotate()
                self._rotated, self._pending = self._pending, []
            head = self._head
        if self._rotated:
            self._insert_rotated()
        return head

    def _insert_rotated(self) -> None:
        self._insert(self._rotated)
        self._rotated = []
        self._journal.forget_rotated()

    def _insert(self, records: Sequence[Record]) -> None:
        """Add records to the database, with a signature of the last one's link."""
        if not records:
            return
        last = Head(records[-1].number, bytes.fromhex(records[-1].hash))
        rows = [(*record[:12], bytes.fromhex(record.digest), bytes.fromhex(record.hash)) for record in records]
        with self._transaction():
            self._connection.executemany(INSERT, rows)
            self._connection.execute("DELETE FROM head")
            at = self._clock()
            values = (last.number, at, last.hash, *self._signed(describe_head(self.name, last, at)))
            self._connection.execute("INSERT INTO head VALUES (?, ?, ?, ?, ?)", values)
        if last.number > self._head.number:  # when the ledger is opened
            self._head = last

    def _signed(self, message: bytes) -> tuple[bytes, bytes]:
        """Signature, and fingerprint of the certificate; empty where there is no key."""
        if self._sign is None:
            return b"", b""
        try:
            signature, certificate = self._sign(LEDGER_CONTEXT, message)
        except InvalidInput as error:  # what is recorded stays in the journal until it can be signed
            raise LedgerError(self.path, str(error).rstrip(".")) from error
        return signature, self.keep_certificate(certificate)

    def keep_certificate(self, certificate: bytes) -> bytes:
        """Keep a certificate, with its chain in PEM, that signatures are checked with later; its fingerprint."""
        fingerprint = sha256(certificate).digest()
        self.execute("INSERT OR IGNORE INTO certificates VALUES (?, ?)", (fingerprint, certificate))
        return fingerprint

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            yield

    def _take_in_beside(self) -> None:
        """Take in what another process has recorded beside this one, each record once."""
        beside = beside_path(self.path)
        taking = beside.with_name(f"{beside.name}.taking")
        if not taking.exists():
            with suppress(FileNotFoundError), beside.open("rb") as file:
                wait_for_lock(file)  # whoever is writing is done by then, and others write to another file
                beside.rename(taking)
        try:
            lines = taking.read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return
        pending = set(map(_identify, self._pending))
        for line in lines:
            record = _parse_beside(line)
            if record is None:
                self._keep_damaged([line.encode()])
            elif _identify(record) not in pending and not _has_record(self._connection, record):
                self._write([record[2:-1]], at=record.at)
        taking.unlink()

    def _keep_damaged(self, lines: Sequence[bytes]) -> None:
        """Keep lines of the journal that are no records where somebody can look at them."""
        if lines:
            with damaged_path(self.path).open("ab") as kept:
                kept.write(b"".join(line + b"\n" for line in lines))
            self.damaged_lines += len(lines)

    def _fold(self) -> None:
        """Fold what has expired into the totals of its days, behind a signed checkpoint."""
        self._folded = now = self._clock()
        found = self._connection.execute(
            "SELECT max(number) FROM records WHERE at < ? AND number <= ifnull((SELECT min(number) FROM records "
            "WHERE at >= ?), ?) ", (now - self.days * DAY, now - self.days * DAY, LARGEST_COUNT),
        ).fetchone()  # fmt: skip
        until = max(found[0] or 0, self._head.number - self.kept if self._has_too_many() else 0)
        row = self._connection.execute(
            "SELECT number, hash FROM records WHERE number <= ? ORDER BY number DESC LIMIT 1", (until,)
        ).fetchone()
        if row is None:
            return
        last = Head(*row)
        with self._transaction():
            self._connection.execute(FOLD, (last.number,))
            self._connection.execute("DELETE FROM records WHERE number <= ?", (last.number,))
            self._connection.execute(
                "DELETE FROM receipts WHERE number BETWEEN 1 AND ? AND number NOT IN (SELECT max(number) FROM receipts "
                "GROUP BY peer, direction)", (last.number,),
            )  # fmt: skip
            self._forget_certificates()
            self._sign_checkpoint(last)

    def _forget_certificates(self) -> None:
        """Forget certificates that nothing is signed with any more."""
        used = set(self._connection.execute("SELECT certificate FROM head"))
        for statement, reply in self._connection.execute("SELECT statement, reply FROM receipts"):
            for content in (statement, reply):
                with suppress(DecodeError):
                    used.add((wire.Signed.FromString(content).certificate,))
        held = set(self._connection.execute("SELECT fingerprint FROM certificates"))
        self._connection.executemany("DELETE FROM certificates WHERE fingerprint = ?", sorted(held - used))

    def _sign_checkpoint(self, last: Head) -> None:
        """Let a signature stand for the records up to the `last` that has expired, and for their totals."""
        now, totals = self._clock(), digest_totals(self._connection.execute(SELECT_TOTALS))
        signed = self._signed(describe_checkpoint(self.name, last, now, totals))
        self._connection.execute("DELETE FROM checkpoint")
        values = (last.number, now, last.hash, totals, *signed)
        self._connection.execute("INSERT INTO checkpoint VALUES (?, ?, ?, ?, ?, ?)", values)
        self._expired = last


def describe_head(name: str, head: Head, at: float) -> bytes:
    """What is signed of the newest link of a chain."""
    return f"head\t{name}\t{head.number}\t{at!r}\t{head.hash.hex()}".encode()


def describe_checkpoint(name: str, head: Head, at: float, totals: bytes) -> bytes:
    """What is signed of the last record that has expired, and of the totals that stand for all before it."""
    return f"expired\t{name}\t{head.number}\t{at!r}\t{head.hash.hex()}\t{totals.hex()}".encode()


def digest_totals(rows: Iterable[tuple[Any, ...]]) -> bytes:
    """The hash of totals, as `SELECT_TOTALS` lists them."""
    hashed = sha256()
    for row in rows:
        hashed.update(("\t".join(map(str, row)) + "\n").encode())
    return hashed.digest()


def record_beside(
    path: Path, peer: str, kind: str, direction: str, rows: int, sent_bytes: int, received_bytes: int,
    origin: Origin = NO_ORIGIN,
) -> None:  # fmt: skip
    """Write down one exchange of another process than the node, which takes it into its chain, now or when it runs."""
    identified = origin._replace(question=origin.question or os.urandom(8).hex())
    exchange = (direction, 1, rows, sent_bytes, received_bytes)
    _write_beside(path, Record._make((0, time.time(), peer, kind, *exchange, *identified, "", "")))


def note_beside(path: Path, kind: str, told: str) -> None:
    """Write down a note of another process than the node, in the same way."""
    note = ("", kind, IN, 0, 0, 0, 0, "", "", _make_printable(told), "", "")
    _write_beside(path, Record._make((0, time.time(), *note)))


def _write_beside(path: Path, record: Record) -> None:
    """Append a record to what the node takes in, which it gives a number and a place in its chain."""
    line = write_line(record)
    line += f"\t{link(GENESIS, line).hex()}"
    try:
        if not path.exists():
            _connect(path).close()
        while not _append_beside(beside_path(path), f"{line}\n".encode()):
            pass  # the node has just taken the file in: there is another now
    except (OSError, sqlite3.Error) as error:
        raise LedgerError(path, _describe(error)) from error


def _append_beside(path: Path, line: bytes) -> bool:
    """Append a line to a file, unless that has been renamed meanwhile; whether it was appended."""
    with path.open("ab", buffering=0) as file:
        wait_for_lock(file)
        if not path.exists() or not os.path.samestat(os.fstat(file.fileno()), path.stat()):
            return False
        file.write(line)
        os.fsync(file.fileno())
        return True


def journal_path(path: Path) -> Path:
    """The journal of the ledger at `path`."""
    return path.with_suffix(".journal")


def beside_path(path: Path) -> Path:
    """What other processes have recorded beside the ledger at `path`."""
    return path.with_suffix(".beside")


def damaged_path(path: Path) -> Path:
    """Where lines of the journal are kept that were damaged."""
    return path.with_suffix(".journal.damaged")


def has_chain(path: Path) -> bool:
    """Whether a ledger is of this version; one of an earlier version is taken over when the node starts."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            return _check_version(connection, path) == VERSION
    except sqlite3.Error as error:
        raise _not_a_ledger(path, error) from error


def summary(path: Path) -> list[LedgerEntry]:
    """What the ledger holds, by peer, kind and direction; the node may be running meanwhile."""
    if not path.is_file():
        raise InvalidInput(f"The ledger must be a file that a node has written; {path} is not there.")
    with opened(path) as connection:
        try:
            entries = [_check_entry(make_entry(*row)) for row in connection.execute(SUMMARY)]
        except (TypeError, ValueError, OverflowError, OSError) as error:
            told = "one is damaged: `degroot node audit --verify` names it"
            raise InvalidInput(f"Records of {path} must be as they were written; {told}.") from error
        return entries


def _check_entry(entry: LedgerEntry) -> LedgerEntry:
    """An entry whose texts are texts; SQLite lets a damaged record have anything."""
    if not all(isinstance(each, str) for each in (entry.peer, entry.kind)) or entry.direction not in ASKED_BY:
        raise ValueError(entry)
    return entry


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """The ledger for reading, as it is at one moment, with its journal; the node may be running meanwhile."""
    try:
        # in the order in which records move: what moves meanwhile is read twice, not never
        beside = _read_beside(path)
        newest = read_journal(journal_path(path))
    except OSError as error:
        raise _not_a_ledger(path, error) from error
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            _add_functions(connection)
            connection.execute("BEGIN")
            version = _check_version(connection, path)
            if version != VERSION:
                raise InvalidInput(
                    f"The ledger must be of version {VERSION}; {path} is of version {version}, which the node takes "
                    "over when it is started."
                )
            for statement in WITH_JOURNAL:
                connection.execute(statement)
            (last,) = connection.execute("SELECT coalesce(max(number), 0) FROM main.records").fetchone()
            (expired,) = connection.execute("SELECT coalesce(max(number), 0) FROM checkpoint").fetchone()
            waiting = [record for record in newest.records if record.number > max(last, expired)]
            number = waiting[-1].number if waiting else max(last, expired)
            known = set(map(_identify, waiting))
            for record in beside:
                if _identify(record) not in known and not _has_record(connection, record):
                    number += 1
                    waiting.append(record._replace(number=number))
            connection.executemany(
                f"INSERT INTO temp.waiting VALUES ({', '.join('?' * 14)})",
                [(*record[:12], bytes.fromhex(record.digest), bytes.fromhex(record.hash)) for record in waiting],
            )
            yield connection
    except sqlite3.Error as error:
        raise _not_a_ledger(path, error) from error


def _read_beside(path: Path) -> list[Record]:
    """What other processes have recorded, and the node has not taken in."""
    beside, lines = beside_path(path), list[str]()
    for each in (beside, beside.with_name(f"{beside.name}.taking")):
        with suppress(FileNotFoundError):
            lines += each.read_text(errors="replace").splitlines()
    return [record for record in map(_parse_beside, dict.fromkeys(lines)) if record is not None]


def _parse_beside(line: str) -> Record | None:
    """What `record_beside` has written, before it has a number and a hash in the chain; None: it is none."""
    record = parse_line(line.encode())
    if record is not None and not is_linked(record, GENESIS.hex()):
        return None
    if record is None:  # the version before has written no checksum
        record = parse_line(f"{line}\t{GENESIS.hex()}".encode())
    return None if record is None else record._replace(hash="")


def _identify(record: Record) -> tuple[float, str, str] | str:
    """By which a record of another process is known: an exchange by its question; a note has none."""
    return record.question or (record.at, record.kind, record.purpose)


def _has_record(connection: sqlite3.Connection, record: Record) -> bool:
    """Whether a record of another process is in the database; of notes, whether it is among the newest."""
    if record.question:
        found = connection.execute(HAS_QUESTION, (record.question,))
    else:
        found = connection.execute(HAS_NOTE, (record.at, record.kind, record.purpose))
    return found.fetchone() is not None


def _make_printable(told: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in told)


def _not_a_ledger(path: Path, error: sqlite3.Error | OSError) -> InvalidInput:
    file = _find_file(error, path)
    return InvalidInput(f"The ledger must be a file that a node has written; {file}: {_describe(error)}.")


def _find_file(error: sqlite3.Error | OSError, path: Path) -> Path:
    """The file that an error is of: the journal's, or the database's."""
    return Path(error.filename) if isinstance(error, OSError) and error.filename else path


def _connect(path: Path) -> sqlite3.Connection:
    # no thread is special: the lock keeps them apart
    connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
    _add_functions(connection)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")  # a commit is on the disk; many records share one
        connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")
        if _check_version(connection, path) == 0:
            connection.executescript(f"BEGIN IMMEDIATE; {TABLES} PRAGMA user_version = {VERSION}; COMMIT;")
    except BaseException:
        connection.close()
        raise
    return connection


def _add_functions(connection: sqlite3.Connection) -> None:
    """What statements use: `digest_receipt`, as records have it."""

    def digest(statement: Any, reply: Any) -> bytes | None:
        is_whole = isinstance(statement, bytes) and isinstance(reply, bytes)
        return bytes.fromhex(digest_receipt(statement, reply)) if is_whole else None

    connection.create_function("digest_receipt", 2, digest, deterministic=True)


def find_damage(path: Path) -> str:
    """Why a ledger has to be moved aside when its node starts; empty: it is whole, or there is none.

    What cannot be opened for another reason, such as its rights, raises: that is no damage.
    """
    if not path.exists():
        left = [each.name for each in _list_beside(path) if each.exists()]
        return f"it is not there, and {left[0]} is" if left else ""
    if not path.is_file():
        raise LedgerError(path, "it is no file")
    if not path.stat().st_size:
        return "it is empty"
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            found = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF not in (NOT_A_DATABASE, CORRUPT):
            raise LedgerError(path, _describe(error)) from error
        found = str(error)
    return "" if found == "ok" else " ".join(found.split())


def _list_beside(path: Path) -> list[Path]:
    """The files without which a ledger is not whole: SQLite's and the journal's."""
    journal = journal_path(path)
    return [path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm"), journal, rotated_path(journal)]


def _set_aside(path: Path) -> Path:
    """Move a damaged ledger out of the way, with what belongs to it; where it is now."""
    stem, moved = f"{path.stem}-damaged-{datetime.now(UTC):%Y%m%dT%H%M%S%f}", list[Path]()
    for each in (path, *_list_beside(path)):
        aside = each.with_name(each.name.replace(path.stem, stem, 1))
        with suppress(FileNotFoundError):
            moved.append(each.rename(aside))
    return moved[0]


def _take_over(connection: sqlite3.Connection) -> int | None:
    """Turn a ledger of an earlier version into one with a chain; how many exchanges it has. None: it has a chain."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == VERSION:
        return None
    records, before = list[tuple[Any, ...]](), GENESIS
    for at, peer, kind, direction, rows, sent, received in connection.execute(
        'SELECT at, peer, kind, direction, "rows", sent, received FROM exchanges ORDER BY id'
    ):
        fields = (len(records) + 1, at, peer, kind, direction, 1, rows, sent, received, "", "", "", "")
        before = link(before, "\t".join(map(str, fields)))
        records.append((*fields[:12], b"", before))
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statement in TABLES.split(";")[:-1]:
            connection.execute(statement)
        connection.executemany(INSERT, records)
        connection.execute("INSERT INTO totals SELECT * FROM days")
        for table in ("exchanges", "days", "journal"):
            connection.execute(f"DROP TABLE IF EXISTS {table}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    return len(records)


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
