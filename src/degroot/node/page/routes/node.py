"""The node: the routes that show the node, its trust and gains."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse

from degroot.node.page.auth import Gate, get_token
from degroot.node.page.encoding import KIND, reply, reply_of
from degroot.node.page.events import Live
from degroot.node.page.gains import OwnGains
from degroot.node.page.overview import features
from degroot.node.page.trust import CELLS, Agents, regions, summary
from degroot.node.peers.peers import Peers
from degroot.node.records.recent import Recent


def live_routes(live: Live, gate: Gate) -> APIRouter:
    """The state of the node, now and as it changes, as long as the token is good."""
    router = APIRouter()

    @router.get("/api/state")
    async def state() -> Response:
        return Response(await live.state(), media_type=KIND)

    @router.get("/events")
    async def events(request: Request) -> Response:
        token = get_token(request)
        news = live.news(lambda: gate.tokens.is_good(token))
        return StreamingResponse(news, media_type="text/event-stream")

    return router


def trust_routes(circle: Peers, recent: Recent) -> APIRouter:
    """Who trusts whom, over the last questions."""
    router = APIRouter(prefix="/api")

    @router.get("/trust")
    async def trust(
        x: str | None = None, y: str | None = None, cells: Annotated[int, Query(ge=CELLS[0], le=CELLS[1])] = 8
    ) -> Response:
        known, answers = features(circle), recent.sample.of_the_roster()
        axes = (x or known[0], y or known[min(1, len(known) - 1)], cells, circle.scores.seat.agent.schema)

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
