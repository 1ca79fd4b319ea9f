"""The audit: the routes that show the ledger, grouped by question, verify it and give it away as a file."""

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response
from fastapi.responses import StreamingResponse

from degroot.exceptions import InvalidInput
from degroot.node.page.encoding import moment, reply
from degroot.node.page.events import Live
from degroot.node.page.ledger_files import LedgerFiles
from degroot.node.page.ledger_state import LedgerState
from degroot.node.records.ledger import ASKED_BY, DAY
from degroot.node.records.ledger_search import (
    FoundRecord,
    GroupPlace,
    RecordGroup,
    Wanted,
    add_up,
    find_days,
    find_questions,
    find_records,
)
from degroot.node.server.threads import run_in_thread

LIMIT = 200  # groups that are shown at once
RECORDS = 1000  # records of a group
DIRECTIONS = {who: direction for direction, who in ASKED_BY.items()} | {"": None}
FINDERS = {"question": find_questions, "day": find_days}


def audit_routes(ledger: Path, live: Live, state: LedgerState, files: LedgerFiles) -> APIRouter:
    """The ledger, searched, verified and exported."""
    router = APIRouter(prefix="/api/audit")

    @router.get("")
    async def groups(
        wanted: Annotated[Wanted, Depends(_wanted)],
        by: str = "question",
        before: Annotated[int | None, Query(ge=-(1 << 62), le=1 << 62)] = None,
        limit: Annotated[int, Query(ge=1, le=LIMIT)] = 50,
    ) -> Response:
        if by not in FINDERS:
            raise InvalidInput(f"`by` must be 'question' or 'day'; got {by[:100]!r}.")
        found, following = await run_in_thread(FINDERS[by], ledger, wanted, before, limit)
        lines = await live.leak()
        known = {f"{name}s": sorted({line[name] for line in lines}) for name in ("peer", "kind")}
        return reply({"groups": [_describe_group(each) for each in found], "next": following, **known})

    @router.get("/totals")
    async def totals(wanted: Annotated[Wanted, Depends(_wanted)]) -> Response:
        told = asdict(await run_in_thread(add_up, ledger, wanted))
        return reply(told | {name: moment(told[name]) for name in ("first", "last")})

    @router.get("/records")
    async def records(
        wanted: Annotated[Wanted, Depends(_wanted)],
        question: str = "",
        day: Annotated[int | None, Query(ge=-(1 << 40), le=1 << 40)] = None,
        of_kind: str = "",
        expired: bool = False,
        offset: Annotated[int, Query(ge=0, le=1 << 62)] = 0,
        limit: Annotated[int, Query(ge=1, le=RECORDS)] = 100,
    ) -> Response:
        place = GroupPlace(question, day, of_kind, expired)
        total, found, confirmed = await run_in_thread(find_records, ledger, wanted, place, offset, limit)
        return reply({"total": total, "rows": [_describe_record(each, confirmed) for each in found]})

    @router.get("/verification")
    async def verification() -> Response:
        return reply(state.describe())

    @router.post("/verification")
    async def verify() -> Response:
        state.begin()
        return reply(state.describe(), 202)

    @router.get("/export")
    async def export(format: str = "json", peer: str = "") -> Response:
        if peer and peer not in {line["peer"] for line in await live.leak()}:
            raise InvalidInput(f"`peer` must be one that the ledger has exchanges with; got {peer[:100]!r}.")
        file = await files.export(format, peer or None)
        headers = {"Content-Disposition": f'attachment; filename="{file.name}"'}
        return StreamingResponse(file.content, media_type=file.kind, headers=headers)

    return router


def _wanted(
    q: str = "", peer: str = "", kind: str = "", asked_by: str = "", since: str = "", until: str = ""
) -> Wanted:
    """What a request looks for."""
    if asked_by not in DIRECTIONS:
        raise InvalidInput(f"`asked_by` must be 'we' or 'they'; got {asked_by[:100]!r}.")
    span = (_seconds("since", since), _seconds("until", until))
    return Wanted(q or None, peer or None, kind or None, DIRECTIONS[asked_by], *span)


def _seconds(name: str, written: str) -> float | None:
    """Seconds since 1970 of a time as ISO 8601 writes it; without a zone it is UTC."""
    if not written:
        return None
    try:
        at = datetime.fromisoformat(written)
        return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"`{name}` must be a time such as 2026-11-16T10:00:00Z; got {written[:100]!r}.") from error


def _describe_group(group: RecordGroup) -> dict[str, Any]:
    told = asdict(group) | {"first": moment(group.first), "last": moment(group.last)}
    date = None if group.day is None else f"{datetime.fromtimestamp(group.day * DAY, UTC):%Y-%m-%d}"
    return told | {"date": date, "expired": told.pop("is_expired")}


def _describe_record(record: FoundRecord, confirmed: set[str]) -> dict[str, Any]:
    told = record._asdict() | {"at": moment(record.at), "confirmed": None}
    told["asked_by"] = ASKED_BY[told.pop("direction")] if record.peer else None
    return told | ({"confirmed": record.digest in confirmed} if record.is_reply else {})
