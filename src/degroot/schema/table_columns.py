"""Columns of single tables, as inference looks at them, and the lines about those that cannot be taken."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from degroot.exceptions import InvalidInput
from degroot.schema.columns import SiteColumn, is_number, normalise_text, share_text
from degroot.schema.labels import sort_texts
from degroot.schema.notation import NumberNotation
from degroot.schema.sites import site_beside, write_line

MAX_GAP_TEXTS = 8  # different texts among numbers that may stand for gaps


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of one table, and how its site writes it."""

    where: str
    values: NDArray[Any]
    site: SiteColumn

    @property
    def is_numeric(self) -> bool:
        """Whether it holds numbers as they are."""
        return self.values.dtype.kind in "fiu" and not self.site.values

    def count_texts(self) -> Counter[str]:
        """How often each text is there, as the schema is to call it; gaps are not counted."""
        renamed = dict(self.site.values)
        if self.values.dtype.kind in "fiub":
            distinct, counts = np.unique(self.values, return_counts=True)
            found = Counter(dict(zip(distinct.tolist(), counts.tolist(), strict=True)))
        else:
            found = Counter(_hashable(value) for value in self.values.tolist())
        texts: Counter[str] = Counter()
        for value, count in found.items():
            texts[self._read(value, renamed)] += count
        del texts[""]
        return texts

    def _read(self, value: Any, renamed: Mapping[str, str]) -> str:
        """The text that the schema has for a value; a number in the site's notation is written plainly."""
        text = share_text(value, renamed)
        if self.site.parses_numbers and is_number(number := self.site.plain_number(text)):
            return number
        return text

    def find_row(self, text: str) -> int:
        """The first row, from 1, with this text."""
        renamed = dict(self.site.values)
        rows = enumerate(self.values.tolist(), 1)
        return next((row for row, value in rows if self._read(value, renamed) == text), 0)

    def has_word(self, word: str) -> bool:
        """Whether it has this word, which the site does not rename."""
        is_text, renamed = self.values.dtype.kind not in "fiubM", dict(self.site.values)
        return is_text and word not in renamed and any(value == word for value in self.values.tolist())


def _hashable(value: Any) -> Any:
    """A value as a key, the same for all gaps; True is not 1."""
    if isinstance(value, bool):
        return normalise_text(value)
    try:
        hash(value)
    except TypeError:
        return str(value)
    return None if isinstance(value, float) and value != value else value


# ---- what is refused -------------------------------------------------------------------------------------------------


def refuse_nested(name: str, part: TableColumn) -> None:
    """Refuse values that are no single ones: lists, tables, and bytes that are no text."""
    if part.values.dtype.kind != "O":
        return
    for row, value in enumerate(part.values.tolist(), 1):
        if isinstance(value, list | tuple | dict | set | np.ndarray | bytes):
            what = "bytes that are no UTF-8 text" if isinstance(value, bytes) else "lists or tables of values"
            raise InvalidInput(
                f"{part.where}: row {row}: column {name!r} must hold one value in each row; it holds {what}. To go on: "
                f"leave the column out (--ignore {quote(name)})."
            )


def refuse_values(
    name: str, parts: Sequence[TableColumn], texts: Sequence[str], requirement: str, count: int
) -> NoReturn:
    """Refuse texts that are no values of a column, in so many rows."""
    part = next(part for part in parts if part.find_row(texts[0]))
    others, site = f" (and {count - 1} more rows like it)" if count > 1 else "", site_beside(Path(part.where))
    raise InvalidInput(
        f"{part.where}: row {part.find_row(texts[0])}: column {name!r} must hold {requirement}; got {texts[0]!r}"
        f"{others}. To go on: correct it, leave the column out (--ignore {quote(name)}), or write in {site}, which "
        f"makes gaps of them: {write_gaps(name, texts)}."
    )


def write_gaps(name: str, texts: Sequence[str]) -> str:
    """The line of a site file that makes gaps of the first of these texts."""
    return write_line(name, values=dict.fromkeys(texts[:MAX_GAP_TEXTS], ""))


def refuse_notation(name: str, part: TableColumn, text: str, notations: Sequence[NumberNotation]) -> NoReturn:
    """Refuse numbers whose commas may be decimal marks or stand between thousands."""
    lines = [
        write_line(name, **{key: value for key, value in (("decimal", each.decimal), ("strip", each.strip)) if value})
        for each in notations
    ]
    raise InvalidInput(
        f"{part.where}: column {name!r} must hold numbers in a clear notation; the comma of {text!r} may be a decimal "
        f"mark or stand between thousands. To go on: write in {site_beside(Path(part.where))}: {lines[0]} (thousands) "
        f"or {lines[1]} (decimal)."
    )


def refuse_kinds(
    name: str, numbers: Sequence[TableColumn], wordy: Sequence[TableColumn], counts: Mapping[str, Counter[str]]
) -> NoReturn:
    """Refuse numbers in some tables and texts in others; the fewer are those to be mapped."""
    words, coded = sort_texts(counts[wordy[0].where]), sort_texts(numbers[0].count_texts())
    told = [(numbers, f"numbers such as {coded[0]}", coded), (wordy, f"texts such as {words[0]!r}", words)]
    (most, what, ours), (few, other, theirs) = sorted(told, key=lambda each: -len(each[0]))
    site, left_out = site_beside(Path(few[0].where)), f"leave the column out: --ignore {quote(name)}"
    if len(theirs) <= MAX_GAP_TEXTS and len(ours) <= MAX_GAP_TEXTS:
        pairs = dict(zip(theirs, (*ours, *[""] * len(theirs)), strict=False))
        remedy = f"write in {site} which is which, for example: {write_line(name, values=pairs)}; or {left_out}"
    else:
        remedy = left_out
    raise InvalidInput(
        f"Column {name!r} must be of one kind; {most[0].where} has {what}, {few[0].where} {other}. To go on: {remedy}."
    )


def refuse_undated(name: str, dates: TableColumn, numbers: TableColumn) -> NoReturn:
    """Refuse numbers in one table where another has dates."""
    raise InvalidInput(
        f"Column {name!r} must be of one kind; {dates.where} has dates, {numbers.where} numbers. To go on: if they are "
        f"dates such as 20240131, write in {site_beside(Path(numbers.where))}: {write_line(name, format='%Y%m%d')}; if "
        f"not, leave the column out: --ignore {quote(name)}."
    )
