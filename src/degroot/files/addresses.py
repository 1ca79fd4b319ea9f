"""Addresses: where nodes listen, host and port."""

import ipaddress
import re
from collections.abc import Iterable

from degroot.exceptions import InvalidInput

FORM = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})", re.ASCII)
LAST_PORT = 65535


def split(address: object, what: str = "An address") -> tuple[str, int]:
    """Host and port of ``"host:port"``; an IPv6 host stands in brackets there and without them here.

    Examples
    --------
    >>> split("[::1]:7443")
    ('::1', 7443)
    >>> split("localhost")
    Traceback (most recent call last):
    degroot.exceptions.InvalidInput: An address must be "host:port"; got 'localhost'.
    """
    match = FORM.fullmatch(address) if isinstance(address, str) else None
    if match is None:
        raise InvalidInput(f'{what} must be "host:port"; got {address!r}.')
    port = int(match[2])
    if not 1 <= port <= LAST_PORT:
        raise InvalidInput(f"{what} must have a port from 1 to {LAST_PORT}; got {address!r}.")
    return match[1].strip("[]"), port


def bracket(host: str) -> str:
    """A host as it stands before a port.

    Examples
    --------
    >>> bracket("::1"), bracket("10.0.0.7")
    ('[::1]', '10.0.0.7')
    """
    return f"[{host}]" if ":" in host else host


def is_loopback(address: str) -> bool:
    """Whether only processes on the same machine can be reached there.

    Examples
    --------
    >>> is_loopback("localhost:7443"), is_loopback("127.8.0.1:7443"), is_loopback("10.0.0.1:7443")
    (True, True, False)
    """
    return is_this_machine(split(address)[0])


def is_this_machine(host: str) -> bool:
    """Whether a host without a port is this machine for whoever says it.

    Examples
    --------
    >>> is_this_machine("::1"), is_this_machine("north.example.org")
    (True, False)
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False  # a name may lead anywhere


def check_loopback(addresses: Iterable[str]) -> None:
    """Refuse addresses that are not of this machine only."""
    for address in addresses:
        if not is_loopback(address):
            raise InvalidInput(
                "With --insecure-loopback all addresses must be of this machine (127.0.0.0/8, ::1 or localhost); "
                f"got {address!r}."
            )
