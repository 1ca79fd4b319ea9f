"""Authentication: whom the page lets in, and what browsers are told to keep to.

A page of some other site that a browser has open can send requests here too. It cannot read the replies or know the
token; and under a name of its own that it points to this machine, it is turned away.
"""

import os
import re
import secrets
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fastapi import Depends, Request
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from degroot.exceptions import InvalidInput
from degroot.files.addresses import is_this_machine
from degroot.node.page.encoding import refusal

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
READING = ("GET", "HEAD")


class AccessMiddleware:
    """Around the whole page: who comes by a strange name or from another site is refused."""

    def __init__(self, app: ASGIApp, log: Any) -> None:
        self._app, self._log = app, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in."""
        begun = False

        async def sending(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                _secure(MutableHeaders(scope=message))
            await send(message)

        strange = _strange(scope["method"], Headers(scope=scope))
        if strange is not None:
            await refusal(403, strange)(scope, receive, sending)
            return
        try:
            await self._app(scope, receive, sending)
        except Exception:  # a mistake of ours: the node goes on
            self._log.exception("the page has failed", path=scope["path"])
            if not begun:
                await refusal(500, "The page has failed; the node's log says why.")(scope, receive, sending)


class NoToken(InvalidInput):
    """Somebody asks who has not the token."""


def with_token(token: str) -> Any:
    """What routes depend on that only those may use who have the token."""

    async def check(request: Request) -> None:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not secrets.compare_digest(given.strip().encode(), token.encode()):
            raise NoToken("Asking needs the token: open the address that `degroot node page` prints.")

    return Depends(check)


def _strange(method: str, headers: Headers) -> str | None:
    """What is wrong with where a request comes from, if anything is."""
    host = headers.get("host", "")
    if not _local(host):
        return "The page must be asked for by a name of this machine (127.0.0.1, ::1 or localhost)."
    origin = headers.get("origin")
    if method not in READING and origin is not None and origin != f"http://{host}":
        return "The page must be asked by itself, not by another site."
    return None


def _local(host: str) -> bool:
    try:
        return is_this_machine(urlsplit(f"//{host}").hostname or "")
    except ValueError:
        return False


def _secure(headers: MutableHeaders) -> None:
    for name, value in HEADERS.items():
        headers[name] = value
    headers.setdefault("Cache-Control", "no-store")


FILE = "page.token"  # in the folder for the node's state
FORM = re.compile(r"[A-Za-z0-9_-]{20,}", re.ASCII)


def read_or_make_token(state: Path) -> str:
    """The token of the node with this state; a new one if there is none yet."""
    path, token = state / FILE, secrets.token_urlsafe(32)
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(token)
    except FileExistsError:
        return read(state)
    except OSError as error:
        raise InvalidInput(f"The page's token must be kept in a file; {path}: {error.strerror}.") from error
    return token


def read(state: Path) -> str:
    """The token of a node that has run before."""
    path = state / FILE
    try:
        token = path.read_text(encoding="ascii").strip()
    except FileNotFoundError as error:
        raise InvalidInput(
            f"The node must have run with a page, which makes the token; there is no {path} yet."
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"The page's token must be in a file that can be read; {path}: {error}.") from error
    if FORM.fullmatch(token) is None:
        raise InvalidInput(
            f"{path} must hold a token of at least 20 letters, digits, - and _; it does not. "
            "Without the file a new one is made."
        )
    return token
