"""Tokens: who may look at a node's page and ask through it, until when, by name.

The file in the state folder holds hashes of tokens only. Commands change it while the node runs, which reads it anew
with the next request.
"""

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from degroot.exceptions import InvalidInput
from degroot.files.atomic import PRIVATE, find_stamp, make_folder
from degroot.files.checksums import DamagedFile, read_record, save_record
from degroot.files.lock import wait_for_lock
from degroot.node.config.names import check_name

FILE, LOCK = "page-tokens.json", "page-tokens.lock"  # in the folder for the node's state
PRIVATE_FILE = 0o600
EARLIER_FILE = "page.token"  # of earlier versions: one token for everybody, as it is
ADDED, REVOKED = "token added", "token revoked"  # notes of the ledger
LOOK, ASK = RIGHTS = ("look", "ask")
DAYS, MAX_DAYS, DAY = 90, 3650, 86_400.0
OPERATOR, OPERATOR_DAYS, OPERATORS = "operator", 1, 8  # of `degroot node page`: its tokens, and how many are kept
SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class PageToken:
    """What is kept of a token."""

    name: str  # whose it is
    digest: str  # of the token, in hexadecimal digits
    may: tuple[str, ...]
    made: float  # seconds since 1970
    expires: float
    used: float | None = None

    def describe(self) -> dict[str, Any]:
        """What its owner is told, ready to be encoded."""
        return {"name": self.name, "may": list(self.may), "until": f"{format_day(self.expires)} UTC"}


class NotLetIn(InvalidInput):
    """Somebody comes without a token that is good."""


def digest(secret: str) -> str:
    """By which a token is known.

    It is 256 random bits, which nobody guesses: a slow hash, as of passwords, would add nothing.
    """
    return sha256(secret.encode("utf-8", "replace")).hexdigest()


def format_day(at: float) -> str:
    """A time, in seconds since 1970, as people read it."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M}"


def read_tokens(state: Path) -> tuple[PageToken, ...] | None:
    """The tokens of the node with this state; None: there is no file."""
    path = state / FILE
    try:
        told = read_record(path)
        return tuple(PageToken(**{**each, "may": tuple(each["may"])}) for each in told["tokens"])
    except OSError as error:
        raise InvalidInput(
            f"The page's tokens must be open to the user of the node; {path}: {error.strerror}."
        ) from error
    except (DamagedFile, KeyError, TypeError) as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise InvalidInput(
            f"The page's tokens must be as `degroot node token` wrote them; {path} is damaged. "
            "Delete it, and add tokens anew."
        ) from error


def add_token(
    state: Path, name: str, *, may_ask: bool, days: int = DAYS, clock: Callable[[], float] = time.time,
    note: Callable[[], None] = lambda: None,
) -> str:  # fmt: skip
    """Make a token for somebody, who may look at the page with it, and ask if so wanted; the token, kept nowhere.

    `note`: records that, before the token is good.
    """
    if check_name(name, "The name of a token") == OPERATOR:
        raise InvalidInput(f"The name of a token must not be {OPERATOR!r}, which is that of `degroot node page`.")
    if not 1 <= days <= MAX_DAYS:
        raise InvalidInput(f"A token must be valid for 1 to {MAX_DAYS} days; got {days}.")
    now = clock()
    with _edit_tokens(state) as tokens:
        for each in tokens:
            if each.name == name and each.expires > now:
                raise InvalidInput(
                    f"A name must have one token; {name!r} has one until {format_day(each.expires)} UTC. "
                    "Revoke it first."
                )
        note()
        tokens[:] = [each for each in tokens if each.name != name]
        return _append(tokens, name, RIGHTS if may_ask else (LOOK,), now, days)


def make_operator_token(state: Path, clock: Callable[[], float] = time.time) -> str:
    """Make a token of a day for whoever runs the node; the last few of these are good at the same time."""
    now = clock()
    with _edit_tokens(state) as tokens:
        others = [each for each in tokens if each.name != OPERATOR]
        last = [each for each in tokens if each.name == OPERATOR and each.expires > now][1 - OPERATORS :]
        tokens[:] = others + last
        return _append(tokens, OPERATOR, RIGHTS, now, OPERATOR_DAYS)


def revoke_token(state: Path, name: str) -> None:
    """Let nobody in any more with the token of this name."""
    with _edit_tokens(state) as tokens:
        left = [each for each in tokens if each.name != name]
        if len(left) == len(tokens):
            names = ", ".join(sorted({each.name for each in tokens})) or "nobody"
            raise InvalidInput(f"A token to revoke must be that of {names}; got {name!r}.")
        tokens[:] = left


def describe_tokens(state: Path, clock: Callable[[], float] = time.time) -> list[str]:
    """A line for each token, without the token: name, rights, since when, until when, and when it was used last."""
    now = clock()
    return [
        f"{each.name:<20} {', '.join(each.may):<10} made {format_day(each.made)}  "
        f"{'expires' if each.expires > now else 'expired'} {format_day(each.expires)}  "
        + ("never used" if each.used is None else f"last used {format_day(each.used)}")
        for each in read_tokens(state) or ()
    ]


def _append(tokens: list[PageToken], name: str, may: tuple[str, ...], now: float, days: int) -> str:
    secret = secrets.token_urlsafe(SECRET_BYTES)
    tokens.append(PageToken(name, digest(secret), may, now, now + days * DAY))
    return secret


@contextmanager
def _edit_tokens(state: Path, *, make: bool = True) -> Iterator[list[PageToken]]:
    """The tokens, to be changed by one process at a time; written when that is done. `make`: also where none are."""
    make_folder(state, mode=PRIVATE)
    with (state / LOCK).open("a") as lock:
        try:
            wait_for_lock(lock)
        except OSError as error:
            raise InvalidInput(
                f"The page's tokens must be where files can be locked; {lock.name}: {error.strerror}."
            ) from error
        before = read_tokens(state)
        tokens = list(before or ())
        yield tokens
        if (before is None and not make) or tuple(tokens) == before:
            return
        try:
            save_record(state / FILE, {"tokens": [asdict(each) for each in tokens]}, mode=PRIVATE_FILE)
        except OSError as error:
            raise InvalidInput(f"The page's tokens must be kept; {state / FILE}: {error.strerror}.") from error


class Tokens:
    """The tokens of a node that runs, as the file has them at any time. A damaged file, or none, lets nobody in."""

    def __init__(self, state: Path, log: Any, clock: Callable[[], float] = time.time) -> None:
        self._state, self._log, self._clock = state, log, clock
        self._stamp: tuple[int, int, int] | None = None
        self._by_digest: dict[str, PageToken] = {}
        self._uses: dict[str, float] = {}  # by digest, since they were written last
        self._trouble = ""  # why nobody is let in
        self._remove_earlier()
        if find_stamp(state / FILE) is None:
            log.info("nobody has a token for the page yet", remedy="degroot node page FILE")
        self.look()

    def look(self) -> None:
        """Take in the file, if it has changed."""
        stamp = find_stamp(self._state / FILE)
        if stamp == self._stamp and not self._trouble:  # after trouble the file may be as it was, with other rights
            return
        self._stamp, self._by_digest, trouble = stamp, {}, ""
        try:
            found = read_tokens(self._state)
            if found is None:  # there was one when it was last looked at
                trouble = f"The page's tokens are gone; {self._state / FILE} was deleted."
            else:
                self._by_digest = {each.digest: each for each in found}
        except InvalidInput as error:
            trouble = str(error)
        if trouble and trouble != self._trouble:
            self._log.error("nobody is let in to the page", reason=trouble, remedy="degroot node page FILE")
        elif self._trouble and not trouble:
            self._log.info("page tokens taken in", tokens=len(self._by_digest))
        self._trouble = trouble

    def find(self, secret: str) -> PageToken:
        """Whose token it is; raises NotLetIn where it is not valid, or not any more."""
        self.look()
        known = digest(secret)
        token = self._by_digest.get(known)
        if token is None:
            raise NotLetIn("The token must be one that this node knows; it was revoked, or is of another node.")
        if token.expires <= self._clock():
            ended = format_day(token.expires)
            raise NotLetIn(f"The token must not have expired; that of {token.name} did, on {ended} UTC.")
        self._uses[known] = self._clock()
        return token

    def is_good(self, token: PageToken) -> bool:
        """Whether a token that was let in is still valid."""
        self.look()
        now = self._by_digest.get(token.digest)
        return now is not None and now.may == token.may and now.expires > self._clock()

    def write_uses(self) -> None:
        """Write down when tokens were used last. A file that is gone stays so."""
        uses, self._uses = self._uses, {}
        if not uses:
            return
        with suppress(InvalidInput, OSError), _edit_tokens(self._state, make=False) as tokens:
            tokens[:] = [replace(each, used=uses.get(each.digest, each.used)) for each in tokens]

    def list_notices(self) -> Iterator[tuple[str, str]]:
        """What the operator should know: a level, and a sentence."""
        if self._trouble:
            yield "error", f"Nobody is let in to the page: {self._trouble}"

    def _remove_earlier(self) -> None:
        """An earlier version kept one token for all, readable and for ever: nobody is let in with it any more."""
        path = self._state / EARLIER_FILE
        with suppress(FileNotFoundError):
            path.unlink()
            self._log.warning("the page's token of an earlier version was removed", remedy="degroot node page FILE")
