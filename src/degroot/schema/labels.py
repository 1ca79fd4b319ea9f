"""Labels: the classes of a target, the same however a table writes them."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from degroot.exceptions import InvalidInput
from degroot.schema.columns import Column, is_number, normalise_text
from degroot.schema.sites import Site

MAX_CLASSES = 50  # labels of a target; more are none


def sort_texts(texts: Iterable[str]) -> tuple[str, ...]:
    """Texts in order: those that are numbers by their value, and after others.

    Examples
    --------
    >>> sort_texts(["b", "10", "9", "a"])
    ('a', 'b', '9', '10')
    """
    return tuple(sorted(texts, key=lambda text: (1, float(text), text) if is_number(text) else (0, 0.0, text)))


def check_classes(labels: set[str], name: str, are_numbers: bool) -> tuple[str, ...]:
    """The labels in order; refused where they are too few or too many."""
    listed = sort_texts(labels)
    if not 1 < len(listed) <= MAX_CLASSES:
        came = f"{listed[0]!r} only" if len(listed) == 1 else f"{len(listed)} labels, such as {listed[0]!r}"
        hint = " Without --classes its numbers are predicted." if are_numbers and len(listed) > 1 else ""
        raise InvalidInput(f"A target of classes must have 2 to {MAX_CLASSES} labels; {name!r} has {came}.{hint}")
    return listed


def plain_label(text: str) -> str:
    """A number as a label, the same however a file writes it.

    Examples
    --------
    >>> [plain_label(text) for text in ("1", "1.0", "1e0", "2.50", "007", "high")]
    ['1', '1', '1', '2.5', '007', 'high']
    """
    if text.isdigit() or not is_number(text):
        return text  # all digits of long ones, and zeros at the front, are kept
    number = float(text)
    return str(int(number)) if number.is_integer() else repr(number)


def map_labels(site: Site, target: Column, values: NDArray[Any]) -> Site:
    """The site with numbers as labels of the target, however its table writes them."""
    if not target.is_listed:
        return site
    column = site.column(target.name)
    known = dict(column.values)
    for text in set(map(normalise_text, values.tolist())) - set(known) - set(target.places):
        if plain_label(text) in target.places:
            known[text] = plain_label(text)
    if known == dict(column.values):
        return site
    return replace(site, columns={**site.columns, target.name: replace(column, values=tuple(sorted(known.items())))})
