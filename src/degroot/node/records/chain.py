"""The chain: every record of the ledger holds a hash of itself and of the record before it.

Whoever changes, removes or inserts a record has to change the hashes of all that follow, and others hold some of these.
"""

from hashlib import sha256
from typing import NamedTuple

DIRECTIONS = ("in", "out")  # they called us; we called them
IN, OUT = DIRECTIONS
LARGEST_COUNT = 1 << 62  # that SQLite can add up
LATEST = 253_402_300_799.0  # seconds since 1970, at the end of the year 9999
DIGEST_BYTES = 32
GENESIS = bytes(DIGEST_BYTES)  # stands before the first record


class Origin(NamedTuple):
    """Where an exchange comes from: the question that it is part of, who put that, and why."""

    question: str = ""  # its number in hexadecimal digits, drawn at random; empty: it is part of none
    asker: str = ""  # who put the question, at whichever node
    purpose: str = ""  # as the asker has said


NO_ORIGIN = Origin()


class Record(NamedTuple):
    """One line of the ledger, which all but the hash is computed from."""

    number: int  # rises by 1
    at: float  # seconds since 1970
    peer: str  # empty: a note of the ledger about itself
    kind: str
    direction: str
    exchanges: int  # 1; 0: the reply to one that was recorded before; more: heartbeats, which are counted
    rows: int
    sent: int  # bytes
    received: int  # bytes
    question: str
    asker: str
    purpose: str  # of a note or a receipt: what it says
    digest: str  # salted, of the messages, as both sides compute it, in hexadecimal digits; empty: none
    hash: str = ""  # of the record and of the hash before it, in hexadecimal digits


def write_line(record: Record) -> str:
    """What is hashed of a record: all but its hash."""
    return "\t".join([str(each) for each in record[:-1]])


def link(before: bytes, line: str) -> bytes:
    """The hash of a record, given that of the record before it."""
    return sha256(before + line.encode()).digest()


def is_linked(record: Record, before: str) -> bool:
    """Whether a record is as it was when it was written after the one with the hash `before`."""
    try:
        return link(bytes.fromhex(before), write_line(record)).hex() == record.hash
    except ValueError:  # in an export hashes can be anything
        return False


def parse_line(line: bytes) -> Record | None:
    """The record in a line of a journal; None: it is none."""
    try:
        number, at, peer, kind, direction, exchanges, rows, sent, received, *texts = line.decode().split("\t")
        counts = [int(each) for each in (exchanges, rows, sent, received)]
        question, asker, purpose, digest, hashed = texts
        fields = (int(number), float(at), peer, kind, direction, *counts, question, asker, purpose, digest, hashed)
        record = Record._make(fields)
        is_written_so = f"{write_line(record)}\t{hashed}".encode() == line  # "1.0 " is a number as well
        known = is_written_so and all(bytes.fromhex(each).hex() == each for each in (digest, hashed))
        known = known and len(hashed) == 2 * DIGEST_BYTES
    except ValueError:
        return None
    in_range = all(0 <= count <= LARGEST_COUNT for count in (record.number, *counts)) and 0.0 <= record.at <= LATEST
    return record if known and in_range and direction in DIRECTIONS else None


def digest_exchange(
    caller: str, callee: str, kind: str, rows: int, question: str, request: bytes, reply: bytes
) -> str:  # fmt: skip
    """What both sides of an exchange compute of it; `request` holds a salt, which neither keeps."""
    about = f"{caller}\t{callee}\t{kind}\t{rows}\t{question}\t{len(request)}\t{len(reply)}\n"
    return sha256(about.encode() + request + reply).hexdigest()


def digest_receipt(statement: bytes, reply: bytes) -> str:
    """What the chain holds of a receipt, as it is stored."""
    return sha256(sha256(statement).digest() + reply).hexdigest()
