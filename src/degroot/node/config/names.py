"""Names: what nodes, peers and clients are called, in the roster as in their certificates."""

import re

from degroot.exceptions import InvalidInput

LONGEST = 63  # of a label in DNS, and nearly of a common name in a certificate
FORM = re.compile(r"[a-z][a-z0-9]*([._-][a-z0-9]+)*")


def check_name(name: object, what: str = "A node's name") -> str:
    """`name`, if it can stand in a certificate and be the name of a file.

    Examples
    --------
    >>> check_name("north")
    'north'
    >>> check_name("North Pole")
    Traceback (most recent call last):
    degroot.exceptions.InvalidInput: A node's name must be small letters and digits, with single dots, hyphens or
    underscores between them, and begin with a letter; got 'North Pole'.
    """
    if not isinstance(name, str) or len(name) > LONGEST or not FORM.fullmatch(name):
        length = f" at most {LONGEST}" if isinstance(name, str) and len(name) > LONGEST else ""
        raise InvalidInput(
            f"{what} must be{length} small letters and digits, with single dots, hyphens or underscores between them, "
            f"and begin with a letter; got {name!r}."
        )
    return name
