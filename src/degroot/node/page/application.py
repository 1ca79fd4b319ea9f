"""The application: all that the page answers, as routes."""

from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import StreamingResponse
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware

from degroot.exceptions import DeGrootError
from degroot.node.page.assets import Assets
from degroot.node.page.encoding import KIND, refusal
from degroot.node.page.gate import Forbidden, Gate
from degroot.node.page.live import Live
from degroot.node.page.views import Views, routes

API = ("/api/", "/events")
LEVEL = 4  # of packing: small enough, and quick


def application(name: str, live: Live, log: Any) -> Gate:
    """The page of the node `name`."""
    assets = Assets()
    views = Views(name, assets)
    app = FastAPI(title="degroot", docs_url=None, redoc_url=None, openapi_url=None)
    app.include_router(routes(views, assets))
    app.include_router(_live(live))
    app.add_middleware(GZipMiddleware, minimum_size=1000, compresslevel=LEVEL)
    _complain(app, views)
    return Gate(app, log)


def _live(live: Live) -> APIRouter:
    router = APIRouter()

    @router.get("/api/state")
    async def state() -> Response:
        return Response(await live.state(), media_type=KIND)

    @router.get("/events")
    async def events() -> Response:
        return StreamingResponse(live.news(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})

    return router


def _complain(app: FastAPI, views: Views) -> None:
    """Whatever goes wrong is one line: as JSON, or for those who look at a page, as a page."""

    def told(request: Request, status: int, message: str) -> Response:
        if request.url.path.startswith(API):
            return refusal(status, message)
        return views.error(status, message)

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        return told(request, error.status_code, str(error.detail))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        return told(request, 422, f"`{first['loc'][-1]}`: {first['msg']}; got {str(first.get('input'))[:100]!r}.")

    @app.exception_handler(DeGrootError)
    async def mistaken(request: Request, error: DeGrootError) -> Response:
        return told(request, 401 if isinstance(error, Forbidden) else 400, str(error))
