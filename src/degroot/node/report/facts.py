"""Facts of the report: what a node's configuration says and its ledger holds, as one plain record.

Everything is read; nothing is written, and the node may be running meanwhile.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path

import degroot
from degroot.exceptions import InvalidInput
from degroot.maps import LifetimeBudget
from degroot.node.config import ASK, QUERY, Client, Configuration, Peer
from degroot.node.copies.store import list_held, read_held
from degroot.node.peers.link import COPIED, MAP, PUSHED
from degroot.node.records.chain import IN, OUT
from degroot.node.records.departures import describe_departures
from degroot.node.records.export import clean_text, read_ledger
from degroot.node.records.journal import read_journal
from degroot.node.records.ledger import (
    ASKED_ROWS,
    DAY,
    LedgerEntry,
    beside_path,
    journal_path,
    make_entry,
    opened,
)
from degroot.node.records.receipts import RECEIPT
from degroot.node.records.verification import Verification, verify_together
from degroot.node.report.words import (
    CONTENT,
    INSIDE,
    ROLES,
    SERVICE,
    FlowWords,
    Mode,
    describe_fields,
    describe_rights,
    describe_use,
    find_flow,
    find_mode,
)
from degroot.node.tls.signing import make_checker

SHOWN_QUESTIONS = 100  # lines of the table; the others are added up in one

SUMMARY_SINCE = """
SELECT peer, kind, direction, sum(exchanges), sum("rows"), sum(sent), sum(received), min(first), max(last) FROM (
    SELECT peer, kind, direction, exchanges, "rows", sent, received, first, last FROM totals WHERE day >= :day
    UNION ALL SELECT peer, kind, direction, exchanges, "rows", sent, received, at, at FROM records
        WHERE peer != '' AND at >= :day * 86400.0
) GROUP BY peer, kind, direction ORDER BY peer, kind, direction
"""
# A question is in several records, by peer, kind, direction and batch. It was about as many rows as the largest of what
# came with its number or, if nothing came, of what was sent. What has an asker and no number counts by itself.
QUESTIONS = f"""
WITH parts AS (
    SELECT CASE question WHEN '' THEN 'record ' || number ELSE question END AS question, asker, purpose, direction,
        kind, sum("rows") AS part, min(at) AS first, max(at) AS last
    FROM records
    WHERE peer != '' AND asker != '' AND kind NOT IN ('{COPIED}', '{PUSHED}', '{RECEIPT}', '{MAP}')
        AND at >= :day * 86400.0
    GROUP BY 1, 2, 3, 4, 5, peer
), questions AS (
    SELECT asker, purpose, coalesce(max(CASE direction WHEN 'in' THEN part END), max(part)) AS part,
        min(CASE WHEN direction = 'out' THEN 3 WHEN kind = 'consult' THEN 0 WHEN kind = 'model query' THEN 1 ELSE 2 END)
        AS role, min(first) AS first, max(last) AS last
    FROM parts GROUP BY question, asker, purpose
)
SELECT role, asker, purpose, count(*), sum(part), min(first), max(last) FROM questions
GROUP BY role, asker, purpose ORDER BY role, sum(part) DESC, asker, purpose
"""


@dataclass(frozen=True, slots=True)
class Sums:
    """What exchanges come to."""

    exchanges: int
    rows: int
    sent: int  # bytes
    received: int  # bytes


@dataclass(frozen=True, slots=True)
class DataFlow:
    """All exchanges of one kind with one peer or client, in one direction, in words."""

    entry: LedgerEntry
    words: FlowWords


@dataclass(frozen=True, slots=True)
class Asked:
    """Questions of one asker for one purpose."""

    role: str
    asker: str
    purpose: str  # empty: none was given
    questions: int
    rows: int
    first: datetime
    last: datetime


@dataclass(frozen=True, slots=True)
class Caller:
    """A peer or client: what it may do here and, of a peer, how its model is used."""

    name: str
    address: str  # empty: a client, which has no node
    rights: Sequence[str]
    fields: Sequence[str]  # of answers that it may see
    use: str


@dataclass(frozen=True, slots=True)
class Budget:
    """How much of something somebody may have, and has had."""

    who: str
    what: str
    limit: float
    used: float

    @property
    def left(self) -> float:
        """What remains."""
        return max(0, self.limit - self.used)


@dataclass(frozen=True, slots=True)
class StoredPart:
    """A part of the state folder: what it holds, how much of it there is, and when it goes."""

    place: str
    holds: str
    until: str
    files: int
    size: int  # bytes


@dataclass(frozen=True, slots=True)
class HeldCopy:
    """A copy of a member's model that is here."""

    owner: str
    version: str  # empty: the file does not hold what it should
    issued: str
    is_member: bool  # whether its owner is in the roster still


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the ledger holds of a period."""

    entries: Sequence[LedgerEntry] = ()
    questions: Sequence[Asked] = ()
    more_questions: Sequence[Asked] = ()  # those that are not listed one by one
    expired: datetime | None = None  # until when only totals of days are kept; None: all is there one by one
    asked_today: Mapping[str, int] = field(default_factory=dict)  # rows, by peer and client
    damaged_lines: int = 0  # of the journal
    verification: Verification | None = None  # None: there is no ledger yet
    unchecked: str = ""  # why signatures were not checked; empty: they were


@dataclass(frozen=True, slots=True)
class Facts:
    """All that the report says."""

    configuration: Configuration
    made: datetime
    version: str  # of this software
    since: date | None
    mode: Mode
    recorded: Recorded
    sentences: Sequence[str]  # what has left
    flows: Mapping[str, Sequence[DataFlow]]  # by group
    callers: Sequence[Caller]
    budgets: Sequence[Budget]
    stored: Sequence[StoredPart]
    held: Sequence[HeldCopy]
    left_behind: Sequence[str]  # members that are in the roster no more, and something of them is in the state folder

    @property
    def name(self) -> str:
        """Of the node."""
        return self.configuration.name

    @property
    def outcome(self) -> str:
        """What is predicted, by the names of its columns."""
        return ", ".join(self.configuration.data.target)

    @property
    def copies_only(self) -> list[str]:
        """Peers to which no row is ever sent to use their models."""
        return [peer.name for peer in self.configuration.peers if QUERY not in peer.use]

    @property
    def first(self) -> datetime | None:
        """When the first exchange took place."""
        return min((each.first for each in self.recorded.entries), default=None)

    @property
    def last(self) -> datetime | None:
        """When the last one did."""
        return max((each.last for each in self.recorded.entries), default=None)

    @property
    def given(self) -> list[LedgerEntry]:
        """Exchanges in which this node's model was given away as a copy."""
        kinds = {(COPIED, IN), (PUSHED, OUT)}
        return [each for each in self.recorded.entries if (each.kind, each.direction) in kinds and each.exchanges]

    def add_up(self, *groups: str) -> Sums:
        """What the exchanges of some groups come to, by default all."""
        flows = (flow for group in groups or self.flows for flow in self.flows.get(group, ()))
        return add_up(flow.entry for flow in flows)


def add_up(entries: Iterable[LedgerEntry]) -> Sums:
    """What entries of the ledger come to."""
    rows = [(each.exchanges, each.rows, each.sent, each.received) for each in entries]
    return Sums(*(sum(column) for column in zip((0, 0, 0, 0), *rows, strict=True)))


def gather_facts(configuration: Configuration, since: date | None = None) -> Facts:
    """All that there is to say of a node, since the beginning of a day of UTC or since its ledger begins."""
    now = datetime.now(UTC)
    recorded, me = _read_recorded(configuration, since, now), configuration.name
    flows: dict[str, list[DataFlow]] = {group: [] for group in (CONTENT, SERVICE, INSIDE)}
    for entry in recorded.entries:
        words = find_flow(entry.kind, entry.direction)
        flows[INSIDE if entry.peer == me else words.group].append(DataFlow(entry, words))
    members = {peer.name for peer in configuration.peers}
    kept = _find_scored(configuration.state) | _find_mapped(configuration.maps_folder)
    held = [_describe_held(configuration, owner, members) for owner in list_held(configuration)]
    gone = sorted((kept | {copy.owner for copy in held}) - members)
    return Facts(
        configuration, now, degroot.__version__, since, find_mode(configuration.evidence), recorded,
        describe_departures(recorded.entries, me), flows, _describe_callers(configuration),
        [*_list_budgets(configuration, recorded)], [*_list_stored(configuration)], held, gone,
    )  # fmt: skip


# -- the ledger --------------------------------------------------------------------------------------------------------


def _read_recorded(configuration: Configuration, since: date | None, now: datetime) -> Recorded:
    path = configuration.ledger
    period = {"day": 0 if since is None else (since - date(1970, 1, 1)).days}
    if not path.is_file():
        _check_nothing_recorded(path)
        return Recorded()
    try:
        with opened(path) as connection:
            entries = [_clean(make_entry(*row)) for row in connection.execute(SUMMARY_SINCE, period)]
            questions = [_make_asked(*row) for row in connection.execute(QUESTIONS, period)]
            (expired,) = connection.execute("SELECT max(last) FROM totals WHERE day >= :day", period).fetchone()
            today = connection.execute(ASKED_ROWS, {"day": int(now.timestamp() // DAY)}).fetchall()
        damaged = len(read_journal(journal_path(path)).damaged)
        verification, unchecked = _verify(configuration)
    except InvalidInput:
        raise
    except (TypeError, ValueError, OverflowError, OSError) as error:  # a database, with other things in it
        told = f"The ledger must be a file that a node has written; {path} is none ({clean_text(str(error))})."
        raise InvalidInput(told) from error
    places = sorted(range(len(questions)), key=lambda place: -questions[place].rows)
    parts = places[:SHOWN_QUESTIONS], places[SHOWN_QUESTIONS:]
    shown, more = ([questions[place] for place in sorted(part)] for part in parts)
    until = None if expired is None else datetime.fromtimestamp(expired, UTC)
    return Recorded(entries, shown, more, until, dict(today), damaged, verification, unchecked)


def _check_nothing_recorded(path: Path) -> None:
    """Raise if there is no ledger, but something that belongs to one."""
    for other in (journal_path(path), beside_path(path)):
        if other.is_file() and other.stat().st_size:
            raise InvalidInput(
                f"The ledger must be a file that a node has written; {path} is not there, but {other.name} holds "
                "records, which the node takes in when it is started."
            )


def _make_asked(role: int, asker: str, purpose: str, questions: int, rows: int, first: float, last: float) -> Asked:
    begun, ended = (datetime.fromtimestamp(at, UTC) for at in (first, last))
    return Asked(ROLES[role], clean_text(asker), clean_text(purpose), questions, rows, begun, ended)


def _clean(entry: LedgerEntry) -> LedgerEntry:
    return replace(entry, peer=clean_text(entry.peer), kind=clean_text(entry.kind))


def _verify(configuration: Configuration) -> tuple[Verification, str]:
    """How the verification of the ledger comes out, and why signatures were not checked."""
    checker, unchecked = None, "the node has no certificates"
    if configuration.identity is not None:
        ca = configuration.identity.ca
        try:
            checker, unchecked = make_checker(ca, configuration.state), ""
        except InvalidInput as error:
            unchecked = str(error).rstrip(".")
    with read_ledger(configuration.ledger, configuration.name) as content:
        (found,) = verify_together([content], checker)
    findings, disputes = (tuple(map(clean_text, each)) for each in (found.findings, found.disputes))
    return replace(found, findings=findings, disputes=disputes), unchecked


# -- the configuration -------------------------------------------------------------------------------------------------


def _list_callers(configuration: Configuration) -> Iterator[Peer | Client]:
    yield from configuration.peers
    yield from configuration.clients


def _describe_callers(configuration: Configuration) -> list[Caller]:
    return [_describe_caller(caller, configuration.evidence) for caller in _list_callers(configuration)]


def _describe_caller(caller: Peer | Client, evidence: str) -> Caller:
    fields = describe_fields(caller.fields) if ASK in caller.may else []
    address, use = (caller.address, describe_use(caller)) if isinstance(caller, Peer) else ("", "")
    return Caller(caller.name, address, describe_rights(caller.may, evidence), fields, use)


def _list_budgets(configuration: Configuration, recorded: Recorded) -> Iterator[Budget]:
    """What peers and clients may still ask about today. Budgets of other kinds, such as of privacy, go here."""
    for caller in _list_callers(configuration):
        used = recorded.asked_today.get(caller.name, 0)
        yield Budget(caller.name, "rows that it may send here in a day", caller.rows_per_day, used)
    terms = configuration.maps
    if terms is not None:
        budget = LifetimeBudget(configuration.maps_folder, terms.lifetime_epsilon, terms.lifetime_delta)
        for name, limit, spent in zip(
            ("epsilon", "delta"), (budget.epsilon, budget.delta), budget.spent(), strict=True
        ):
            told = f"privacy that evidence maps may cost for life ({name})"
            yield Budget("everybody together", told, limit, spent)


# -- the state folder --------------------------------------------------------------------------------------------------


def _list_stored(configuration: Configuration) -> Iterator[StoredPart]:
    """What is kept on this machine, and for how long."""
    state, ledger, records = configuration.state, configuration.ledger, configuration.records
    page = configuration.page
    places = (
        (
            f"{ledger.name}, .journal, .beside",
            "the record of exchanges: names of organisations and askers, purposes, counts, times, hashes; no rows, no "
            "outcomes",
            f"single records for {records.days:g} days, at most {records.records:,}; after that totals of each day, "
            "without an end",
            [
                ledger, beside_path(ledger), *ledger.parent.glob(f"{ledger.name}-*"),
                *ledger.parent.glob(f"{ledger.stem}.journal*"),
            ],
        ),
        (
            f"{ledger.stem}-damaged-*",
            "records that were found damaged, set aside for people to look at",
            "until somebody deletes them",
            ledger.parent.glob(f"{ledger.stem}-damaged-*"),
        ),
        (
            "residuals",
            "how far each member's model is off on each of this node's rows: derived from outcomes",
            "until the rows or that model change",
            (state / "residuals").rglob("*"),
        ),
        ("copies", "models of other members, as signed files", "until a newer version comes, or somebody deletes them",
         configuration.copies.glob("*")),
        (
            "maps",
            "this node's evidence maps, sums of errors with noise, and the record of the privacy that they have cost",
            "without an end: without the record nobody knows what is spent",
            configuration.maps_folder.glob("*"),
        ),
        (
            "maps/peers",
            "evidence maps of other members",
            "until a newer version comes, or the member is taken out of the roster while this node runs",
            _list_peer_maps(configuration.maps_folder),
        ),
        (
            "answers",
            "answers of the page, with the rows that were asked about",
            f"the last 100, for {page.answer_days:g} days" if page is not None and page.answer_days else "no new ones",
            (state / "answers").glob("*"),
        ),
    )  # fmt: skip
    for place, holds, until, found in places:
        sizes = [*_find_sizes(found)]
        yield StoredPart(place, holds, until, len(sizes), sum(sizes))


def _find_sizes(paths: Iterable[Path]) -> Iterator[int]:
    for path in paths:
        with suppress(OSError):  # the node runs: files come and go
            if path.is_file():
                yield path.stat().st_size


def _find_scored(state: Path) -> set[str]:
    """Members on whose models there are residuals."""
    found = set()
    for path in (state / "residuals").rglob("*.json"):
        with suppress(OSError, ValueError, TypeError, KeyError):
            found.add(clean_text(str(json.loads(path.read_bytes())["name"])))
    return found


def _list_peer_maps(folder: Path) -> Iterator[Path]:
    return (folder / "peers").glob("*.map")


def _find_mapped(folder: Path) -> set[str]:
    """Members whose evidence maps are here."""
    return {clean_text(path.stem) for path in _list_peer_maps(folder)}


def _describe_held(configuration: Configuration, owner: str, members: set[str]) -> HeldCopy:
    bundle = read_held(configuration, owner)
    if bundle is None:
        return HeldCopy(clean_text(owner), "", "", owner in members)
    return HeldCopy(owner, bundle.version, bundle.issued, owner in members)
