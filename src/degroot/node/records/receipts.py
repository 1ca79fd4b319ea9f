"""Receipts: both sides of exchanges sign what they have recorded of them, many exchanges at a time.

Who asked states the digests of what was answered, and the newest link of its chain; who answered looks them up in its
own ledger, and signs what it has found. Each side keeps both: neither can change its record later without the other's
proof of it.
"""

import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from threading import Lock
from typing import NamedTuple, TypeVar

from google.protobuf.message import DecodeError

from degroot.exceptions import InvalidInput
from degroot.node.protocol.codec import PROTOCOL, Malformed
from degroot.node.protocol.v2 import collective_pb2 as wire
from degroot.node.records.chain import DIGEST_BYTES, IN, OUT, Record
from degroot.node.records.ledger import DAY, SELECT_RECORDS, Head, Ledger, Signer
from degroot.node.tls.signing import RECEIPT_CONTEXT

RECEIPT = "receipt"  # what the exchange of receipts itself is called in ledgers
MOST = 10_000  # exchanges in one statement
KEPT = 100_000  # exchanges with one peer that wait for receipts; the oldest are given up
UNKNOWN_SECONDS = 600.0  # between statements of a peer with exchanges that are not here: they take room, and time
SHOWN = 3  # of what a peer claims at a time that is noted
PATIENCE = 60.0  # seconds after which an answer that nobody has stated is told to who asked for it
GONE_BACK, NOT_THERE, NOT_HERE = "ledger went back", "exchange not in peer's ledger", "exchange not in this ledger"
HAS_ASKED = "SELECT 1 FROM records WHERE question = ? AND question != '' AND peer = ? AND direction = 'out' LIMIT 1"
WITH_DIGESTS = "WHERE length(digest) > 0 AND kind != ? AND peer != '' ORDER BY number"
LATE = 30 * DAY  # seconds, beyond which a statement's time is not believed

Checker = Callable[[bytes, bytes, bytes, bytes, str], None]  # context, message, signature, certificate, name: or raises


class Answered(NamedTuple):
    """An answer to a peer, which has not stated it yet."""

    at: float
    question: str
    kind: str
    rows: int


@dataclass(slots=True)
class Counterpart:
    """What waits to be confirmed between this node and one peer."""

    received: deque[str] = field(default_factory=deque)  # digests of what it has replied
    answered: OrderedDict[str, Answered] = field(default_factory=OrderedDict)  # by digest
    known: Head | None = None  # the newest link of the peer's chain that it has stated
    stated: float = -math.inf  # when this node last stated something, as `time.monotonic` counts
    is_met: bool = False  # whether it has, since it started
    looked_up: float = -math.inf  # when exchanges that the peer stated were last looked for in the ledger


class Receipts:
    """What a node's ledger and its peers' have of the same exchanges.

    Parameters
    ----------
    name : str
        Of this node.
    sign, check : callable
        Sign with the node's key, and check a peer's signature.
    peers : callable
        Gives the names of the peers, as they are now: clients keep no ledger.
    """

    def __init__(
        self, ledger: Ledger, name: str, sign: Signer, check: Checker, peers: Callable[[], Container[str]]
    ) -> None:
        self.ledger, self.name = ledger, name
        self._sign, self._check, self._peers = sign, check, peers
        self._counterparts: dict[str, Counterpart] = {}
        self._lock = Lock()  # answers are noted while statements are made, on another thread
        self._load()

    def note_received(self, peer: str, record: Record) -> None:
        """A peer's reply was recorded."""
        with self._lock:
            waiting = self._counterpart(peer).received
            waiting.append(record.digest)
            if len(waiting) > KEPT:
                waiting.popleft()

    def note_answered(self, peer: str, record: Record) -> None:
        """An answer to a peer was recorded."""
        if peer in self._peers():
            with self._lock:
                waiting = self._counterpart(peer).answered
                waiting[record.digest] = Answered(record.at, record.question, record.kind, record.rows)
                if len(waiting) > KEPT:
                    waiting.popitem(last=False)

    def is_due(self, peer: str, seconds: float) -> bool:
        """Whether something is to be stated to a peer: something is new, and the last statement is a while ago."""
        known = self._counterpart(peer)
        return time.monotonic() - known.stated >= seconds and (not known.is_met or bool(known.received))

    def make_statement(self, peer: str) -> wire.Signed:
        """What is recorded here of a peer's answers since the last statement; the ledger is on the disk by then."""
        known = self._counterpart(peer)
        known.stated = time.monotonic()
        head = self.ledger.make_durable()
        with self._lock:
            digests = [bytes.fromhex(digest) for digest in islice(known.received, MOST)]
        statement = wire.Statement(
            caller=self.name, callee=peer, at=time.time(), digests=b"".join(digests),
            head=wire.ChainHead(number=head.number, hash=head.hash),
        )  # fmt: skip
        return self._signed(statement.SerializeToString())

    def accept(self, peer: str, statement: wire.Signed, reply: wire.Signed) -> list[str]:
        """Keep a peer's receipt for a statement; what it shows to be wrong with either ledger, in sentences."""
        receipt = parse_signed(wire.Receipt, self._open(reply, peer))
        stated = wire.Statement.FromString(statement.content)
        if receipt.statement != sha256(statement.content).digest():
            raise Malformed("a receipt must be for the statement that was made; it is for another")
        digests, known = split_digests(stated.digests), self._counterpart(peer)
        unknown = set(receipt.unknown)
        if any(place >= len(digests) for place in unknown):
            raise Malformed("a receipt must be for exchanges that were stated; it is for others")
        with self._lock:
            for _ in digests:
                known.received.popleft()
        known.is_met = True
        found = self._compare(peer, receipt)
        if unknown:
            told = f"{peer} has no record of {len(unknown)} of {len(digests)} exchanges that it answered"
            self.ledger.note(NOT_THERE, told)
            found.append(told)
        if digests or found:
            self._keep(peer, OUT, statement, reply, len(digests))
        return found

    def countersign(self, peer: str, statement: wire.Signed) -> tuple[wire.Signed, list[str]]:
        """The receipt for a peer's statement; and what that shows to be wrong with its ledger, in sentences."""
        content = self._open(statement, peer)
        stated = parse_signed(wire.Statement, content)
        if (stated.caller, stated.callee) != (peer, self.name) or not abs(stated.at - time.time()) < LATE:
            raise Malformed(f"A statement must be by {peer!r} to {self.name!r}, made now; it is another.")
        digests, known, found = split_digests(stated.digests), self._counterpart(peer), []
        head, own = Head(stated.head.number, stated.head.hash), self.ledger.make_durable()
        with self._lock:
            unknown = [place for place, digest in enumerate(digests) if known.answered.pop(digest, None) is None]
            unclaimed = _take_unclaimed(known)
        unknown = self._look_up(peer, digests, unknown) if unknown else []
        receipt = wire.Receipt(
            statement=sha256(content).digest(), at=time.time(), unknown=unknown, unclaimed=unclaimed,
            head=wire.ChainHead(number=own.number, hash=own.hash),
        )  # fmt: skip
        if known.known is not None:
            receipt.known.CopyFrom(wire.ChainHead(number=known.known.number, hash=known.known.hash))
            if head.number < known.known.number or (head.number == known.known.number and head != known.known):
                told = f"{peer} had record {known.known.number} before, and now ends with {head.number}"
                self.ledger.note(GONE_BACK, told, known.known.hash.hex())
                found.append(told)
        signed = self._signed(receipt.SerializeToString())
        if unknown:
            told = f"{peer} states {len(unknown)} exchanges that are not in this ledger"
            self.ledger.note(NOT_HERE, told)
            found.append(told)
        if digests or found:
            self._keep(peer, IN, statement, signed, len(digests))
        known.known = head
        return signed, found

    def _compare(self, peer: str, receipt: wire.Receipt) -> list[str]:
        """What a peer knows of this ledger that is not in it."""
        found = []
        if receipt.HasField("known"):
            number, hashed = receipt.known.number, receipt.known.hash
            if not is_in_chain(self.ledger, Head(number, hashed)):
                told = f"{peer} holds our signature of record {number}, which is not here: it was cut or changed"
                self.ledger.note(GONE_BACK, told, hashed.hex())
                found.append(told)
        lost = [each for each in receipt.unclaimed if not self._has_asked(peer, each.question)]
        if lost:
            first = ", ".join(f"{each.kind[:32]!r} of question {each.question[:32]!r}" for each in lost[:SHOWN])
            told = f"{peer} answered {len(lost)} requests that are not in this ledger: {first}"
            told += ", and others" if len(lost) > SHOWN else ""
            self.ledger.note(NOT_HERE, told)
            found.append(told)
        return found

    def _look_up(self, peer: str, digests: Sequence[str], places: Sequence[int]) -> list[int]:
        """Those of the places whose exchanges are not in the ledger either: they may have been stated before."""
        known = self._counterpart(peer)
        if time.monotonic() - known.looked_up < UNKNOWN_SECONDS:
            raise Malformed(
                f"A statement of exchanges that are not here must not follow another in {UNKNOWN_SECONDS:g} s."
            )
        known.looked_up = time.monotonic()
        statement = "SELECT lower(hex(digest)) FROM records WHERE peer = ? AND direction = 'in' AND length(digest) > 0"
        recorded = {digest for (digest,) in self.ledger.execute(statement, (peer,))}
        return [place for place in places if digests[place] not in recorded]

    def _has_asked(self, peer: str, question: str) -> bool:
        return bool(self.ledger.execute(HAS_ASKED, (question, peer)))

    def _keep(self, peer: str, direction: str, statement: wire.Signed, reply: wire.Signed, exchanges: int) -> None:
        """Keep a receipt, with a record of it in the chain; certificates are kept once."""
        stored = [self._without_certificate(each).SerializeToString() for each in (statement, reply)]
        told = f"for {exchanges} exchanges"
        record = self.ledger.record_receipt(peer, RECEIPT, direction, told, digest_receipt(*stored))
        self.ledger.execute(
            "INSERT INTO receipts VALUES (?, ?, ?, ?, ?, ?)", (record.number, record.at, peer, direction, *stored)
        )

    def _without_certificate(self, message: wire.Signed) -> wire.Signed:
        fingerprint = self.ledger.keep_certificate(message.certificate)
        return wire.Signed(content=message.content, signature=message.signature, certificate=fingerprint)

    def _signed(self, content: bytes) -> wire.Signed:
        signature, certificate = self._sign(RECEIPT_CONTEXT, content)
        return wire.Signed(protocol=PROTOCOL, content=content, signature=signature, certificate=certificate)

    def _open(self, message: wire.Signed, peer: str) -> bytes:
        """What a peer has signed."""
        self._check(RECEIPT_CONTEXT, message.content, message.signature, message.certificate, peer)
        return message.content

    def _counterpart(self, peer: str) -> Counterpart:
        return self._counterparts.setdefault(peer, Counterpart())

    def _load(self) -> None:
        """Take up where the ledger ends: what was not confirmed before the node was stopped."""
        stated: dict[str, set[str]] = {IN: set(), OUT: set()}
        for peer, direction, content in self.ledger.execute(
            "SELECT peer, direction, statement FROM receipts ORDER BY number"
        ):
            told = wire.Statement.FromString(wire.Signed.FromString(content).content)
            stated[direction].update(split_digests(told.digests))
            if direction == IN:
                self._counterpart(peer).known = Head(told.head.number, told.head.hash)
        for record in map(Record._make, self.ledger.execute(f"{SELECT_RECORDS} {WITH_DIGESTS}", (RECEIPT,))):
            known = self._counterpart(record.peer)
            if record.digest in stated[record.direction]:
                continue
            if record.direction == OUT:
                known.received.append(record.digest)
            elif record.at >= time.time() - DAY:
                known.answered[record.digest] = Answered(record.at, record.question, record.kind, record.rows)


Message = TypeVar("Message", wire.Statement, wire.Receipt)


def parse_signed(kind: type[Message], content: bytes) -> Message:
    """What a peer has signed, if it is that."""
    try:
        message: Message = kind.FromString(content)
    except DecodeError as error:
        raise Malformed("What is signed must be a statement or a receipt; it is neither.") from error
    return message


def _take_unclaimed(known: Counterpart) -> list[wire.Unclaimed]:
    """What a peer was answered and has not stated for a while; it is told once."""
    found, now = list[wire.Unclaimed](), time.time()
    while known.answered and len(found) < MOST:
        digest, oldest = next(iter(known.answered.items()))
        if now - oldest.at < PATIENCE:
            break
        del known.answered[digest]
        found.append(wire.Unclaimed(question=oldest.question, kind=oldest.kind, rows=oldest.rows, at=oldest.at))
    return found


def is_in_chain(ledger: Ledger, head: Head) -> bool:
    """Whether a ledger has a record with that number and hash; one that has expired is taken to be right."""
    found = ledger.execute("SELECT hash FROM records WHERE number = ?", (head.number,))
    expired = ledger.execute("SELECT coalesce(max(number), 0) FROM checkpoint")[0][0]
    return head.number <= expired or bool(found and found[0][0] == head.hash)


def split_digests(joined: bytes) -> Sequence[str]:
    """The digests of exchanges in a statement."""
    if len(joined) % DIGEST_BYTES or len(joined) > MOST * DIGEST_BYTES:
        raise Malformed(f"A statement must have up to {MOST} digests of {DIGEST_BYTES} bytes; it has not.")
    return [joined[start : start + DIGEST_BYTES].hex() for start in range(0, len(joined), DIGEST_BYTES)]


def digest_receipt(statement: bytes, reply: bytes) -> str:
    """What the chain holds of a receipt, as it is stored."""
    return sha256(sha256(statement).digest() + reply).hexdigest()


def decode_receipt(statement: bytes, reply: bytes) -> tuple[wire.Signed, wire.Statement, wire.Signed, wire.Receipt]:
    """What a stored receipt says, signed by both sides."""
    try:
        stated, received = wire.Signed.FromString(statement), wire.Signed.FromString(reply)
        return stated, wire.Statement.FromString(stated.content), received, wire.Receipt.FromString(received.content)
    except DecodeError as error:
        raise InvalidInput("A receipt must be a statement and a reply; it is neither.") from error
