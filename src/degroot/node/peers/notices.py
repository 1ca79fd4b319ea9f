"""Notices: what the operator of a node should know, in sentences."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from degroot.node.peers.peers import Peers
from degroot.node.tls.credentials import WARNING_DAYS


def list_notices(circle: Peers) -> Iterator[tuple[str, str]]:
    """What the operator of this node should know: a level, warning or error, and a sentence."""
    credentials, now = circle.wiring.credentials, datetime.now(UTC)
    for what, reason in sorted(circle.failures.items()):
        if reason:
            yield "error", f"A change of the {what} is not taken in: {reason}"
    yield from (("warning", told) for told in circle.wiring.ledger.list_notices())
    for path in circle.changed_data:
        yield "warning", f"{path} has changed since this node has read it: restart the node to take it in."
    if credentials is not None:
        if credentials.is_revoked:
            yield "error", "This node's certificate was revoked: no other node lets it in."
        soon = now + timedelta(days=WARNING_DAYS)
        for whose, ends in (("This node's certificate", credentials.expires), ("The CA", credentials.ca_expires)):
            if ends <= now:
                yield "error", f"{whose} expired on {ends:%Y-%m-%d %H:%M} UTC: no other node can be reached."
            elif ends <= soon:
                yield "warning", f"{whose} expires on {ends:%Y-%m-%d}, in {(ends - now).days} days: renew it."
    if circle.removal is not None:
        yield "error", f"{circle.removal[0].upper()}{circle.removal[1:]}."
    for peer, link in sorted(circle.links.items()):
        where = circle.instances.describe(peer)
        if where:
            yield "error", f"Two nodes run under the name {peer!r}, at {where}."
        if link.duplicate:
            yield "error", f"Another node runs under this node's name, at {link.duplicate}, as {peer!r} has seen."
