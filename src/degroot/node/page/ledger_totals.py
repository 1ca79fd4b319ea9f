"""Totals of the ledger: what has left this organisation and what has come, by peer and kind, read from the ledger.

A ledger can hold a million exchanges. They are added up once; after that only new ones are.
"""

from pathlib import Path
from typing import Any

from degroot.node.page.encoding import moment
from degroot.node.records.ledger import ASKED_BY, SUMMARY, LedgerEntry, make_entry, opened

SPAN = "SELECT coalesce(min(id), 0), coalesce(max(id), 0) FROM exchanges"
NEW = """
SELECT peer, kind, direction, count(*), sum("rows"), sum(sent), sum(received), min(at), max(at)
FROM exchanges WHERE id > ? GROUP BY peer, kind, direction
"""

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
            first, last = connection.execute(SPAN).fetchone()
            if self._until < 0 or last < self._until or first > self._until + 1:  # or some were folded unseen
                self._totals = {}
                found = connection.execute(SUMMARY)
            else:
                found = connection.execute(NEW, (self._until,))
            for peer, kind, direction, *numbers in found:
                self._add((peer, kind, direction), numbers)
            self._until = last
        return [make_entry(*key, *numbers) for key, numbers in sorted(self._totals.items())]

    def _add(self, key: tuple[str, str, str], new: list[Any]) -> None:
        total = self._totals.get(key)
        if total is None:
            self._totals[key] = new
        else:
            *sums, first, last = zip(total, new, strict=True)
            self._totals[key] = [*map(sum, sums), min(first), max(last)]


def describe_entry(entry: LedgerEntry) -> dict[str, Any]:
    """One entry, ready to be encoded."""
    return {
        "peer": entry.peer, "kind": entry.kind, "asked_by": ASKED_BY[entry.direction], "exchanges": entry.exchanges,
        "rows": entry.rows, "sent": entry.sent, "received": entry.received,
        "first": moment(entry.first.timestamp()), "last": moment(entry.last.timestamp()),
    }  # fmt: skip
