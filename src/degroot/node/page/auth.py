"""Authentication: whom the page lets in, and what browsers are told to keep to.

Whoever comes needs a token: scripts send it as a bearer, browsers in a cookie that no script can read. A page of some
other site that a browser has open can send requests here too. The cookie does not come with these, and it cannot read
the replies; and under a name of its own that it points to this machine, it is turned away.
"""

from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import urlsplit

from fastapi import Depends, Request, Response
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from degroot.exceptions import InvalidInput
from degroot.files.addresses import is_this_machine
from degroot.node.page.encoding import refusal
from degroot.node.page.tokens import NotLetIn, PageToken, Tokens

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
OPEN_TO_ALL = "/static/"  # how paths begin that need no token: the page's own files
SIGN_IN = "Sign in with a token: open the address that `degroot node page` or `degroot node token add` prints."


class NotAllowed(InvalidInput):
    """Somebody asks for what the token does not allow."""


class Gate:
    """Who comes with a request, by a bearer or a cookie.

    Parameters
    ----------
    cookie : str
        Its name, another for every node of this machine: cookies are the same for all ports.
    """

    def __init__(self, tokens: Tokens, cookie: str) -> None:
        self.tokens, self._cookie = tokens, cookie

    def identify(self, headers: Headers) -> PageToken:
        """Whose token it is; raises NotLetIn where there is none that is good."""
        secret = read_bearer(headers) or self._read_cookie(headers)
        if not secret:
            raise NotLetIn(SIGN_IN)
        try:
            return self.tokens.find(secret)
        except NotLetIn as error:
            raise NotLetIn(f"{error} {SIGN_IN}") from error

    def keep(self, response: Response, secret: str) -> None:
        """Have a browser bring this token from now on, until it is closed."""
        response.set_cookie(self._cookie, secret, httponly=True, samesite="strict")

    def forget(self, response: Response) -> None:
        """Have a browser forget its token."""
        response.delete_cookie(self._cookie, httponly=True, samesite="strict")

    def _read_cookie(self, headers: Headers) -> str:
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return ""
        return "" if found is None else found.value


def read_bearer(headers: Headers) -> str:
    """The token that a script sends; empty: none."""
    scheme, _, secret = headers.get("authorization", "").partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""


def get_token(request: Request) -> PageToken:
    """The token that a request has come with."""
    token: PageToken = request.state.token
    return token


def require_right(right: str) -> Any:
    """What routes depend on that only those may use whose token has a right."""

    async def check(request: Request) -> None:
        token = get_token(request)
        if right not in token.may:
            raise NotAllowed(
                f"This needs a token that may {right}; that of {token.name} may {' and '.join(token.may)}."
            )

    return Depends(check)


class AccessMiddleware:
    """Around the whole page: who comes without a token, by a strange name or from another site is refused.

    `refuse`: makes the response that says so, of the path, the status and the message.
    """

    def __init__(self, app: ASGIApp, gate: Gate, refuse: Callable[[str, int, str], Response], log: Any) -> None:
        self._app, self._gate, self._refuse, self._log = app, gate, refuse, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in."""
        begun = False

        async def sending(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                _secure(MutableHeaders(scope=message))
            await send(message)

        headers = Headers(scope=scope)
        strange = _strange(scope["method"], headers)
        if strange is not None:
            await refusal(403, strange)(scope, receive, sending)
            return
        if not scope["path"].startswith(OPEN_TO_ALL):
            try:
                scope["state"] = {"token": self._gate.identify(headers)}
            except NotLetIn as error:
                response = self._refuse(scope["path"], 401, str(error))
                response.headers["WWW-Authenticate"] = "Bearer"
                await response(scope, receive, sending)
                return
        try:
            await self._app(scope, receive, sending)
        except ClientDisconnect:  # before all of the body had come
            return
        except Exception:  # a mistake of ours: the node goes on
            self._log.exception("the page has failed", path=scope["path"])
            if not begun:
                await refusal(500, "The page has failed; the node's log says why.")(scope, receive, sending)


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
