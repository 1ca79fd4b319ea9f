"""Uses: how each peer's model is used here, how it may use ours, and who sees a row that is asked about."""

from collections.abc import Iterable, Sequence
from typing import Any

from degroot.node.config import COPY, QUERY
from degroot.node.page.encoding import moment
from degroot.node.peers.link import Link
from degroot.node.peers.peers import Peers

COPIED_HERE = "scored and asked here: no row and no asked point is sent to it"
COPIED_POOLED = "scored and asked here; for the consensus it sees asked points"
QUERIED = "it sees the features of our rows, for scoring, and asked points"
UNUSED = "not used now: no row and no asked point is sent to it"
UNUSED_POOLED = "not used now; for the consensus it sees asked points"


def describe_use(circle: Peers, link: Link) -> dict[str, Any]:
    """How a peer's model is used now: a copy of it, by queries, or not at all; and what of ours the peer sees then."""
    seat, pooled = circle.scores.seat, circle.configuration.pooled and link.name not in circle.without_evidence()
    hindrance, copy = circle.find_hindrance(link, seat), seat.copies.get(link.name)
    words = UNUSED_POOLED if pooled else UNUSED
    told: dict[str, Any] = {"as": None, "version": None, "issued": None, "hindrance": hindrance, "words": words}
    if copy is not None:
        manifest, words = copy.bundle.manifest, COPIED_POOLED if pooled else COPIED_HERE
        return told | {"as": COPY, "version": manifest.version, "issued": moment(manifest.issued), "words": words}
    return told | {"as": QUERY, "words": QUERIED} if hindrance is None else told


def describe_own_model(circle: Peers, link: Link) -> dict[str, Any]:
    """What a peer may do with our model."""
    rights, held = circle.configuration.rights.get(link.name, frozenset()), find_held_version(link)
    if COPY in rights:
        lacking = circle.copies.offer_lacking
        words = f"it may copy it, but cannot: {lacking}" if lacking else "it may copy it"
        words = "it holds a copy" if held else words
    else:
        words = "it may query it" if QUERY in rights else "it may not use it"
        words += "; it holds an earlier copy" if held else ""
    return {"copy": COPY in rights, "query": QUERY in rights, "held": held, "words": words}


def find_held_version(link: Link) -> str | None:
    """The version of our model that a peer has a copy of, as it last said."""
    return (link.description.held_copy or None) if link.description is not None else None


def describe_witnesses(circle: Peers, what: str) -> str:
    """Who outside will see a row that is asked about on the page now, in words. `what`: "this row" or "these rows"."""
    seat, links = circle.scores.seat, circle.links
    queried = [
        name for name, link in sorted(links.items())
        if name not in seat.copies and circle.find_hindrance(link, seat) is None and not circle.no_view
    ]  # fmt: skip
    asked = sorted(links.keys() - circle.without_evidence().keys()) if circle.configuration.pooled else []
    joined = [name for name in asked if name not in queried]
    copies = [name for name in sorted(links) if name in seat.copies and name not in asked]
    away = [
        name for name, link in sorted(links.items())
        if link.trouble is not None and (circle.configuration.pooled or (name not in copies and QUERY in link.peer.use))
    ]  # fmt: skip
    return " ".join(_witness_words(what, queried, joined, copies, away))


def _witness_words(
    what: str, queried: Sequence[str], joined: Sequence[str], copies: Sequence[str], away: Sequence[str]
) -> Iterable[str]:
    if queried:
        models = "its model is" if len(queried) == 1 else "their models are"
        yield f"{what.capitalize()} will be seen by {_listed(queried)}: {models} queried."
    if joined:
        yield f"For the consensus {what} will be seen by {_listed(joined)}{' too' if queried else ''}."
    if not queried and not joined:
        yield f"Nobody outside will see {what}."
    if len(copies) == 1:
        yield f"The model of {copies[0]} is here as a copy: {copies[0]} sees nothing."
    elif copies:
        yield f"The models of {_listed(copies)} are here as copies: they see nothing."
    if away:
        yield f"If {_listed(away)} can be reached by then, {'it' if len(away) == 1 else 'they'} may see {what} too."


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
