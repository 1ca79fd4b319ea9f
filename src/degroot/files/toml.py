"""TOML files: tables whose entries are taken one by one, each checked; keys that nobody knows are refused."""

import difflib
import json
import math
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from degroot.exceptions import InvalidInput
from degroot.files.atomic import read_regular


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


def toml_line(place: tuple[str, ...], entries: Mapping[str, Any]) -> str:
    """One line of a TOML file that gives a table these entries.

    Examples
    --------
    >>> toml_line(("columns", "size in m"), {"factor": 1000, "values": {"?": ""}})
    'columns."size in m" = { factor = 1000, values = { "?" = "" } }'
    """
    return f"{'.'.join(map(_key, place))} = {_inline(entries)}"


def _inline(value: Any) -> str:
    if not isinstance(value, Mapping):
        return _value(value)
    return f"{{ {', '.join(f'{_key(key)} = {_inline(each)}' for key, each in value.items())} }}"


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
    if hasattr(value, "item"):  # a number of numpy's
        value = value.item()
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"[{', '.join(map(_value, value))}]" if isinstance(value, list | tuple) else repr(value)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Table:
    """One table of a TOML file: its entries, the file, and where in the file it stands."""

    entries: dict[str, Any]
    path: Path
    place: str = ""

    @classmethod
    def read(cls, path: Path, known: Collection[str], what: str = "configuration") -> "Table":
        """The table that is the whole file; `what` is how messages call it."""
        try:
            content = read_regular(path)
        except OSError as error:
            raise InvalidInput(f"The {what} must be a TOML file; {path}: {error.strerror}.") from error
        return cls.parse(content, path, known, what)

    @classmethod
    def parse(cls, content: bytes, path: Path, known: Collection[str], what: str = "configuration") -> "Table":
        """The same of what a file at `path` holds."""
        try:
            entries = tomllib.loads(content.decode())
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise InvalidInput(f"The {what} must be a TOML file; {path}: {error}.") from error
        return cls(entries, path).only(known)

    def only(self, known: Collection[str]) -> "Table":
        """Itself, if all its keys are known."""
        for key in self.entries:
            if key not in known:
                near = difflib.get_close_matches(key, known, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}."
                raise InvalidInput(f"{self.path}: every key must be a known one; got {self.where(key)}: {hint}")
        return self

    def where(self, key: str) -> str:
        """What messages call this entry."""
        return f"`{self.place}.{key}`" if self.place else f"`{key}`"

    def what(self, key: str) -> str:
        """The beginning of a message about this entry."""
        return f"{self.path}: {self.where(key)}"

    def refusal(self, key: str, requirement: str) -> InvalidInput:
        """The error that says what this entry must be, and what it is."""
        came = f"got {self.entries[key]!r}" if key in self.entries else "it is missing"
        return InvalidInput(f"{self.what(key)} must {requirement}; {came}.")

    def take(self, key: str, fits: Callable[[Any], bool], requirement: str) -> Any:
        """The entry, if it is there and fits."""
        if key not in self.entries or not fits(self.entries[key]):
            raise self.refusal(key, requirement)
        return self.entries[key]

    def text(self, key: str) -> str:
        """A string that is not empty."""
        text: str = self.take(key, _is_text, "be a string that is not empty")
        return text

    def file(self, key: str) -> Path:
        """A path, relative to the folder of the TOML file."""
        text = self.text(key)
        if "\0" in text:
            raise self.refusal(key, "be a path")
        return self.path.absolute().parent / Path(text).expanduser()

    def flag(self, key: str) -> bool:
        """True or false."""
        return bool(self.take(key, lambda value: isinstance(value, bool), "be true or false"))

    def whole(self, key: str, least: int = 1, most: int | None = None) -> int:
        """A whole number in a range."""
        span = f"from {least} to {most}" if most is not None else f"of at least {least}"

        def fits(value: Any) -> bool:
            return _is_whole(value) and value >= least and (most is None or value <= most)

        return int(self.take(key, fits, f"be a whole number {span}"))

    def number(self, key: str, zero: bool = False) -> float:
        """A finite number above 0, or also 0."""
        requirement = "that is not negative" if zero else "above 0"

        def fits(value: Any) -> bool:
            return _is_number(value) and (value > 0 or (zero and value == 0))

        return float(self.take(key, fits, f"be a finite number {requirement}"))

    def choice(self, key: str, known: Iterable[str]) -> str:
        """One of the known strings."""
        allowed = list(known)
        return str(
            self.take(key, lambda value: _is_text(value) and value in allowed, f"be one of {_list_values(allowed)}")
        )

    def texts(self, key: str, known: Iterable[str] | None = None) -> tuple[str, ...]:
        """Distinct strings, at least one unless they are from known ones; a single string counts as a list."""
        allowed = None if known is None else list(known)
        which = (
            "distinct strings that are not empty" if allowed is None else f"distinct ones of {_list_values(allowed)}"
        )

        def fits(value: Any) -> bool:
            values = value if isinstance(value, list) else [value]
            return (
                all(_is_text(text) and (allowed is None or text in allowed) for text in values)
                and len(set(values)) == len(values)
                and (bool(values) or allowed is not None)
            )

        value = self.take(key, fits, f"be {which}")
        return tuple(value) if isinstance(value, list) else (value,)

    def labels(self, key: str) -> tuple[str, ...] | tuple[int, ...]:
        """At least two distinct labels, all strings or all whole numbers."""

        def fits(value: Any) -> bool:
            alike = isinstance(value, list) and (all(map(_is_text, value)) or all(map(_is_whole, value)))
            return alike and len(value) >= 2 and len(set(value)) == len(value)

        requirement = "be at least two distinct labels, all strings or all whole numbers"
        return tuple(self.take(key, fits, requirement))

    def table(self, key: str, known: Collection[str]) -> "Table":
        """The table under this key."""
        entries = self.take(key, lambda value: isinstance(value, dict), f"be a table, [{key}]")
        return Table(entries, self.path, f"{self.place}.{key}" if self.place else key).only(known)

    def tables(self, key: str, known: Collection[str]) -> list["Table"]:
        """The tables under this key, if any."""
        if key not in self.entries:
            return []
        several = self.take(
            key, lambda value: isinstance(value, list) and all(isinstance(entry, dict) for entry in value),
            f"be a list of tables, [[{key}]]",
        )  # fmt: skip
        return [Table(entries, self.path, f"{key}[{k}]").only(known) for k, entries in enumerate(several, 1)]

    def given(self, key: str, take: Callable[[str], T], default: T) -> T:
        """What `take` makes of the entry, or `default` where there is none."""
        return take(key) if key in self.entries else default


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _list_values(values: Iterable[str]) -> str:
    return ", ".join(map(repr, values))
