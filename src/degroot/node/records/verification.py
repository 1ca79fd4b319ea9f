"""Verification: whether a ledger is as it was written, and whether it agrees with its peers'.

What is checked by itself: every record's hash and number, the signatures of head, checkpoints and receipts, and that
what was signed is there. What two ledgers are checked for: every exchange that one has recorded as answered is in the
other, with the same digest, and neither ends before, or goes otherwise than, what it has signed for the other.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

from degroot.exceptions import InvalidInput
from degroot.node.records.chain import GENESIS, IN, OUT, Record, digest_receipt, is_linked
from degroot.node.records.export import (
    LedgerContent,
    StoredReceipt,
    format_time,
    is_stated_here,
)
from degroot.node.records.ledger import (
    DAMAGED_LINES,
    DAY,
    LOST,
    SET_ASIDE,
    Head,
    describe_checkpoint,
    describe_head,
    digest_totals,
)
from degroot.node.records.receipts import (
    GONE_BACK,
    NOT_HERE,
    NOT_THERE,
    PEER_GONE_BACK,
    RECEIPT,
    decode_receipt,
    split_digests,
)
from degroot.node.tls.signing import LEDGER_CONTEXT, RECEIPT_CONTEXT, Checker

ALARMS = (SET_ASIDE, DAMAGED_LINES, LOST, GONE_BACK)  # notes that are findings by themselves
DISPUTES = (PEER_GONE_BACK, NOT_HERE, NOT_THERE)  # notes of what peers say, who may be wrong
PROVED = ("at", "peer", "direction", "digest")  # of a receipt, by its record
CLOCK_SECONDS = 60.0  # by which a clock may be set back
SHOWN = 20  # findings of a kind that are told one by one


@dataclass(frozen=True, slots=True)
class Verification:
    """What was found wrong with a ledger, in sentences, and how much was looked at."""

    name: str
    findings: tuple[str, ...]
    records: int = 0
    first: float | None = None  # seconds since 1970
    last: float | None = None
    receipts: int = 0
    confirmed: int = 0  # exchanges that this node made, and a peer has signed for
    unconfirmed: int = 0  # for which there is no receipt yet
    unsigned: int = 0  # records after the newest that is signed
    is_signed: bool = False
    peer: str | None = None  # whose exchanges it has only
    disputes: tuple[str, ...] = ()  # what peers say of this ledger, or theirs show, in sentences
    uncompared: int = 0  # exchanges with the others that were too early or too late for their exports

    @property
    def is_whole(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    def __str__(self) -> str:
        if self.first is None or self.last is None:
            return f"The ledger of {self.name} has no records."
        signed = "signed by its node" if self.is_signed else "not signed"
        signed += f" but for the newest {self.unsigned:,}" if self.is_signed and self.unsigned else ""
        if self.peer is not None:
            signed = f"exchanges with {self.peer} only, whose chain cannot be checked"
        return (
            f"{self.records:,} records of {self.name}, {format_time(self.first)} to {format_time(self.last)}, {signed};"
            " "
            f"{self.receipts:,} receipts; of the exchanges that it made, {self.confirmed:,} are confirmed by peers, "
            f"{self.unconfirmed:,} not yet."
        )


@dataclass(frozen=True, slots=True)
class ExchangeSeen:
    """One exchange as a ledger has it."""

    number: int
    at: float
    kind: str
    rows: int
    question: str
    asker: str
    purpose: str

    def __str__(self) -> str:
        about = f" about {self.rows} rows" if self.rows else ""
        return f"{self.kind}{about}, question {self.question or 'without a number'}, record {self.number}"


@dataclass(slots=True)
class Walk:
    """What is found in one pass over the records of a ledger."""

    findings: list[str] = field(default_factory=list)
    disputes: list[str] = field(default_factory=list)
    count: int = 0
    first: Record | None = None
    last: Record | None = None
    hashes: dict[int, str] = field(default_factory=dict)  # of the records that were asked for, by number
    receipts: dict[int, Record] = field(default_factory=dict)  # records of receipts, by number
    answered: dict[str, dict[str, ExchangeSeen]] = field(default_factory=dict)  # to each peer, by digest
    replies: dict[str, dict[str, ExchangeSeen]] = field(default_factory=dict)  # of each peer, by digest
    requests: dict[str, dict[str, int]] = field(default_factory=dict)  # to each peer: rows by question


def walk_records(records: Iterable[Record], start: Head | None, wanted: Iterable[int] = ()) -> Walk:
    """Check the chain of records, which begins after `start`; keep the hashes of those that are wanted.

    Without a start there is no chain: records are of one peer only.
    """
    walk, numbers = Walk(), set(wanted)
    expected, before = (start.number + 1, start.hash.hex()) if start is not None else (0, "")
    for record in records:
        walk.count += 1
        walk.first = walk.first or record
        if start is None:
            pass
        elif record.number > expected:
            missing = _count_records(expected, record.number - 1)
            walk.findings.append(f"{missing} missing, before record {record.number} of {format_time(record.at)}")
        elif record.number < expected:
            walk.findings.append(f"record {record.number} of {format_time(record.at)} is out of order")
        elif not is_linked(record, before):
            told = f"record {record.number} of {format_time(record.at)}, {_describe(record)}"
            walk.findings.append(f"{told}, was changed after it was written, or the one before it was")
        expected, before, walk.last = record.number + 1, record.hash, record
        if record.number in numbers:
            walk.hashes[record.number] = record.hash
        _sort(walk, record)
    return walk


def _count_records(first: int, last: int) -> str:
    return f"record {first} is" if first == last else f"records {first} to {last} are"


def _describe(record: Record) -> str:
    if not record.peer:
        return f"a note ({record.kind})"
    return f"{record.kind} {'from' if record.direction == IN else 'to'} {record.peer}"


def _sort(walk: Walk, record: Record) -> None:
    """Put a record where it is looked for later."""
    if not record.peer:
        told = f"on {format_time(record.at)} the node noted: {record.kind}: {record.purpose}"
        walk.findings.extend([told] if record.kind in ALARMS else [])
        walk.disputes.extend([told] if record.kind in DISPUTES else [])
        return
    if record.kind == RECEIPT:
        if record.digest:
            walk.receipts[record.number] = record
        return
    seen = ExchangeSeen(
        record.number, record.at, record.kind, record.rows, record.question, record.asker, record.purpose
    )
    if record.direction == IN and record.digest:
        walk.answered.setdefault(record.peer, {})[record.digest] = seen
    elif record.direction == OUT and record.digest:
        walk.replies.setdefault(record.peer, {})[record.digest] = seen
    elif record.direction == OUT:
        walk.requests.setdefault(record.peer, {})[record.question] = record.rows


@dataclass(frozen=True, slots=True)
class SignedState:
    """That a node has signed a head of its own ledger, and for whom."""

    head: Head
    at: float
    holder: str


class LedgerVerifier:
    """Checks one ledger, by itself and against others."""

    def __init__(self, content: LedgerContent, check: Checker | None, others: Iterable[LedgerContent] = ()) -> None:
        self.content, self._check = content, check
        self.findings: list[str] = []
        self.walk = Walk()
        self._states = [
            *find_signed_states(content, content.name),
            *(state for other in others for state in find_signed_states(other, content.name, check)),
        ]

    @property
    def start(self) -> Head:
        """The last record that has expired."""
        last = self.content.checkpoint
        return Head(0, GENESIS) if last is None else Head(last.number, _bytes(last.hash))

    def verify(self) -> Verification:
        """Look at all of it."""
        content, head = self.content, self.content.head
        wanted = {state.head.number for state in self._states} | ({head.number} if head is not None else set())
        self.walk = walk_records(content.records, self.start if content.peer is None else None, wanted)
        self.findings += self.walk.findings
        if content.damaged_lines:
            self.findings.append(f"{content.damaged_lines} lines of the journal are damaged")
        confirmed = self._check_receipts()
        if content.peer is None:
            self._check_head()
            self._check_checkpoint()
            self._check_states()
        replies = {digest for found in self.walk.replies.values() for digest in found}
        first, last = self.walk.first, self.walk.last
        newest = max([*(each.at for each in (last, head) if each is not None), 0.0])
        if not newest - CLOCK_SECONDS <= content.exported < math.inf:
            told = f"the export says that it was made at {format_time(content.exported)}, before its newest record"
            self.findings.append(told)
        return Verification(
            content.name, _shorten(self.findings), self.walk.count, first and first.at, last and last.at,
            len(content.receipts), len(replies & confirmed), len(replies - confirmed),
            0 if head is None else max(0, self._last - head.number), head is not None and bool(head.signature),
            content.peer, _shorten(self.walk.disputes),
        )  # fmt: skip

    @property
    def _last(self) -> int:
        """The number of the newest record that is there, or has expired."""
        return self.start.number if self.walk.last is None else self.walk.last.number

    def _check_head(self) -> None:
        head, last = self.content.head, self._last
        if head is None:
            if last:
                self.findings.append("the signed head of the ledger is missing")
            return
        if head.number > last:
            missing = _count_records(last + 1, head.number)
            self.findings.append(
                f"{missing} cut off at the end: the node signed up to record {head.number} at {format_time(head.at)}"
            )
        elif self.walk.hashes.get(head.number, head.hash) != head.hash:
            self.findings.append(f"record {head.number} is not the one that was signed at {format_time(head.at)}")
        message = describe_head(self.content.name, Head(head.number, _bytes(head.hash)), head.at)
        self._check_own_signature("the signed head", message, head.signature, head.certificate)

    def _check_checkpoint(self) -> None:
        """That a signature stands for expired records, and for the totals that are left of them."""
        content, last = self.content, self.content.checkpoint
        if last is None:
            if content.totals:
                self.findings.append("the checkpoint of expired records is missing, and their totals are there")
            return
        if digest_totals(content.totals).hex() != last.totals:
            self.findings.append(f"the totals of expired records, up to record {last.number}, were changed")
        head = Head(last.number, _bytes(last.hash))
        message = describe_checkpoint(content.name, head, last.at, _bytes(last.totals))
        self._check_own_signature("the checkpoint of expired records", message, last.signature, last.certificate)

    def _check_own_signature(self, what: str, message: bytes, signature: str, certificate: str) -> None:
        if not signature and self._check is not None:  # where there is a CA, nodes sign
            self.findings.append(f"{what} is not signed")
        elif signature:
            self._check_signature(what, LEDGER_CONTEXT, message, _bytes(signature), certificate, self.content.name)

    def _check_signature(
        self, what: str, context: bytes, message: bytes, signature: bytes, certificate: str, name: str
    ) -> None:
        if self._check is None:
            return
        pem = self.content.certificates.get(certificate)
        if pem is None or sha256(pem).hexdigest() != certificate:
            self.findings.append(f"the certificate for {what} is missing or was changed")
            return
        try:
            self._check(context, message, signature, pem, name)
        except InvalidInput as error:
            self.findings.append(f"{what} is forged or was changed: {str(error).rstrip('.')}")

    def _check_receipts(self) -> set[str]:
        """That receipts are there, signed by both sides, and for exchanges that are there; which these are."""
        confirmed: set[str] = set()
        expired = self.start.number
        stored = {receipt.number: receipt for receipt in self.content.receipts}
        for number, record in self.walk.receipts.items():
            if number not in stored:
                told = f"the receipt {record.purpose} with {record.peer}, record {number}, is missing"
                self.findings.append(told)
        for receipt in stored.values():
            what = f"the receipt of {format_time(receipt.at)} with {receipt.peer}, record {receipt.number},"
            record_of = self.walk.receipts.get(receipt.number)
            if record_of is None and receipt.number > expired:
                self.findings.append(f"{what} is in no record: it was forged")
                continue
            try:
                digest = digest_receipt(_bytes(receipt.statement), _bytes(receipt.reply))
                confirmed |= self._check_receipt(what, receipt)
            except InvalidInput as error:
                self.findings.append(f"{what} was changed: {str(error).rstrip('.')}")
                continue
            stored_as = receipt.at, receipt.peer, receipt.direction, digest
            if record_of is not None and stored_as != tuple(getattr(record_of, name) for name in PROVED):
                self.findings.append(f"{what} was changed: it is not the one that was recorded")
        return confirmed

    def _check_receipt(self, what: str, receipt: StoredReceipt) -> set[str]:
        """That a receipt is signed by both, and for exchanges that are in the ledger; the digests of these."""
        me, peer = self.content.name, receipt.peer
        signed, statement, answer, reply = decode_receipt(_bytes(receipt.statement), _bytes(receipt.reply))
        caller, callee = (me, peer) if is_stated_here(receipt) else (peer, me)
        if (statement.caller, statement.callee) != (caller, callee):
            self.findings.append(f"{what} is forged: it is between {statement.caller!r} and {statement.callee!r}")
        if reply.statement != sha256(signed.content).digest():
            self.findings.append(f"{what} is forged: it is for another statement")
        for message, signer in ((signed, caller), (answer, callee)):
            fingerprint = message.certificate.hex()
            self._check_signature(what, RECEIPT_CONTEXT, message.content, message.signature, fingerprint, signer)
        places = set(reply.unknown)
        digests = [digest for k, digest in enumerate(split_digests(statement.digests)) if k not in places]
        found = (self.walk.replies if is_stated_here(receipt) else self.walk.answered).get(peer, {})
        lost = [digest for digest in digests if digest not in found]
        if lost and not self._may_have_expired(receipt.at):
            self.findings.append(f"{what} is for {len(lost)} exchanges that are not in the ledger")
        return set(digests) if is_stated_here(receipt) else set()

    def _may_have_expired(self, at: float) -> bool:
        """Whether exchanges of about that time may have been folded into totals."""
        first = self.walk.first
        return self.start.number > 0 and (first is None or at < first.at + DAY)

    def _check_states(self) -> None:
        """That the ledger goes through, and not only up to, all that it has signed for others."""
        last, expired = self._last, self.start.number
        for state in self._states:
            number, told = state.head.number, f"which {self.content.name} signed for {state.holder}"
            when = format_time(state.at)
            if number > last:
                missing = _count_records(last + 1, number)
                self.findings.append(f"{missing} cut off at the end: record {number}, {told} at {when}, is not there")
            elif number > expired and self.walk.hashes.get(number) != state.head.hash.hex():
                self.findings.append(f"record {number} is not the one {told} at {when}: the ledger was changed or cut")


def find_signed_states(content: LedgerContent, name: str, check: Checker | None = None) -> Iterator[SignedState]:
    """The heads of the ledger of `name` that it has signed, as far as receipts in another ledger, or its own, show."""
    for receipt in content.receipts:
        try:
            signed, statement, answer, reply = decode_receipt(_bytes(receipt.statement), _bytes(receipt.reply))
            if name not in (statement.caller, statement.callee):
                continue
            by_name, told = (signed, statement) if statement.caller == name else (answer, reply)
            if check is not None:
                pem = content.certificates.get(by_name.certificate.hex(), b"")
                check(RECEIPT_CONTEXT, by_name.content, by_name.signature, pem, name)
        except InvalidInput:
            continue  # which is a finding where that ledger itself is verified
        holder = receipt.peer if content.name == name else content.name
        yield SignedState(Head(told.head.number, told.head.hash), told.at, holder)


def compare_ledgers(one: LedgerVerifier, other: LedgerVerifier) -> tuple[tuple[str, ...], int]:
    """What two ledgers, which were verified, say of the same exchanges that does not agree, in sentences.

    Also how many exchanges could not be compared, since the other ledger does not go back, or forth, so far.
    """
    found = [*_compare_calls(one, other), *_compare_calls(other, one)]
    disputes = [each for each in found if each]
    return _shorten(disputes), len(found) - len(disputes)


def _compare_calls(caller: LedgerVerifier, callee: LedgerVerifier) -> Iterator[str]:
    """The calls of one node at another; an empty line for each that could not be compared."""
    me, they = caller.content.name, callee.content.name
    replies, requests = caller.walk.replies.get(they, {}), caller.walk.requests.get(they, {})
    answers = callee.walk.answered.get(me, {})
    replied = {each.question for each in replies.values()}
    answered = {each.question for each in answers.values()}
    since = max((each.walk.first.at for each in (caller, callee) if _is_cut(each) and each.walk.first), default=0.0)
    for digest, seen in replies.items():
        if digest in answers:
            other = answers[digest]
            told = (seen.kind, requests.get(seen.question, other.rows), seen.asker, seen.purpose)
            if told != (other.kind, other.rows, other.asker, other.purpose):
                yield f"{me} and {they} disagree about rows, asker or purpose of {other} of {they}"
            continue
        if seen.at > callee.content.exported or seen.at < since:
            yield ""
        elif seen.question and seen.question in answered:
            yield f"{me} and {they} disagree about what they exchanged at {format_time(seen.at)}: {seen} of {me}"
        else:
            yield f"{they} has no record of what {me} got from it at {format_time(seen.at)}: {seen} of {me}"
    for digest, seen in answers.items():
        if digest in replies or seen.question in requests or seen.question in replied:
            continue  # of a request whose reply did not come, or not in time, the caller has no digest
        if seen.at > caller.content.exported or seen.at < since:
            yield ""
        else:
            yield f"{me} has no record of what {they} answered it at {format_time(seen.at)}: {seen} of {they}"


def _is_cut(verifier: LedgerVerifier) -> bool:
    """Whether records have expired."""
    return verifier.start.number > 0


def verify_together(contents: Sequence[LedgerContent], check: Checker | None) -> list[Verification]:
    """Check each ledger by itself and against the others; what two disagree about is a finding of the first.

    `check`: raises where a signature does not hold; None: signatures are not checked.
    """
    verifiers = [
        LedgerVerifier(content, check, [other for other in contents if other is not content]) for content in contents
    ]
    found = [verifier.verify() for verifier in verifiers]
    for place, verifier in enumerate(verifiers):
        for other in verifiers[place + 1 :]:
            disputes, uncompared = compare_ledgers(verifier, other)
            known = found[place]
            found[place] = replace(known, findings=known.findings + disputes, uncompared=known.uncompared + uncompared)
    return found


def _shorten(findings: list[str]) -> tuple[str, ...]:
    more = len(findings) - SHOWN
    return (*findings[:SHOWN], f"and {more:,} more findings") if more > 0 else tuple(findings)


def _bytes(written: str) -> bytes:
    try:
        return bytes.fromhex(written)
    except ValueError as error:
        raise InvalidInput(f"Bytes must be in hexadecimal digits; got {written[:40]!r}.") from error
