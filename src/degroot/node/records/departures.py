"""Departures: what has left this organisation and to whom, in rows and words, from the totals of the ledger.

The ledger knows how many rows an exchange was about, not which: a row that was sent twice counts twice.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from degroot.node.config import OPINION
from degroot.node.peers.link import COPIED, DESCRIBE, MAP, POOL, PREDICTION, PUSHED
from degroot.node.records.chain import IN, OUT
from degroot.node.records.ledger import LedgerEntry
from degroot.node.records.receipts import RECEIPT
from degroot.node.server.health_service import HEALTH
from degroot.node.server.model_service import ABOUT, MODEL_QUERY

CONSULT = "consult"
REHEARSAL = "rehearsal"  # in ledgers of earlier versions
QUIET = (DESCRIBE, ABOUT, HEALTH, RECEIPT)  # names, versions, settings and hashes: not worth a sentence

EVIDENCE = "pooled evidence (exact averages) near {points} was given to"
PREDICTIONS = ("predictions of our model for {rows} were given to", "")
ROUNDS = ("beliefs and shares of weight at {points}, counted in every round, were given to", ", to pool evidence")
COPY = ("our model was given as a copy to", "")

# Of each kind and direction: what has left, up to the name of who has it, and what for. Those that tell most come
# first. Of a copy that we fetch, or that is pushed to us, nothing of ours leaves.
WORDS = {
    (OPINION, IN): (EVIDENCE, ", for the consensus"),
    (REHEARSAL, IN): (EVIDENCE, ", to calibrate its intervals"),
    (POOL, IN): ROUNDS,
    (POOL, OUT): ROUNDS,
    (MAP, IN): ("our evidence map (sums of errors with noise) was given to", ", for the consensus"),
    (CONSULT, IN): ("answers about {rows} were given to", ""),
    (COPIED, IN): COPY,
    (PUSHED, OUT): COPY,
    (MODEL_QUERY, OUT): ("features of {rows} were sent to", ", for scoring its model"),
    (REHEARSAL, OUT): ("features of {rows} were sent to", ", as questions that calibrate intervals"),
    (PREDICTION, OUT): ("{asked} sent to", ", for its predictions"),
    (OPINION, OUT): ("{asked} sent to", ", for the consensus"),
    (MODEL_QUERY, IN): PREDICTIONS,
    (PREDICTION, IN): PREDICTIONS,
}
NOTHING = {(COPIED, OUT), (PUSHED, IN), (MAP, OUT)}


@dataclass(frozen=True, slots=True)
class Departure:
    """What has left to one peer or client, for one reason."""

    peer: str
    rows: int
    what: str  # of the sentence, up to the peer's name
    why: str = ""  # and after it

    def __str__(self) -> str:
        return f"{self.what} {self.peer}{self.why}"


def find_departures(entries: Iterable[LedgerEntry], me: str, held: Mapping[str, str] | None = None) -> list[Departure]:
    """What has left, by peer, that which tells most first. What the node answers to its own people has not left.

    Parameters
    ----------
    me : the node's own name
    held : the versions of this node's model that peers say they have copies of, where that is known
    """
    totals: dict[tuple[str, int, tuple[str, str]], int] = {}
    for entry in entries:
        key = (entry.kind, entry.direction)
        if entry.peer == me or entry.kind in QUIET or key in NOTHING or not entry.sent:
            continue
        words = WORDS.get(key, (f"messages of another kind ({entry.kind}) were sent to", ""))
        place = list(WORDS.values()).index(words) if key in WORDS else len(WORDS)
        known = (entry.peer, place, words)
        totals[known] = totals.get(known, 0) + entry.rows
    return [_word(peer, words, rows, held or {}) for (peer, _, words), rows in sorted(totals.items())]


def describe_departures(entries: Iterable[LedgerEntry], me: str, held: Mapping[str, str] | None = None) -> list[str]:
    """The same as sentences, such as "features of 91 rows were sent to south, for scoring its model"."""
    return [str(each) for each in find_departures(entries, me, held)]


def _word(peer: str, words: tuple[str, str], rows: int, held: Mapping[str, str]) -> Departure:
    what, why = words
    if words == COPY and held.get(peer):
        why = f" (it holds version {held[peer]})"
    asked = f"{_count(rows, 'asked point')} {'was' if rows == 1 else 'were'}"
    return Departure(peer, rows, what.format(rows=_count(rows, "row"), points=_count(rows, "point"), asked=asked), why)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
