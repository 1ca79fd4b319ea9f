"""Addresses of clusters: tried out before Ray is, which would try for minutes."""

import socket

from degroot.addresses import split
from degroot.exceptions import InvalidInput
from degroot.tables import told

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
        raise refusal(address, error) from error


def check_same(address: str | None, connected: str) -> None:
    """Refuse an address with another port than that of the Ray to which this process is `connected`."""
    if address is None or address in FOUND_BY_RAY or address.startswith(CLIENT):
        return
    if split(address, "The address of a Ray cluster")[1] != split(connected)[1]:
        raise InvalidInput(f"A process must be connected to one Ray only; it is to {connected}, not to {address}.")


def refusal(address: str | None, error: Exception) -> InvalidInput:
    """The error that there is no Ray to be had."""
    reason = " ".join(told(error).split()).rstrip(" .")
    if address is None:
        return InvalidInput(f"Ray must start on this machine; {reason}.")
    return InvalidInput(f"There must be a Ray cluster at {address}; {reason}.")
