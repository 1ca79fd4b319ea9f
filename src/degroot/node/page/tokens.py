"""Tokens: who has it may ask through the page. It is made once, in a file that only its owner reads."""

import os
import re
import secrets
from pathlib import Path

from degroot.exceptions import InvalidInput

FILE = "page.token"  # in the folder for the node's state
FORM = re.compile(r"[A-Za-z0-9_-]{20,}", re.ASCII)


def made(state: Path) -> str:
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
