"""Searching the ledger: questions with all their exchanges, the newest first; what is part of no question, by day."""

import json
import re
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from sqlite3 import Connection
from typing import Any, NamedTuple

from degroot.exceptions import InvalidInput
from degroot.node.records.chain import OUT
from degroot.node.records.ledger import ASKED_AT_PAGE, DAY, opened
from degroot.node.records.receipts import MOST, RECEIPT, decode_receipt, split_digests

QUESTION = re.compile("[0-9a-f]{16}", re.ASCII)  # the number of one, which is found at once
PAST_ALL = (1 << 63) - 1  # no record has such a number, and no day
IN_QUESTION = "question != ''"  # told beside every `question = ?`: the index has only these
SUMS = 'sum(exchanges), sum("rows"), sum(sent), sum(received)'
RECORDS, TOTALS = "records", "totals"
TEXTS = {RECORDS: ("peer", "kind", "asker", "purpose", "question"), TOTALS: ("peer", "kind")}
TIMES = {RECORDS: ("at", "at"), TOTALS: ("last", "first")}
RECORD = (
    'SELECT number, at, peer, kind, direction, exchanges, "rows", sent, received, purpose, lower(hex(digest)), '
    "question, asker FROM records"
)
TOTAL = (  # of a day that has expired
    "SELECT NULL, last, peer, kind, direction, exchanges, \"rows\", sent, received, '', '', '', '' FROM totals"
)
DAYS = f"""
SELECT day, kind, expired, count(*), {SUMS}, min(first), max(last), json_group_array(DISTINCT peer) FROM (
    SELECT CAST(at / {DAY} AS INTEGER) AS day, kind, 0 AS expired, exchanges, "rows", sent, received, at AS first,
        at AS last, peer FROM records WHERE question = '' AND {{}}
    UNION ALL
    SELECT day, kind, 1, exchanges, "rows", sent, received, first, last, peer FROM totals WHERE {{}}
) WHERE day < ? GROUP BY day, kind, expired ORDER BY day DESC, expired, kind
"""
IS_PERSON = f"{IN_QUESTION} AND peer = '' AND kind = '{ASKED_AT_PAGE}'"  # who has asked: one note of a question
ASKED_BY_PERSON = f"SELECT question FROM records WHERE {IS_PERSON} AND purpose {{}}"
SPARE_RECEIPTS = 2  # that are looked at after the one that should have an exchange


class FoundRecord(NamedTuple):
    """One record, or the total of a kind with a peer in a day that has expired, which has no number."""

    number: int | None
    at: float  # seconds since 1970; of a total: the last
    peer: str
    kind: str
    direction: str
    exchanges: int
    rows: int
    sent: int
    received: int
    told: str  # the purpose; of a note or a receipt: what it says
    digest: str
    question: str
    asker: str

    @property
    def is_reply(self) -> bool:
        """Whether it is a peer's answer, which the peer can confirm."""
        return bool(self.peer and self.digest) and self.direction == OUT and self.kind != RECEIPT


@dataclass(frozen=True, slots=True)
class RecordGroup:
    """Records that belong together: those of a question, or of a kind and a day."""

    records: int
    exchanges: int
    rows: int
    sent: int
    received: int
    first: float  # seconds since 1970
    last: float
    peers: tuple[str, ...]
    kinds: tuple[str, ...]
    question: str = ""
    asker: str = ""
    purpose: str = ""
    person: str = ""  # who asked at this node's page
    replies: int = 0  # which peers can confirm
    confirmed: int = 0  # of these, by receipts
    day: int | None = None  # since 1970, in UTC; None: it is a question
    is_expired: bool = False  # whether only totals are left of it


@dataclass(frozen=True, slots=True)
class FilterTotals:
    """What all that is looked for comes to."""

    questions: int
    exchanges: int
    rows: int
    sent: int
    received: int
    first: float | None
    last: float | None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is looked for; None: whatever it is."""

    text: str | None = None  # a part of the peer's name, the kind, the asker, the purpose, the person or the number
    peer: str | None = None
    kind: str | None = None  # with a minus: all but this one
    direction: str | None = None
    since: float | None = None  # seconds since 1970
    until: float | None = None

    def condition(self, table: str) -> tuple[str, list[Any]]:
        """What SQL calls it, with the values of its question marks."""
        (last, first), texts = TIMES[table], " || ' ' || ".join(TEXTS[table])
        sign, kind = ("!=", self.kind[1:]) if self.kind and self.kind.startswith("-") else ("=", self.kind)
        text, number = (None, self.text) if self.text and QUESTION.fullmatch(self.text) else (self.text, None)
        like = "LIKE ? ESCAPE '\\'"
        matches = f"({texts}) {like}"
        if table == RECORDS:
            matches = f"({matches} OR question IN ({ASKED_BY_PERSON.format(like)}))"
        parts = {
            f"question = ? AND {IN_QUESTION}" if table == RECORDS else "? IS NULL": number,
            "peer = ?": self.peer,
            f"kind {sign} ?": kind,
            "direction = ?": self.direction,
            f"{last} >= ?": self.since,
            f"{first} <= ?": self.until,
            matches: None if text is None else _like(text),
        }
        known = {clause: value for clause, value in parts.items() if value is not None}
        values = [value for clause, value in known.items() for _ in range(clause.count("?"))]
        return " AND ".join(known) or "true", values


def find_questions(path: Path, wanted: Wanted, before: int | None, limit: int) -> tuple[list[RecordGroup], int | None]:
    """Questions by their newest records that are wanted, from before one on; and where the next ones begin, if any do.

    What is told of a question is of those of its records that are wanted, but for who has asked at the page.
    """
    with opened(path) as connection:
        placed = list(islice(_walk_questions(connection, wanted, before), limit + 1))
        found = _describe_questions(connection, wanted, [question for _, question in placed[:limit]])
    return found, placed[limit - 1][0] if len(placed) > limit else None


def _walk_questions(connection: Connection, wanted: Wanted, before: int | None) -> Iterator[tuple[int, str]]:
    """The newest record of each question, and the question."""
    where, values = wanted.condition(RECORDS)
    of_question = f"SELECT 1 FROM records WHERE question = ? AND {IN_QUESTION} AND number >= ? AND {where} LIMIT 1"
    walk = f"SELECT number, question FROM records WHERE {IN_QUESTION} AND number < ? AND {where} ORDER BY number DESC"
    seen: set[str] = set()
    for number, question in connection.execute(walk, [PAST_ALL if before is None else before, *values]):
        if question in seen:
            continue
        seen.add(question)
        if before is None or connection.execute(of_question, [question, before, *values]).fetchone() is None:
            yield number, question


def _describe_questions(connection: Connection, wanted: Wanted, questions: Sequence[str]) -> list[RecordGroup]:
    where, values = wanted.condition(RECORDS)
    among = f"question IN ({', '.join('?' * len(questions))}) AND {IN_QUESTION}"
    records: dict[str, list[FoundRecord]] = {question: [] for question in questions}
    for row in connection.execute(f"{RECORD} WHERE {among} AND {where}", [*questions, *values]):
        found = FoundRecord(*row)
        records[found.question].append(found)
    confirmed = _find_confirmed(connection, [each for of in records.values() for each in of if each.is_reply])
    people = dict(
        connection.execute(f"SELECT question, purpose FROM records WHERE {among} AND {IS_PERSON}", questions).fetchall()
    )
    return [_describe_question(of, people.get(question, ""), confirmed) for question, of in records.items()]


def _describe_question(records: Sequence[FoundRecord], person: str, confirmed: Container[str]) -> RecordGroup:
    times, replies = [each.at for each in records], [each.digest for each in records if each.is_reply]
    first = next((each for each in records if each.peer), records[0])
    return RecordGroup(
        len(records), *_add_up(records), min(times), max(times), _distinct(each.peer for each in records),
        _distinct(each.kind for each in records if each.peer), first.question, first.asker,
        first.told if first.peer else "", person, len(replies), sum(digest in confirmed for digest in replies),
    )  # fmt: skip


def _add_up(records: Sequence[FoundRecord]) -> tuple[int, int, int, int]:
    """Exchanges, rows, bytes sent and received."""
    columns = zip(*((each.exchanges, each.rows, each.sent, each.received) for each in records), strict=True)
    exchanges, rows, sent, received = map(sum, columns)
    return exchanges, rows, sent, received


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    """Names that there are, each once."""
    return tuple(sorted({name for name in names if name}))


def find_days(path: Path, wanted: Wanted, before: int | None, limit: int) -> tuple[list[RecordGroup], int | None]:
    """What is part of no question, by day and kind, whole days from before one on; and where the next ones begin."""
    (where, values), (where_total, values_total) = wanted.condition(RECORDS), wanted.condition(TOTALS)
    with opened(path) as connection:
        rows = connection.execute(
            DAYS.format(where, where_total), [*values, *values_total, PAST_ALL if before is None else before]
        ).fetchall()
    found: list[RecordGroup] = []
    for day, kind, expired, count, exchanges, rows_, sent, received, first, last, peers in rows:
        if len(found) >= limit and day != found[-1].day:
            return found, found[-1].day
        sums = (count, exchanges, rows_, sent, received, first, last)
        found.append(RecordGroup(*sums, _distinct(json.loads(peers)), (kind,), day=day, is_expired=bool(expired)))
    return found, None


@dataclass(frozen=True, slots=True)
class GroupPlace:
    """A group whose records are looked for: a question, or a day and a kind."""

    question: str = ""
    day: int | None = None
    kind: str = ""
    is_expired: bool = False

    def condition(self) -> tuple[str, str, list[Any]]:
        """The table, and what SQL calls it there, with the values of its question marks."""
        if self.question:
            return RECORDS, f"question = ? AND {IN_QUESTION}", [self.question]
        if self.day is None or abs(self.day) > PAST_ALL // DAY:
            raise InvalidInput("Records must be looked for with the number of a question, or with a day and a kind.")
        if self.is_expired:
            return TOTALS, "day = ? AND kind = ?", [self.day, self.kind]
        span = f"CAST(at / {DAY} AS INTEGER) = ?"
        return RECORDS, f"question = '' AND {span} AND kind = ?", [self.day, self.kind]


def find_records(
    path: Path, wanted: Wanted, place: GroupPlace, offset: int, limit: int
) -> tuple[int, list[FoundRecord], set[str]]:
    """How many records of a group are wanted, so many of them from a place on, and the digests that are confirmed."""
    table, within, keys = place.condition()
    where, values = wanted.condition(table)
    select, order = (RECORD, "number") if table == RECORDS else (TOTAL, "peer, direction")
    asked = f"{within} AND {where}"
    with opened(path) as connection:
        (total,) = connection.execute(
            f"SELECT count(*) FROM (SELECT 1 FROM {table} WHERE {asked} LIMIT -1)", [*keys, *values]
        ).fetchone()  # limited, or else SQLite makes one query of both, and does not use the index
        page = f"{select} WHERE {asked} ORDER BY {order} LIMIT ? OFFSET ?"
        found = [FoundRecord(*row) for row in connection.execute(page, [*keys, *values, limit, offset])]
        return total, found, _find_confirmed(connection, [each for each in found if each.is_reply])


def add_up(path: Path, wanted: Wanted) -> FilterTotals:
    """What all that is wanted comes to, in questions or not, with what has expired."""
    (where, values), (where_total, values_total) = wanted.condition(RECORDS), wanted.condition(TOTALS)
    single = f'SELECT exchanges, "rows", sent, received, at AS first, at AS last, question FROM {{}} WHERE {where}'
    with opened(path) as connection:  # of the tables by themselves, not of the view: that takes longer
        questions, exchanges, rows, sent, received, first, last = connection.execute(
            f"SELECT count(DISTINCT nullif(question, '')), {SUMS}, min(first), max(last) FROM ("
            f"{single.format('main.records')} UNION ALL {single.format('temp.waiting')} UNION ALL "
            f"SELECT exchanges, \"rows\", sent, received, first, last, '' FROM totals WHERE {where_total})",
            [*values, *values, *values_total],
        ).fetchone()
    return FilterTotals(questions, exchanges or 0, rows or 0, sent or 0, received or 0, first, last)


def _find_confirmed(connection: Connection, replies: Iterable[FoundRecord]) -> set[str]:
    """Those of the digests that are in receipts of peers for what this node has stated.

    Exchanges are stated in their order, up to `MOST` at a time, with the newest link of the ledger: an exchange is in
    one of the first receipts behind it, or in none.
    """
    confirmed: set[str] = set()
    of_peers: dict[str, dict[str, int]] = {}
    for each in replies:
        of_peers.setdefault(each.peer, {})[each.digest] = each.number or 0
    for peer, numbers in of_peers.items():
        past = 0
        for stored in connection.execute(
            "SELECT statement, reply FROM receipts WHERE number > ? AND peer = ? AND direction = ? ORDER BY number",
            (min(numbers.values()), peer, OUT),
        ):
            try:
                _, statement, _, receipt = decode_receipt(*stored)
                digests, unknown = split_digests(statement.digests), set(receipt.unknown)
            except InvalidInput:  # which is a finding where the ledger is verified
                continue
            confirmed |= {digest for place, digest in enumerate(digests) if digest in numbers and place not in unknown}
            past += statement.head.number >= max(numbers.values()) and len(digests) < MOST
            if past > SPARE_RECEIPTS:
                break
    return confirmed


def _like(text: str) -> str:
    for sign in ("\\", "%", "_"):
        text = text.replace(sign, f"\\{sign}")
    return f"%{text}%"
