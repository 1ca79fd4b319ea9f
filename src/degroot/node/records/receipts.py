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
from degroot.node.protocol.v3 import collective_pb2 as wire
from degroot.node.records.chain import DIGEST_BYTES, IN, LARGEST_COUNT, OUT, Record
from degroot.node.records.ledger import DAY, SELECT_RECORDS, Head, Ledger
from degroot.node.tls.signing import RECEIPT_CONTEXT, Checker, Signer

RECEIPT = "receipt"  # what the exchange of receipts itself is called in ledgers
MOST = 10_000  # exchanges in one statement
KEPT = 100_000  # exchanges with one peer that wait for receipts; the oldest are given up
UNKNOWN_SECONDS = 600.0  # between statements of a peer with exchanges that are not here: they take room, and time
LEAST_SECONDS = 0.05  # between two statements of a peer
MAX_CERTIFICATE_BYTES = 16_384  # with its chain
SHOWN = 3  # of what a peer claims at a time that is noted
PATIENCE = 60.0  # seconds after which an answer that nobody has stated is told to who asked for it
GONE_BACK = "ledger went back"  # this node's own, by its own signature
# what a peer's ledger, or what it says, shows: it may be the peer that is wrong
PEER_GONE_BACK, NOT_THERE, NOT_HERE = "peer's ledger went back", "not in a peer's ledger", "not in this ledger"
HAS_ASKED = "SELECT 1 FROM records WHERE question = ? AND question != '' AND peer = ? AND direction = 'out' LIMIT 1"
WITH_DIGESTS = "WHERE length(digest) > 0 AND kind != ? AND peer != '' ORDER BY number"
LATE = 30 * DAY  # seconds, beyond which a statement's time is not believed


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
    last: wire.Signed | None = None  # the newest statement of the peer
    head: Head | None = None  # the newest link of its chain, as it says there
    last_at: float = -math.inf  # when it made that, by its own clock, and
    countersigned: float = -math.inf  # when it came, as `time.monotonic` counts
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
        self._countersigning = Lock()
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
        found = self._compare(peer, receipt)
        if unknown:
            told = f"{peer} has no record of {len(unknown)} of {len(digests)} exchanges that it answered"
            found.append(self.ledger.note(NOT_THERE, told))
        if digests or found:
            self._keep(peer, OUT, statement, reply, len(digests))
        known.is_met, confirmed = True, set(digests)
        with self._lock:
            while known.received and known.received[0] in confirmed:
                known.received.popleft()
        return found

    def countersign(self, peer: str, statement: wire.Signed) -> tuple[wire.Signed, list[str]]:
        """The receipt for a peer's statement; and what that shows to be wrong with its ledger, in sentences."""
        with self._countersigning:
            return self._countersign(peer, statement)

    def _countersign(self, peer: str, statement: wire.Signed) -> tuple[wire.Signed, list[str]]:
        content, known = self._open(statement, peer), self._counterpart(peer)
        stated = parse_signed(wire.Statement, content)
        if (stated.caller, stated.callee) != (peer, self.name) or not abs(stated.at - time.time()) < LATE:
            raise Malformed(f"A statement must be by {peer!r} to {self.name!r}, made now; it is another.")
        if len(stated.head.hash) != DIGEST_BYTES or stated.head.number > LARGEST_COUNT:
            raise Malformed("A statement must have the number and the hash of a record; it has not.")
        if time.monotonic() - known.countersigned < LEAST_SECONDS:
            raise Malformed(f"Statements must not follow each other in less than {LEAST_SECONDS:g} s; this one does.")
        known.countersigned, found = time.monotonic(), list[str]()
        digests, head = split_digests(stated.digests), Head(stated.head.number, stated.head.hash)
        own = self.ledger.make_durable()
        with self._lock:
            unknown = [place for place, digest in enumerate(digests) if known.answered.pop(digest, None) is None]
            unclaimed = _take_unclaimed(known)
        unknown = self._look_up(peer, digests, unknown) if unknown else []
        receipt = wire.Receipt(
            statement=sha256(content).digest(), at=time.time(), unknown=unknown, unclaimed=unclaimed,
            head=wire.ChainHead(number=own.number, hash=own.hash), known=known.last,
        )  # fmt: skip
        signed = self._signed(receipt.SerializeToString())
        is_newer = stated.at >= known.last_at  # one that was late on its way says nothing new
        if known.head is not None and is_newer and _has_gone_back(known.head, head):
            told = f"{peer} had record {known.head.number} before, and now ends with {head.number}"
            found.append(self.ledger.note(PEER_GONE_BACK, told, known.head.hash.hex()))
        if unknown:
            told = f"{peer} states {len(unknown)} exchanges that are not in this ledger"
            found.append(self.ledger.note(NOT_HERE, told))
        if digests or found:
            self._keep(peer, IN, statement, signed, len(digests))
        if is_newer:
            known.last, known.head, known.last_at = statement, head, stated.at
        return signed, found

    def _compare(self, peer: str, receipt: wire.Receipt) -> list[str]:
        """What a peer knows of this ledger that is not in it: by our own signature, or as the peer claims."""
        found = []
        signed = self._find_signed(receipt.known) if receipt.HasField("known") else None
        if signed is not None and not is_in_chain(self.ledger, signed):
            told = f"{peer} holds our signature of record {signed.number}, which is not here: it was cut or changed"
            found.append(self.ledger.note(GONE_BACK, told, signed.hash.hex()))
        lost = [each for each in receipt.unclaimed if not self._has_asked(peer, each.question)]
        if lost:
            first = ", ".join(f"{each.kind[:32]!r} of question {each.question[:32]!r}" for each in lost[:SHOWN])
            told = f"{peer} claims to have answered {len(lost)} requests that are not in this ledger: {first}"
            told += ", and others" if len(lost) > SHOWN else ""
            found.append(self.ledger.note(NOT_HERE, told))
        return found

    def _find_signed(self, statement: wire.Signed) -> Head | None:
        """The link of our own chain in a statement that a peer says is ours; None: it is not."""
        try:
            stated = parse_signed(wire.Statement, self._open(statement, self.name))
        except InvalidInput:
            return None
        return Head(stated.head.number, stated.head.hash) if stated.caller == self.name else None

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
        signed, answer = (self._without_certificate(each).SerializeToString() for each in (statement, reply))
        self.ledger.record_receipt(peer, RECEIPT, direction, f"for {exchanges} exchanges", signed, answer)

    def _without_certificate(self, message: wire.Signed) -> wire.Signed:
        fingerprint = self.ledger.keep_certificate(message.certificate)
        return wire.Signed(content=message.content, signature=message.signature, certificate=fingerprint)

    def _with_certificate(self, stored: wire.Signed) -> wire.Signed:
        found = self.ledger.execute("SELECT content FROM certificates WHERE fingerprint = ?", (stored.certificate,))
        certificate = found[0][0] if found else b""
        return wire.Signed(content=stored.content, signature=stored.signature, certificate=certificate)

    def _signed(self, content: bytes) -> wire.Signed:
        signature, certificate = self._sign(RECEIPT_CONTEXT, content)
        return wire.Signed(protocol=PROTOCOL, content=content, signature=signature, certificate=certificate)

    def _open(self, message: wire.Signed, peer: str) -> bytes:
        """What a peer has signed."""
        if len(message.certificate) > MAX_CERTIFICATE_BYTES:
            raise Malformed(
                f"A certificate with its chain must have at most {MAX_CERTIFICATE_BYTES} bytes; it has more."
            )
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
            try:
                signed = wire.Signed.FromString(content)
                told = parse_signed(wire.Statement, signed.content)
                stated[direction].update(split_digests(told.digests))
            except (DecodeError, InvalidInput):
                continue  # which is a finding where the ledger is verified
            if direction == IN:
                known = self._counterpart(peer)
                known.last, known.last_at = self._with_certificate(signed), told.at
                known.head = Head(told.head.number, told.head.hash)
        for record in map(Record._make, self.ledger.execute(f"{SELECT_RECORDS} {WITH_DIGESTS}", (RECEIPT,))):
            known = self._counterpart(record.peer)
            if record.digest in stated[record.direction]:
                continue
            if record.direction == OUT:
                known.received.append(record.digest)
                if len(known.received) > KEPT:
                    known.received.popleft()
            elif record.at >= time.time() - DAY and len(known.answered) < KEPT:
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


def _has_gone_back(before: Head, now: Head) -> bool:
    """Whether a chain ends earlier than it did, or otherwise at the same place."""
    return now.number < before.number or (now.number == before.number and now != before)


def is_in_chain(ledger: Ledger, head: Head) -> bool:
    """Whether a ledger has a record with that number and hash; one that has expired is taken to be right."""
    found = ledger.execute("SELECT hash FROM records WHERE number = ?", (min(head.number, LARGEST_COUNT),))
    expired = ledger.execute("SELECT coalesce(max(number), 0) FROM checkpoint")[0][0]
    return head.number <= expired or bool(found and found[0][0] == head.hash)


def split_digests(joined: bytes) -> Sequence[str]:
    """The digests of exchanges in a statement."""
    if len(joined) % DIGEST_BYTES or len(joined) > MOST * DIGEST_BYTES:
        raise Malformed(f"A statement must have up to {MOST} digests of {DIGEST_BYTES} bytes; it has not.")
    return [joined[start : start + DIGEST_BYTES].hex() for start in range(0, len(joined), DIGEST_BYTES)]


def decode_receipt(statement: bytes, reply: bytes) -> tuple[wire.Signed, wire.Statement, wire.Signed, wire.Receipt]:
    """What a stored receipt says, signed by both sides."""
    try:
        stated, received = wire.Signed.FromString(statement), wire.Signed.FromString(reply)
        return stated, wire.Statement.FromString(stated.content), received, wire.Receipt.FromString(received.content)
    except DecodeError as error:
        raise InvalidInput("A receipt must be a statement and a reply; it is neither.") from error
