"""Listening: the sockets of the page and of the metrics, bound before anything else begins."""

import socket

from degroot.exceptions import InvalidInput

BACKLOG = 128  # connections that the system holds until they are accepted


def bind(host: str, port: int, setting: str) -> socket.socket:
    """A socket that listens there, on a port that has to be free; 0: any. `setting`: what it is in the file."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # said so, asyncio sends at once
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(BACKLOG)
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        raise InvalidInput(f"`{setting}` must be free; {host}:{port}: {error.strerror}.") from error
    return listening
