"""Filling in: entries of a configuration with comments, which keeps its comments."""

import re
from collections.abc import Mapping
from typing import Any

from degroot.exceptions import InvalidInput
from degroot.files.toml import toml_text


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
        found = re.match(r"(?:# )?([a-z_]+) = (?:\"[^\"]*\"|\[[^]]*\]|\S+)", line)
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
