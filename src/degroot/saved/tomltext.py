"""TOML, written."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np


def toml_text(entries: Mapping[str, Any]) -> str:
    """A TOML file with these entries: plain values first, then tables and lists of tables. What is None is left out.

    Examples
    --------
    >>> print(toml_text({"rule": "degroot", "ridge": None, "agents": [{"name": "north", "scored": [0, 2]}]}))
    rule = "degroot"
    <BLANKLINE>
    [[agents]]
    name = "north"
    scored = [0, 2]
    <BLANKLINE>
    """
    return "".join(f"{line}\n" for line in _lines(entries, ()))


def _lines(entries: Mapping[str, Any], place: tuple[str, ...]) -> list[str]:
    plain = {key: value for key, value in entries.items() if value is not None and not _is_nested(value)}
    lines = [f"{_key(key)} = {_value(value)}" for key, value in plain.items()]
    for key, value in entries.items():
        if _is_nested(value):
            inner = (*place, key)
            name = ".".join(map(_key, inner))
            for each in value if isinstance(value, list) else [value]:
                lines += ["", f"[[{name}]]" if isinstance(value, list) else f"[{name}]", *_lines(each, inner)]
    return lines


def _is_nested(value: Any) -> bool:
    return isinstance(value, Mapping) or (isinstance(value, list) and bool(value) and isinstance(value[0], Mapping))


def _key(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() and key.isascii() else _text(key)


def _value(value: Any) -> str:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"[{', '.join(map(_value, value))}]" if isinstance(value, list | tuple) else repr(value)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
