"""Totals of the ledger: what has left this organisation and what has come, by peer and kind, read from the ledger.

A ledger can hold a million exchanges. They are added up once; after that only new ones are.
"""

from pathlib import Path
from typing import Any

from degroot.node.page.encoding import moment
from degroot.node.records.ledger import ASKED_BY, SUMMARY, LedgerEntry, make_entry, opened

FIRST = "SELECT coalesce(min(number), 0) FROM main.records"
LAST = "SELECT coalesce(max(number), 0) FROM main.records"
GROUPED = """
SELECT peer, kind, direction, sum(exchanges), sum("rows"), sum(sent), sum(received), min(at), max(at)
FROM {} AND peer != '' GROUP BY peer, kind, direction
"""
NEW = GROUPED.format("main.records WHERE number > ?")
WAITING = GROUPED.format("temp.waiting WHERE true")  # in the journal
MOVED_SUMMARY = SUMMARY.replace("FROM records", "FROM main.records")

Totals = dict[tuple[str, str, str], list[Any]]  # exchanges, rows, sent, received, first, last


class LedgerTotals:
    """Totals of all exchanges, kept up to date. To be read by one thread at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._totals: Totals = {}
        self._until = -1  # the last exchange that is added up

    def read(self) -> list[LedgerEntry]:
        """One entry for each peer, kind and direction."""
        with opened(self._path) as connection:
            (first,), (last,) = connection.execute(FIRST).fetchone(), connection.execute(LAST).fetchone()
            if self._until < 0 or last < self._until or first > self._until + 1:  # or some were folded unseen
                self._totals = {}
                found = connection.execute(MOVED_SUMMARY)
            else:
                found = connection.execute(NEW, (self._until,))
            for peer, kind, direction, *numbers in found:
                _add(self._totals, (peer, kind, direction), numbers)
            self._until = last
            totals = dict(self._totals)
            for peer, kind, direction, *numbers in connection.execute(WAITING):
                _add(totals, (peer, kind, direction), numbers)
        return [make_entry(*key, *numbers) for key, numbers in sorted(totals.items())]


def _add(totals: Totals, key: tuple[str, str, str], new: list[Any]) -> None:
    total = totals.get(key)
    if total is None:
        totals[key] = new
    else:
        *sums, first, last = zip(total, new, strict=True)
        totals[key] = [*map(sum, sums), min(first), max(last)]


def describe_entry(entry: LedgerEntry) -> dict[str, Any]:
    """One entry, ready to be encoded."""
    return {
        "peer": entry.peer, "kind": entry.kind, "asked_by": ASKED_BY[entry.direction], "exchanges": entry.exchanges,
        "rows": entry.rows, "sent": entry.sent, "received": entry.received,
        "first": moment(entry.first.timestamp()), "last": moment(entry.last.timestamp()),
    }  # fmt: skip
