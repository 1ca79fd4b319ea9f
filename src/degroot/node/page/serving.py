"""Serving: the page on its port, in the node's own event loop, until the node stops."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn

from degroot.exceptions import InvalidInput
from degroot.node.answering import Answering
from degroot.node.configuration import Page
from degroot.node.page.application import application
from degroot.node.page.archive import Archive
from degroot.node.page.asking import ask_routes
from degroot.node.page.assets import Assets
from degroot.node.page.desk import Desk
from degroot.node.page.gate import Gate, with_token
from degroot.node.page.leak import Leak
from degroot.node.page.live import Live
from degroot.node.page.looking import audit_routes, live_routes, trust_routes
from degroot.node.page.opening import answer_routes, row_routes
from degroot.node.page.overview import Overview, features
from degroot.node.page.tokens import made
from degroot.node.page.views import Views, view_routes
from degroot.node.recent import Recent

CONNECTIONS = 200
PATIENCE = 2  # seconds for replies that are being sent when the node stops
BACKLOG = 128


def bound(page: Page) -> socket.socket:
    """A socket for the page, on a port that is free."""
    family = socket.AF_INET6 if ":" in page.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # said so, asyncio sends at once
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((page.host, page.port))
        listening.listen(BACKLOG)
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        raise InvalidInput(f"`page.port` must be free; {page.host}:{page.port}: {error.strerror}.") from error
    return listening


class Serving:
    """The page while it is there."""

    def __init__(self, live: Live, desk: Desk, server: uvicorn.Server, task: asyncio.Task[None]) -> None:
        self._live, self._desk, self._server, self._task = live, desk, server, task

    async def close(self) -> None:
        """Send what is being sent, and go."""
        self._live.close()
        await self._desk.close()
        self._server.should_exit = True
        await self._task


def serve(answering: Answering, recent: Recent, listening: socket.socket, log: Any) -> Serving:
    """Begin to serve the page of a node."""
    circle, configuration = answering.circle, answering.circle.configuration
    live = Live(Overview(circle, recent), Leak(configuration.ledger), log)
    archive = Archive(configuration.state)
    desk, assets = Desk(answering, archive, log), Assets()
    views, admitted = Views(configuration.name, assets), with_token(made(configuration.state))
    routers = (
        view_routes(views, assets),
        live_routes(live),
        trust_routes(circle, recent),
        audit_routes(configuration.ledger, live),
        ask_routes(desk, admitted, features(circle)),
        answer_routes(desk, archive, admitted),
        row_routes(desk, archive),
    )
    server = _Server(_settings(application(views, routers, log)))
    return Serving(live, desk, server, asyncio.create_task(server.serve([listening])))


def _settings(app: Gate) -> uvicorn.Config:
    """A server that is as quiet as the node around it."""
    return uvicorn.Config(
        app, http="h11", ws="none", lifespan="off", interface="asgi3", log_config=None, access_log=False,
        log_level="critical", server_header=False, timeout_graceful_shutdown=PATIENCE, limit_concurrency=CONNECTIONS,
    )  # fmt: skip


class _Server(uvicorn.Server):
    """A server that leaves signals to the node."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
