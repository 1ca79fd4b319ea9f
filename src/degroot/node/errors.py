"""What can go wrong between nodes.

::

    DeGrootError
    └── PeerError            a peer gave nothing that can be used
        ├── PeerUnreachable  it could not be reached
        ├── PeerLate         it did not answer in time
        ├── CertificateLapsed    its certificate, or this node's, is no longer valid
        ├── PeerRefused      it refused
        │   └── RosterMismatch   its roster lacks members of the session
        └── BadReply         what it said makes no sense
"""

import asyncio
from typing import Any

import grpc
from grpc import StatusCode

from degroot.exceptions import DeGrootError, InvalidInput

LEFT = "has left the roster"


class PeerError(DeGrootError):
    """A peer gave nothing that can be used."""

    def __init__(self, peer: str, reason: str) -> None:
        super().__init__(peer, reason)
        self.peer, self.reason = peer, " ".join(reason.split())

    def __str__(self) -> str:
        return f"Peer {self.peer!r}: {self.reason}"


class PeerUnreachable(PeerError):
    """It could not be reached."""


class PeerLate(PeerError):
    """It did not answer in time."""


class CertificateLapsed(PeerError):
    """Its certificate has expired or was revoked; or that of this node has expired."""


class PeerRefused(PeerError):
    """It refused."""


class RosterMismatch(PeerRefused):
    """Its roster lacks members of the session: nodes take a new roster in one after the other."""


class BadReply(PeerError):
    """What it said makes no sense."""


def late(peer: str, seconds: float) -> PeerLate:
    """It did not answer in so many seconds."""
    return PeerLate(peer, f"no answer within {seconds:g} seconds")


def left(peer: str, error: asyncio.CancelledError) -> PeerUnreachable:
    """A call was cancelled: the peer has left the roster, and its channel was closed; or this task is cancelled."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise error
    return PeerUnreachable(peer, LEFT)


STATUS_LOST = "Internal error from Core"  # in grpc.aio, of a stream that ends while it is written to: no word on why


def from_rpc(peer: str, error: grpc.RpcError, seconds: float) -> PeerError:
    """What a failed call says of the peer."""
    call: Any = error
    code, details = call.code(), " ".join((call.details() or "").split())[:300]
    if code is StatusCode.DEADLINE_EXCEEDED:
        return late(peer, seconds)
    if code is StatusCode.INTERNAL and details == STATUS_LOST:
        return PeerUnreachable(peer, "unreachable (it ended the stream while a message was sent)")
    if code in (StatusCode.UNAVAILABLE, StatusCode.CANCELLED, StatusCode.UNKNOWN):
        return PeerUnreachable(peer, f"unreachable ({_short(details)})")
    refusal = RosterMismatch if code is StatusCode.ABORTED else PeerRefused
    return refusal(peer, f"refused: {details or code.name}")


def is_unimplemented(error: BaseException) -> bool:
    """Whether a node has refused a call that it does not know: it may speak an earlier version of the protocol."""
    call: Any = error if isinstance(error, grpc.RpcError) else error.__cause__
    return isinstance(call, grpc.RpcError) and call.code() is StatusCode.UNIMPLEMENTED


def told_to_peers(error: DeGrootError) -> str:
    """What peers are told of a failure here: of data and models the reason, of files only that they failed."""
    return str(error) if isinstance(error, InvalidInput) else f"it could not answer ({type(error).__name__})"


def _short(details: str) -> str:
    """The last part of gRPC's long stories: what happened to the connection."""
    for sign in (
        "certificate has expired",
        "Connection refused",
        "CERTIFICATE_VERIFY_FAILED",
        "Socket closed",
        "Connection reset",
        "GOAWAY",
    ):
        if sign.lower() in details.lower():
            return sign
    last = details.rsplit(": ", 1)[-1]
    return "Socket closed" if last in ("", "OK") else last
