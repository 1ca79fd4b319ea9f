"""The node: the routes that show the node, its trust, gains and ledger, to whoever is on this machine."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from fastapi.responses import StreamingResponse

from degroot.exceptions import InvalidInput
from degroot.node.page.encoding import KIND, moment, reply, reply_of
from degroot.node.page.events import Live
from degroot.node.page.gains import OwnGains
from degroot.node.page.overview import features
from degroot.node.page.trust import CELLS, Agents, regions, summary
from degroot.node.peers.peers import Peers
from degroot.node.records.ledger import ASKED_BY
from degroot.node.records.ledger_search import Exchange, Wanted, search
from degroot.node.records.recent import Recent
from degroot.node.server.threads import run_in_thread

LIMIT = 1000  # exchanges that are shown at once
DIRECTIONS = {who: direction for direction, who in ASKED_BY.items()} | {"": None}


def live_routes(live: Live) -> APIRouter:
    """The state of the node, now and as it changes."""
    router = APIRouter()

    @router.get("/api/state")
    async def state() -> Response:
        return Response(await live.state(), media_type=KIND)

    @router.get("/events")
    async def events() -> Response:
        return StreamingResponse(live.news(), media_type="text/event-stream")

    return router


def trust_routes(circle: Peers, recent: Recent) -> APIRouter:
    """Who trusts whom, over the last questions."""
    router = APIRouter(prefix="/api")

    @router.get("/trust")
    async def trust(
        x: str | None = None, y: str | None = None, cells: Annotated[int, Query(ge=CELLS[0], le=CELLS[1])] = 8
    ) -> Response:
        known, answers = features(circle), recent.sample.of_the_roster()
        axes = (x or known[0], y or known[min(1, len(known) - 1)], cells)

        def summed() -> dict[str, Any]:
            agents = Agents.of(answers) if answers else None
            return summary(agents, circle.names) | {"regions": regions(agents, known, *axes)}

        return await reply_of(summed)

    return router


def gains_routes(gains: OwnGains) -> APIRouter:
    """What this node gains."""
    router = APIRouter(prefix="/api")

    @router.get("/gains")
    async def read() -> Response:
        return reply(await gains.read())

    return router


def audit_routes(ledger: Path, live: Live) -> APIRouter:
    """The ledger, searched."""
    router = APIRouter(prefix="/api")

    @router.get("/audit")
    async def audit(
        q: str = "",
        peer: str = "",
        kind: str = "",
        asked_by: str = "",
        since: str = "",
        until: str = "",
        offset: Annotated[int, Query(ge=0)] = 0,
        limit: Annotated[int, Query(ge=1, le=LIMIT)] = 100,
    ) -> Response:
        if asked_by not in DIRECTIONS:
            raise InvalidInput(f"`asked_by` must be 'we' or 'they'; got {asked_by[:100]!r}.")
        span = (_seconds("since", since), _seconds("until", until))
        wanted = Wanted(q or None, peer or None, kind or None, DIRECTIONS[asked_by], *span)
        total, found = await run_in_thread(search, ledger, wanted, offset, limit)
        lines = await live.leak()
        known = {f"{name}s": sorted({line[name] for line in lines}) for name in ("peer", "kind")}
        return reply({"total": total, "rows": [_row(each) for each in found], **known})

    return router


def _seconds(name: str, written: str) -> float | None:
    """Seconds since 1970 of a time as ISO 8601 writes it; without a zone it is UTC."""
    if not written:
        return None
    try:
        at = datetime.fromisoformat(written)
        return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"`{name}` must be a time such as 2026-11-16T10:00:00Z; got {written[:100]!r}.") from error


def _row(exchange: Exchange) -> dict[str, Any]:
    return {
        "at": moment(exchange.at), "peer": exchange.peer, "kind": exchange.kind,
        "asked_by": ASKED_BY[exchange.direction], "exchanges": exchange.exchanges,
        "rows": exchange.rows, "sent": exchange.sent, "received": exchange.received,
    }  # fmt: skip
