"""The configuration that a new node begins with: a text with comments, and the entries that are filled in."""

import re
from collections.abc import Iterable, Mapping
from importlib.resources import files
from string import Template
from typing import Any

from degroot.exceptions import InvalidInput
from degroot.files.addresses import LAST_PORT, split
from degroot.files.toml import toml_text
from degroot.node.config.names import check_name

LISTEN = "0.0.0.0:7443"
BESIDE = 1000  # how far the port of the page is from the one for peers, if nobody says where it is


def template(
    name: str,
    listen: str = LISTEN,
    peers: Iterable[tuple[str, str]] = (),
    clients: Iterable[str] = (),
    page: int | None = None,
) -> str:
    """A configuration for the node `name` with comments, to be filled in. `peers`: names and addresses.

    `page`: the port of the node's page; by default `BESIDE` above the one for peers, or below where there is none.
    """
    text = files("degroot.node").joinpath("templates", "node.toml").read_text(encoding="utf-8")
    _, port = split(listen, "The address to listen on")
    page = page or (port + BESIDE if port + BESIDE <= LAST_PORT else port - BESIDE)
    text = Template(text).substitute(name=check_name(name), listen=listen, page=page)
    for peer, address in peers:
        split(address, f"The address of {check_name(peer, 'The name of a peer')!r}")
        text += f'\n[[peers]]\nname = "{peer}"\naddress = "{address}"\n'
    for client in clients:
        text += f'\n[[clients]]\nname = "{check_name(client, "The name of a client")}"\n'
    return text


def filled(text: str, entries: Mapping[str, Mapping[str, Any]]) -> str:
    r"""The text with these entries of its tables, in the place of those that are there or stand as comments.

    Examples
    --------
    >>> print(filled('[data]\n# space = "standardise"  # of distances\n', {"data": {"space": "none"}}), end="")
    [data]
    space = "none"  # of distances
    """
    lines, table = text.splitlines(), ""
    left = {(name, key): value for name, keys in entries.items() for key, value in keys.items()}
    for place, line in enumerate(lines):
        heading = re.match(r"\[+([a-z]+)\]+", line)
        table = heading[1] if heading else table
        found = re.match(r"(?:# +)?([a-z_]+) = (?:\"[^\"]*\"|\[[^]]*\]|\S+)", line)
        if found and (table, found[1]) in left:
            told = toml_text({found[1]: left.pop((table, found[1]))}).strip()
            rest = line[found.end() :]
            lines[place] = told + (rest[len(told) - found.end() :] if _has_room(rest, told, found.end()) else rest)
    if left:
        raise InvalidInput(f"A configuration must have a place for {', '.join('.'.join(key) for key in left)}.")
    return "\n".join(lines) + "\n"


def _has_room(rest: str, told: str, end: int) -> bool:
    """Whether the comment behind can stay in its column."""
    more = len(told) - end
    return 0 < more < len(rest) - len(rest.lstrip())
