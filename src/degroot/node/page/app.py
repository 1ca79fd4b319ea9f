"""The application: all that the page answers, and how it complains."""

import asyncio
import contextlib
import socket
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from typing import Any

import uvicorn
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipMiddleware

from degroot.exceptions import DeGrootError
from degroot.files.rows import site_of
from degroot.node.answering.answering import Answering
from degroot.node.config import ANSWER_DAYS, Page
from degroot.node.page.answers import Archive
from degroot.node.page.assets import Assets
from degroot.node.page.auth import AccessMiddleware, Gate, NotAllowed
from degroot.node.page.connections import HEAD_BYTES, PageConnection
from degroot.node.page.downloads import KINDS
from degroot.node.page.encoding import refusal
from degroot.node.page.events import Live
from degroot.node.page.fields import NotAdmitted
from degroot.node.page.gains import OwnGains
from degroot.node.page.jobs import JobQueue
from degroot.node.page.ledger_files import LedgerFiles
from degroot.node.page.ledger_state import LedgerState
from degroot.node.page.ledger_totals import LedgerTotals
from degroot.node.page.overview import Overview, features, find_consensus_lacking
from degroot.node.page.requests import AskedTable, TooMuch
from degroot.node.page.routes.answers import NotThere, answer_routes, row_routes
from degroot.node.page.routes.ask import ask_routes
from degroot.node.page.routes.audit import audit_routes
from degroot.node.page.routes.node import gains_routes, live_routes, trust_routes
from degroot.node.page.routes.pages import Views, static_routes, view_routes
from degroot.node.page.routes.session import session_routes
from degroot.node.page.tokens import PageToken, Tokens
from degroot.node.peers.notices import list_notices
from degroot.node.peers.peers import Peers
from degroot.node.records.own_rows import OwnRowsWatch
from degroot.node.records.recent import Recent
from degroot.node.server.background import start_background
from degroot.node.server.health import Health
from degroot.node.server.listening import BACKLOG, bind
from degroot.node.server.threads import run_in_thread
from degroot.schema import AS_SHARED

DATA = ("/api/", "/events")  # how paths begin that people do not look at
LEVEL = 4  # of packing: small enough, and quick
NOT_PACKED = (*DEFAULT_EXCLUDED_CONTENT_TYPES, KINDS["parquet"])
STATUS: dict[type[DeGrootError], int] = {NotAllowed: 403, NotThere: 404, TooMuch: 413}  # of complaints; others are 400


def application(views: Views, routers: Iterable[APIRouter], gate: Gate, log: Any) -> AccessMiddleware:
    """The page with these routes."""
    app = FastAPI(title="degroot", docs_url=None, redoc_url=None, openapi_url=None)
    for router in routers:
        app.include_router(router)
    app.add_middleware(GZipMiddleware, minimum_size=1000, compresslevel=LEVEL, exclude_content_types=NOT_PACKED)
    _complain(app, views)
    return AccessMiddleware(app, gate, lambda path, status, message: _refuse(views, path, status, message), log)


def _refuse(views: Views, path: str, status: int, message: str, who: PageToken | None = None) -> Response:
    """What is wrong, in one line: as JSON, or for those who look at a page, as a page."""
    return refusal(status, message) if path.startswith(DATA) else views.error(status, message, who)


def _complain(app: FastAPI, views: Views) -> None:
    """Whatever goes wrong is one line."""

    def told(request: Request, status: int, message: str) -> Response:
        return _refuse(views, request.url.path, status, message, getattr(request.state, "token", None))

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        message = "There is nothing at this address." if error.status_code == 404 else str(error.detail)
        return told(request, error.status_code, message)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        came = repr(str(first.get("input"))[:100])
        return told(request, 400, f"`{first['loc'][-1]}` does not fit: {first['msg']}; got {came}.")

    @app.exception_handler(DeGrootError)
    async def mistaken(request: Request, error: DeGrootError) -> Response:
        if isinstance(error, NotAdmitted):
            return refusal(400, str(error), fields=error.fields)
        return told(request, STATUS.get(type(error), 400), str(error))


PATIENCE = 2  # seconds for replies that are being sent when the node stops
EXPIRY_SECONDS = 60.0  # between looks at which answers have expired
USES_SECONDS = 60.0  # between records of when tokens were used last


def bound(page: Page) -> socket.socket:
    """A socket for the page, on a port that is free."""
    return bind(page.host, page.port, "page.port")


class Serving:
    """The page while it is there."""

    def __init__(
        self, live: Live, desk: JobQueue, state: LedgerState, keeping: Mapping[str, Coroutine[Any, Any, None]],
        server: uvicorn.Server, listening: socket.socket, log: Any,
    ) -> None:  # fmt: skip
        self._live, self._desk, self._state, self._server = live, desk, state, server
        self._task = asyncio.create_task(server.serve([listening]))
        self._keeping = [start_background(name, each, log) for name, each in keeping.items()]

    async def close(self) -> None:
        """Send what is being sent, and go."""
        self._live.close()
        for task in self._keeping:
            task.cancel()
        await asyncio.gather(*self._keeping, self._desk.close(), self._state.close(), return_exceptions=True)
        self._server.should_exit = True
        await self._task


def serve(
    answering: Answering, recent: Recent, watch: OwnRowsWatch, health: Health, listening: socket.socket, log: Any
) -> Serving:
    """Begin to serve the page of a node."""
    circle, configuration = answering.circle, answering.circle.configuration
    tokens = Tokens(configuration.state, log)

    def find_notices() -> list[tuple[str, str]]:
        return [*list_notices(circle), *tokens.list_notices()]

    overview = Overview(circle, recent, watch, health.find_faults, find_notices)
    live = Live(overview, LedgerTotals(configuration.ledger), log)
    days = ANSWER_DAYS if configuration.page is None else configuration.page.answer_days
    archive = Archive(configuration.state, days)
    desk, assets = JobQueue(answering, archive, log), Assets()
    lacking, has_consensus = find_consensus_lacking(circle), configuration.has_consensus
    views = Views(configuration.name, has_consensus, lacking, archive.describe(), assets)
    ca = None if configuration.identity is None else configuration.identity.ca
    state = LedgerState(configuration.ledger, configuration.name, ca, log)
    files = LedgerFiles(configuration.ledger, configuration.name, log)
    gate = Gate(tokens, f"degroot-{configuration.name}-{listening.getsockname()[1]}")
    routers = (
        view_routes(views),
        static_routes(assets),
        session_routes(gate, log),
        live_routes(live, gate),
        gains_routes(OwnGains(circle)),
        trust_routes(circle, recent),
        audit_routes(configuration.ledger, live, state, files),
        ask_routes(desk, _find_table(circle)),
        answer_routes(desk, archive),
        row_routes(desk, archive),
    )
    server = _Server(_settings(application(views, routers, gate, log)))
    keeping = {"answers": _expire(archive), "tokens": _follow_tokens(tokens, configuration.timing.probe_seconds)}
    return Serving(live, desk, state, keeping, server, listening, log)


def _find_table(circle: Peers) -> AskedTable:
    """What points are that are asked about through the page."""
    schema = circle.scores.seat.agent.schema
    site = AS_SHARED if schema is None else site_of(circle.configuration.data, schema).with_every_column()
    return AskedTable(features(circle), schema, site)


async def _expire(archive: Archive) -> None:
    """Delete answers that have expired, now and again and again."""
    while True:
        with contextlib.suppress(OSError):  # the next time may succeed
            await run_in_thread(archive.expire)
        await asyncio.sleep(EXPIRY_SECONDS)


async def _follow_tokens(tokens: Tokens, seconds: float) -> None:
    """Look at the tokens, as often as at the other files; now and then write down when they were used."""
    written, clock = 0.0, asyncio.get_running_loop().time
    while True:
        tokens.look()
        if clock() - written >= USES_SECONDS:
            written = clock()
            await run_in_thread(tokens.write_uses)
        await asyncio.sleep(seconds)


def _settings(app: AccessMiddleware) -> uvicorn.Config:
    """A server that is as quiet as the node around it."""
    return uvicorn.Config(
        app, http=PageConnection, ws="none", lifespan="off", interface="asgi3", log_config=None, access_log=False,
        log_level="critical", server_header=False, timeout_graceful_shutdown=PATIENCE, backlog=BACKLOG,
        h11_max_incomplete_event_size=HEAD_BYTES,
    )  # fmt: skip


class _Server(uvicorn.Server):
    """A server that leaves signals to the node."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
