"""Exports: all that a ledger holds, for others to read and check; a line of JSON for each thing, or a table of records.

The lines are, in this order: what the export is of, certificates, the checkpoint, totals, the signed head, receipts,
and records.
"""

import csv
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from google.protobuf.message import DecodeError

from degroot.exceptions import InvalidInput
from degroot.node.protocol.v3 import collective_pb2 as wire
from degroot.node.records.chain import IN, LARGEST_COUNT, Record
from degroot.node.records.journal import read_journal
from degroot.node.records.ledger import SELECT_RECORDS, SELECT_TOTALS, journal_path, opened

FORMAT = "degroot ledger 1"
SUFFIXES = (".json", ".jsonl")
ABOUT, CERTIFICATE, CHECKPOINT, TOTAL, RECEIPT, HEAD, RECORD = (
    "ledger", "certificate", "checkpoint", "total", "receipt", "head", "record",
)  # fmt: skip


class Checkpoint(NamedTuple):
    """The last record that has expired, with the hash of the totals that stand for all before it."""

    number: int
    at: float
    hash: str
    totals: str
    signature: str
    certificate: str  # fingerprint


class SignedHead(NamedTuple):
    """The newest record that was signed."""

    number: int
    at: float
    hash: str
    signature: str
    certificate: str  # fingerprint


class StoredReceipt(NamedTuple):
    """A statement and the receipt for it, as they are stored."""

    number: int  # of the record that says so
    at: float
    peer: str
    direction: str  # "out": this node stated; "in": the peer did
    statement: str
    reply: str


@dataclass(frozen=True)
class LedgerContent:
    """What a ledger holds, with its records one after another. Bytes are in hexadecimal digits."""

    name: str
    exported: float  # seconds since 1970
    records: Iterator[Record]
    certificates: dict[str, bytes] = field(default_factory=dict)  # by fingerprint
    checkpoint: Checkpoint | None = None  # None: nothing has expired
    totals: list[tuple[Any, ...]] = field(default_factory=list)  # as `SELECT_TOTALS` lists them
    receipts: list[StoredReceipt] = field(default_factory=list)
    head: SignedHead | None = None
    peer: str | None = None  # whose exchanges it has only, so that the chain cannot be checked; None: everybody's
    damaged_lines: int = 0  # of the journal


@contextmanager
def read_ledger(path: Path, name: str) -> Iterator[LedgerContent]:
    """All that the ledger at `path` holds, as it is at one moment; the node may be running meanwhile."""
    if not path.is_file():
        raise InvalidInput(f"The ledger must be a file that a node has written; {path} is not there.")
    with opened(path) as connection:
        chained = f"{SELECT_RECORDS} WHERE length(hash) > 0 ORDER BY number"
        checkpoint, head = (connection.execute(f"SELECT * FROM {name}").fetchone() for name in ("checkpoint", "head"))
        yield LedgerContent(
            name,
            time.time(),
            (Record._make(_typed(row, Record._fields)) for row in connection.execute(chained)),
            {
                _as_bytes(each).hex(): _as_bytes(pem)
                for each, pem in connection.execute("SELECT fingerprint, content FROM certificates")
            },
            None if checkpoint is None else Checkpoint._make(_typed(checkpoint, Checkpoint._fields)),
            list(connection.execute(SELECT_TOTALS)),
            [
                StoredReceipt._make(_typed(row, StoredReceipt._fields))
                for row in connection.execute("SELECT * FROM receipts ORDER BY number")
            ],
            None if head is None else SignedHead._make(_typed(head, SignedHead._fields)),
            damaged_lines=len(read_journal(journal_path(path)).damaged),
        )


WHOLE = ("number", "exchanges", "rows", "sent", "received")  # fields that are whole numbers


def _as_bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else b""


def _typed(row: Sequence[Any], names: Sequence[str]) -> Iterator[Any]:
    """What a row of the database holds; what is damaged so that it has another type becomes nothing, which is found."""
    for name, value in zip(names, row, strict=True):
        kind: type = int if name in WHOLE else float if name == "at" else str
        told = value.hex() if isinstance(value, bytes) else value
        yield told if isinstance(told, kind) else kind()


def write_json(content: LedgerContent, out: TextIO, peer: str | None = None) -> int:
    """Write an export; how many records it has. `peer`: only exchanges with that peer, which show nothing of others."""
    about = {"format": FORMAT, "node": content.name, "exported": content.exported, "peer": peer}
    _write(out, ABOUT, about)
    certificates = content.certificates if peer is None else _select_certificates(content, peer)
    for fingerprint, pem in certificates.items():
        _write(out, CERTIFICATE, {"fingerprint": fingerprint, "content": pem.decode("ascii", errors="replace")})
    if peer is None:
        if content.checkpoint is not None:
            _write(out, CHECKPOINT, content.checkpoint._asdict())
        for total in content.totals:
            _write(out, TOTAL, {"values": total})
        if content.head is not None:
            _write(out, HEAD, content.head._asdict())
    for receipt in content.receipts:
        if peer in (None, receipt.peer):
            _write(out, RECEIPT, receipt._asdict())
    count = 0
    for record in content.records:
        if peer in (None, record.peer):
            _write(out, RECORD, record._asdict())
            count += 1
    return count


def _select_certificates(content: LedgerContent, peer: str) -> dict[str, bytes]:
    """Those that receipts with one peer are signed with."""
    used = set()
    for receipt in content.receipts:
        if receipt.peer == peer:
            with suppress(ValueError, DecodeError):
                messages = (receipt.statement, receipt.reply)
                used |= {wire.Signed.FromString(bytes.fromhex(each)).certificate.hex() for each in messages}
    return {fingerprint: pem for fingerprint, pem in content.certificates.items() if fingerprint in used}


def _write(out: TextIO, what: str, told: dict[str, Any]) -> None:
    out.write(json.dumps({"what": what, **told}, separators=(",", ":")) + "\n")


def write_csv(content: LedgerContent, out: TextIO, peer: str | None = None) -> int:
    """Write the records as a table, with times as people read them; how many there are."""
    table = csv.writer(out)
    table.writerow(Record._fields)
    count = 0
    for record in content.records:
        if peer in (None, record.peer):
            table.writerow(record._replace(at=format_time(record.at)))  # type: ignore[arg-type]
            count += 1
    return count


def format_time(at: float) -> str:
    """Seconds since 1970 as ISO 8601 writes them, in UTC; a time that is none, in a damaged ledger, as it is."""
    try:
        return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return f"time {at:g}"


def clean_text(text: object) -> str:
    r"""A line of text that others have written, without what could not be printed; bytes, in a damaged ledger, as text.

    >>> clean_text("triage\nward 7")
    'triage ward 7'
    """
    return "".join(sign if sign.isprintable() else " " for sign in str(text))


class ExportError(InvalidInput):
    """A file is no export of a ledger."""


@contextmanager
def read_export(path: Path) -> Iterator[LedgerContent]:
    """What an export holds; its records are read as they are asked for."""
    try:
        with path.open(encoding="utf-8") as file:
            lines = _parse_lines(path, file)
            _, about = next(lines, (0, {}))
            if about.get("format") != FORMAT or not isinstance(about.get("node"), str):
                raise ExportError(f"{path} must be an export of a ledger, by `degroot node audit --json`; it is not.")
            yield _assemble(path, about, lines)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is no text"
        raise ExportError(f"An export must be a file that can be read; {path}: {reason}.") from error


def _parse_lines(path: Path, file: TextIO) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(file, 1):
        try:
            told = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ExportError(f"Every line of an export must be JSON; line {number} of {path} is not.") from error
        if not isinstance(told, dict):
            raise ExportError(f"Every line of an export must be an object; line {number} of {path} is not.")
        yield number, told


def _assemble(path: Path, about: dict[str, Any], lines: Iterator[tuple[int, dict[str, Any]]]) -> LedgerContent:
    """What the lines of an export say; those of records are left for later."""
    head: SignedHead | None = None
    checkpoint: Checkpoint | None = None
    certificates: dict[str, bytes] = {}
    totals, receipts = list[tuple[Any, ...]](), list[StoredReceipt]()
    first: list[tuple[int, dict[str, Any]]] = []
    for number, told in lines:
        what = told.get("what")
        if what == RECORD:
            first = [(number, told)]
            break
        if what == CERTIFICATE:
            certificates[str(told.get("fingerprint"))] = str(told.get("content")).encode(errors="replace")
        elif what == CHECKPOINT:
            checkpoint = Checkpoint._make(_values(path, number, told, Checkpoint._fields))
        elif what == TOTAL:
            totals.append(tuple(_values(path, number, told, ("values",))[0]))
        elif what == RECEIPT:
            receipts.append(StoredReceipt._make(_values(path, number, told, StoredReceipt._fields)))
        elif what == HEAD:
            head = SignedHead._make(_values(path, number, told, SignedHead._fields))
        else:
            raise ExportError(f"Line {number} of {path} must be a part of an export; it is {str(what)[:40]!r}.")

    def read_records() -> Iterator[Record]:
        for part in (first, lines):
            for number, told in part:
                yield Record._make(_values(path, number, told, Record._fields))

    at = _values(path, 1, {"at": about.get("exported")}, ("at",))[0]
    peer = None if about.get("peer") is None else str(about["peer"])
    return LedgerContent(about["node"], at, read_records(), certificates, checkpoint, totals, receipts, head, peer)


def _values(path: Path, line: int, told: dict[str, Any], names: Sequence[str]) -> list[Any]:
    """What a line has under these names, each of the right type."""
    found = []
    for name in names:
        kind = int if name in WHOLE else float | int if name == "at" else list if name == "values" else str
        value = told.get(name)
        if not isinstance(value, kind) or isinstance(value, bool) or not _is_sane(value):
            raise ExportError(f"Line {line} of {path} must have a right {name!r}; it has {str(value)[:40]!r}.")
        found.append(float(value) if isinstance(value, int) and name == "at" else value)
    return found


def _is_sane(value: Any) -> bool:
    """Whether a number is one that a ledger can hold."""
    return not isinstance(value, int | float) or -LARGEST_COUNT < value < LARGEST_COUNT


def is_stated_here(receipt: StoredReceipt) -> bool:
    """Whether the node whose ledger it is has made the statement, not the receipt for it."""
    return receipt.direction != IN
