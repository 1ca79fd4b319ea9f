"""Groups: from the labels of rows to the agents that are called so, and ask about them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.compute.tables import is_missing

SHOWN = 5  # labels in a message


@dataclass(frozen=True, slots=True)
class Unmatched:
    """Rows whose label is no agent's name."""

    rows: int = 0
    labels: tuple[str, ...] = ()  # the first few, each once, as Python writes them; one more than are shown

    @classmethod
    def joined(cls, several: Iterable["Unmatched"]) -> "Unmatched":
        """Those of several runs of rows together."""
        told = list(several)
        labels = dict.fromkeys(label for each in told for label in each.labels)
        return cls(sum(each.rows for each in told), tuple(labels)[: SHOWN + 1])

    def describe(self, of: int, label: str) -> str:
        """What is to be said of them, out of so many rows.

        Examples
        --------
        >>> Unmatched(3, ("'x'", "'y'")).describe(10, "a group")
        "3 of 10 rows have a group that is no agent with a view of its own ('x', 'y'): they get the neutral consensus"
        """
        shown = ", ".join(self.labels[:SHOWN]) + (" ..." if len(self.labels) > SHOWN else "")
        have, they_get = ("has", "it gets") if self.rows == 1 else ("have", "they get")
        rows = f"{self.rows:,} of {of:,} {'row' if of == 1 else 'rows'} {have} {label}"
        return f"{rows} that is no agent with a view of its own ({shown}): {they_get} the neutral consensus"


def match_groups(labels: NDArray[Any], names: Sequence[str]) -> tuple[NDArray[Any], Unmatched]:
    """The name of the agent that each of `labels` (M,) stands for, None where there is none; and what those are.

    A label stands for the agent whose name is its text, as when groups are made agents; also without blanks around it,
    and a whole number with ``.0`` or without, as it is written where numbers are missing.

    Examples
    --------
    >>> match_groups(np.array(["north", "", "east"]), ["north", "south"])
    (array(['north', None, None], dtype=object), Unmatched(rows=2, labels=('missing', "'east'")))
    >>> match_groups(np.array([1.0, 2.0]), ["1", "2"])[0]
    array(['1', '2'], dtype=object)
    """
    known, found = set(names), dict[str, str | None]()
    askers, strange = np.empty(len(labels), object), dict[str, None]()
    for row, (label, missing) in enumerate(zip(labels, is_missing(labels, empty=True), strict=True)):
        text = "" if missing else str(label)
        if text not in found:
            spellings = () if missing else _list_spellings(text)
            found[text] = next((each for each in spellings if each in known), None)
        askers[row] = found[text]
        if found[text] is None and len(strange) <= SHOWN:
            strange["missing" if missing else repr(text)] = None
    return askers, Unmatched(sum(asker is None for asker in askers), tuple(strange))


def _list_spellings(text: str) -> tuple[str, ...]:
    """The ways in which the name of an agent may be written where a label is `text`."""
    bare = text.strip()
    whole = bare.removesuffix(".0")
    return (text, bare, whole, f"{whole}.0") if whole.removeprefix("-").isdigit() else (text, bare)
