"""Searching the ledger: single exchanges, the newest first; after those, the totals of days that were folded."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from degroot.node.records.ledger import opened

# with the number, by which SQLite then merges the exchanges with those in the journal instead of sorting all of them
SINGLE = 'SELECT at, peer, kind, direction, exchanges, "rows", sent, received, number FROM records'
DAYS = 'SELECT last AS at, peer, kind, direction, exchanges, "rows", sent, received, NULL FROM totals'
ORDERS = {SINGLE: "number DESC", DAYS: "last DESC, peer, kind, direction"}
TIMES = {SINGLE: ("at", "at"), DAYS: ("last", "first")}


class Exchange(NamedTuple):
    """One exchange, or all of a kind with a peer in a day."""

    at: float
    peer: str
    kind: str
    direction: str
    exchanges: int
    rows: int
    sent: int
    received: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is looked for; None: whatever it is."""

    text: str | None = None  # a part of the peer's name or of the kind
    peer: str | None = None
    kind: str | None = None  # with a minus: all but this one
    direction: str | None = None
    since: float | None = None  # seconds since 1970
    until: float | None = None

    def condition(self, table: str) -> tuple[str, list[Any]]:
        """What SQL calls it, with the values of its question marks."""
        last, first = TIMES[table]
        sign, kind = ("!=", self.kind[1:]) if self.kind and self.kind.startswith("-") else ("=", self.kind)
        parts = {
            "peer = ?": self.peer,
            f"kind {sign} ?": kind,
            "direction = ?": self.direction,
            f"{last} >= ?": self.since,
            f"{first} <= ?": self.until,
            r"(peer || ' ' || kind) LIKE ? ESCAPE '\'": None if self.text is None else _like(self.text),
        }
        known = {clause: value for clause, value in parts.items() if value is not None}
        return (f" WHERE {' AND '.join(known)}" if known else ""), list(known.values())


def search(path: Path, wanted: Wanted, offset: int, limit: int) -> tuple[int, list[Exchange]]:
    """How many there are, and so many of them from a place on."""
    total = 0
    found: list[Exchange] = []
    with opened(path) as connection:
        for table, order in ORDERS.items():
            where, values = wanted.condition(table)
            (count,) = connection.execute(f"SELECT count(*) FROM ({table}{where})", values).fetchone()
            skip, left = max(0, offset - total), limit - len(found)
            if left > 0 and skip < count:
                page = f"{table}{where} ORDER BY {order} LIMIT ? OFFSET ?"
                found += [Exchange(*row[:-1]) for row in connection.execute(page, [*values, left, skip])]
            total += count
    return total, found


def _like(text: str) -> str:
    for sign in ("\\", "%", "_"):
        text = text.replace(sign, f"\\{sign}")
    return f"%{text}%"
