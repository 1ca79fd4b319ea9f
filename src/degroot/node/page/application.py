"""The application: all that the page answers, and how it complains."""

from collections.abc import Iterable
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipMiddleware

from degroot.exceptions import DeGrootError
from degroot.node.page.downloads import KINDS
from degroot.node.page.encoding import refusal
from degroot.node.page.gate import Gate, NoToken
from degroot.node.page.inquiries import TooMuch
from degroot.node.page.opening import NotThere
from degroot.node.page.views import Views

DATA = ("/api/", "/events")  # how paths begin that people do not look at
LEVEL = 4  # of packing: small enough, and quick
NOT_PACKED = (*DEFAULT_EXCLUDED_CONTENT_TYPES, KINDS["parquet"])
STATUS: dict[type[DeGrootError], int] = {NoToken: 401, NotThere: 404, TooMuch: 413}  # of complaints; others are 400


def application(views: Views, routers: Iterable[APIRouter], log: Any) -> Gate:
    """The page with these routes."""
    app = FastAPI(title="degroot", docs_url=None, redoc_url=None, openapi_url=None)
    for router in routers:
        app.include_router(router)
    app.add_middleware(GZipMiddleware, minimum_size=1000, compresslevel=LEVEL, exclude_content_types=NOT_PACKED)
    _complain(app, views)
    return Gate(app, log)


def _complain(app: FastAPI, views: Views) -> None:
    """Whatever goes wrong is one line: as JSON, or for those who look at a page, as a page."""

    def told(request: Request, status: int, message: str) -> Response:
        if request.url.path.startswith(DATA):
            return refusal(status, message)
        return views.error(status, message)

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
        return told(request, STATUS.get(type(error), 400), str(error))
