"""Pages: the HTML pages, from template files."""

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader

import degroot
from degroot.node.page.assets import Assets
from degroot.node.page.auth import get_token
from degroot.node.page.encoding import refusal
from degroot.node.page.tokens import PageToken
from degroot.node.protocol.codec import LONGEST_PURPOSE

PAGES = {
    "/": "overview",
    "/ask": "ask",
    "/answers/{id}": "ask",
    "/gains": "gains",
    "/trust": "trust",
    "/audit": "audit",
}


class Views:
    """The pages of one node.

    Parameters
    ----------
    no_consensus : str
        Why a consensus can never be asked for; empty: it can.
    keeping : str
        How long answers are kept, in words.
    """

    def __init__(self, name: str, pooled: bool, no_consensus: str, keeping: str, assets: Assets) -> None:
        self._environment = Environment(
            loader=PackageLoader("degroot.node.page"), autoescape=True, trim_blocks=True, lstrip_blocks=True
        )
        self._context = {
            "node": name, "version": degroot.__version__, "static": assets.address, "pooled": pooled,
            "no_consensus": no_consensus, "keeping": keeping, "longest_purpose": LONGEST_PURPOSE,
        }  # fmt: skip

    def page(self, name: str, who: PageToken | None, code: int = 200, **context: Any) -> Response:
        """One page, for somebody who is signed in, or not."""
        told = None if who is None else who.describe()
        text = self._environment.get_template(f"{name}.html").render(self._context, page=name, who=told, **context)
        return HTMLResponse(text, code)

    def error(self, status: int, message: str, who: PageToken | None) -> Response:
        """The page that says what went wrong; without a token, where to sign in."""
        name = "error" if who is not None else "sign-in"
        return self.page(name, who, status, status=status, message=message)


def view_routes(views: Views) -> APIRouter:
    """The pages."""
    router = APIRouter()
    for path, name in PAGES.items():
        router.add_api_route(path, _view(views, name), methods=["GET"], response_model=None)
    return router


def static_routes(assets: Assets) -> APIRouter:
    """The files of the pages."""
    router = APIRouter()

    @router.get("/static/{path:path}")
    async def static(path: str, request: Request) -> Response:
        found = assets.response(path, request)
        return refusal(404, "There is no such file.") if found is None else found

    return router


def _view(views: Views, name: str) -> Any:
    async def view(request: Request) -> Response:
        return views.page(name, get_token(request))

    return view
