"""Sessions: the routes by which a browser is given its token to keep, and forgets it."""

from typing import Any

from fastapi import APIRouter, Request, Response

from degroot.node.page.auth import Gate, get_token, read_bearer
from degroot.node.page.encoding import reply


def session_routes(gate: Gate, log: Any) -> APIRouter:
    """Signing in and out."""
    router = APIRouter(prefix="/api/session")

    @router.get("")
    async def session(request: Request) -> Response:
        return reply(get_token(request).describe())

    @router.post("")
    async def sign_in(request: Request) -> Response:
        response, secret = reply(get_token(request).describe()), read_bearer(request.headers)
        if secret:
            gate.keep(response, secret)
            log.info("signed in to the page", person=get_token(request).name)
        return response

    @router.delete("")
    async def sign_out(request: Request) -> Response:
        response = reply(get_token(request).describe())
        gate.forget(response)
        return response

    return router
