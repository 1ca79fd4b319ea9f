"""Addresses of clusters: tried out before Ray is, which would try for minutes."""

import socket
from ipaddress import ip_address

from degroot.exceptions import InvalidInput, describe_error
from degroot.files.addresses import split

PATIENCE = 10.0  # seconds
CLIENT = "ray://"
FOUND_BY_RAY = ("auto", "local")


def check_reached(address: str) -> None:
    """Refuse an address where nobody listens."""
    if address in FOUND_BY_RAY:
        return
    host, port = split(address.removeprefix(CLIENT), "The address of a Ray cluster")
    try:
        socket.create_connection((host, port), timeout=PATIENCE).close()
    except OSError as error:
        raise unreachable_error(address, error) from error


def check_same(address: str | None, connected: str, here: str) -> None:
    """Refuse an address that is not that of the Ray to which this process, on the host `here`, is `connected`."""
    if address is None or address in FOUND_BY_RAY or address.startswith(CLIENT):
        return
    (host, port), (known, its_port) = split(address, "The address of a Ray cluster"), split(connected)
    try:
        same = port == its_port and bool(_resolved(host, here) & _resolved(known, here))
    except OSError as error:
        raise unreachable_error(address, error) from error
    if not same:
        raise InvalidInput(f"A process must be connected to one Ray only; it is to {connected}, not to {address}.")


def _resolved(host: str, here: str) -> set[str]:
    """The numbers of a host. A loopback is this host, which has another number too."""
    numbers = {str(each[4][0]) for each in socket.getaddrinfo(host, None)}
    return numbers | {here} if any(ip_address(each.partition("%")[0]).is_loopback for each in numbers) else numbers


def unreachable_error(address: str | None, error: Exception) -> InvalidInput:
    """The error that there is no Ray to be had."""
    reason = " ".join(describe_error(error).split()).rstrip(" .")
    if address is None:
        return InvalidInput(f"Ray must start on this machine; {reason}.")
    return InvalidInput(f"There must be a Ray cluster at {address}; {reason}.")
