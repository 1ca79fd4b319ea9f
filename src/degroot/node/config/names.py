"""Names: what nodes, peers and clients are called, in the roster as in their certificates."""

import re
import unicodedata

from degroot.exceptions import InvalidInput

LONGEST = 63  # of a label in DNS, and nearly of a common name in a certificate
NEW = ".new"  # after the name of a key that is to replace another
NAME = "degroot-name"  # of callers, in the metadata, where there are no certificates
CA = "ca"  # what the certificate authority's files are called
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
    underscores between them, and begin with a letter; got 'North Pole'. Such as: north-pole.
    """
    if not isinstance(name, str) or not is_name(name):
        length = f" at most {LONGEST}" if isinstance(name, str) and len(name) > LONGEST else ""
        example = f" Such as: {suggest_name(name)}." if isinstance(name, str) and name.strip() else ""
        raise InvalidInput(
            f"{what} must be{length} small letters and digits, with single dots, hyphens or underscores between them, "
            f"and begin with a letter; got {name!r}.{example}"
        )
    if name == CA:
        raise InvalidInput(
            f"{what} must not be {CA!r}: its files would be those of the CA. Such as: {suggest_name(CA)}."
        )
    if name.endswith(NEW):
        raise InvalidInput(f"{what} must not end in {NEW!r}, as keys do that replace others; got {name!r}.")
    return name


def is_name(text: str) -> bool:
    """Whether a node can be called so."""
    return len(text) <= LONGEST and FORM.fullmatch(text) is not None


def suggest_name(organisation: str) -> str:
    """What the node of an organisation can be called.

    Examples
    --------
    >>> [suggest_name(each) for each in ("north", "North_Ames", "Zürich (CH)", "9E", "CA")]
    ['north', 'north_ames', 'zurich-ch', 'node-9e', 'node-ca']
    """
    letters = unicodedata.normalize("NFKD", organisation).encode("ascii", "ignore").decode().lower()
    text = re.sub(r"([._-])[._-]+", r"\1", re.sub(r"[^a-z0-9._-]+", "-", letters)).strip("._-")
    text = text if re.match("[a-z]", text) and text != CA else f"node-{text}"
    return text[:LONGEST].strip("._-")
