"""Answers as columns of a table, and in one line."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from degroot.answers.answer import Consensus
from degroot.answers.columns import BOUNDS, MAX_WEIGHTS, USUAL, Columns, add_bounds
from degroot.answers.display import one_line
from degroot.answers.display.words import output_names
from degroot.answers.flags import MISSING, Flag
from degroot.answers.frame import FLAGS, LABEL


def columns(
    answer: Consensus, classes: Sequence[str] = (), fields: Sequence[str] | None = None
) -> dict[str, list[Any]]:
    """The fields that were asked for, and bounds if there are any, as columns.

    By default the most likely class, and what is known of value, standard error, bounds and everybody's weight; who was
    missing; what else is told.
    """
    shape = np.asarray(answer.value).shape
    if fields is None:
        known = [name for name in (*USUAL[:2], *BOUNDS, *USUAL[2:]) if getattr(answer, name) is not None]
        fields = (*([LABEL] if classes else []), *known, MISSING, FLAGS)
    else:
        fields = add_bounds(fields, answer.coverage, classes)
    made = Columns(tuple(fields), answer.names, output_names(shape[1] if len(shape) > 1 else None, classes))
    return made.lists(answer)


def describe_omitted(fields: Sequence[str], omitted: Sequence[str]) -> str:
    """What was left out of the usual columns, and how it is asked for.

    Examples
    --------
    >>> describe_omitted(["value", "standard_error"], ["weights"])
    'Left out, as there are more than 20 agents: weights. To write them: --fields value,standard_error,weights'
    """
    names = ",".join((*fields, *omitted))
    return (
        f"Left out, as there are more than {MAX_WEIGHTS} agents: {', '.join(omitted)}. To write them: --fields {names}"
    )


def summary(answer: Consensus) -> str:
    """How many rows and agents, who was missing and why, who was flagged, and how many rounds it took, if any."""
    M, missing, others = len(np.asarray(answer.value)), *_split_flags(answer.flags)
    parts = [f"{M} rows, {len(answer.names)} agents"]
    for what, flags in ((MISSING, missing), ("flagged", others)):
        told = (f"{flag.agent} ({_reason(flag)}{_where(flag, M)})" for flag in flags)
        parts += [f"{what}: {', '.join(told)}"] if flags else []
    parts += [f"{answer.rounds} rounds"] if answer.rounds else []
    return "; ".join(parts)


def _split_flags(flags: Iterable[Flag]) -> tuple[list[Flag], list[Flag]]:
    """Who was missing, and all other flags."""
    flags = list(flags)
    missing = [flag for flag in flags if flag.kind == MISSING]
    return missing, [flag for flag in flags if flag.kind != MISSING]


def _reason(flag: Flag) -> str:
    return flag.about if flag.kind == MISSING else flag.kind


def _where(flag: Flag, M: int) -> str:
    return "" if len(flag.points) == M else f", at {len(flag.points)} rows"


SHOWN = 10  # rows
FRAME = 3  # signs between two columns
WEIGHT = "weight_"


class ShownColumn(NamedTuple):
    """A head, and the cells below it."""

    head: str
    cells: list[str]
    words: bool

    @property
    def width(self) -> int:
        return max(map(len, (self.head, *self.cells)))


def show(answer: Consensus, classes: Sequence[str] = ()) -> None:
    """Print the first rows; what the flags are is in the summary."""
    console, told = Console(), columns(answer, classes)
    weights = [_column(name, cells) for name, cells in told.items() if name.startswith(WEIGHT)]
    first = _classes(answer, classes) if classes else _numbers(told)
    last = [_column(MISSING, told[MISSING])] if any(told[MISSING]) else []
    sheet = [*first, *weights, *last]
    if weights and 1 + sum(FRAME + column.width for column in sheet) > console.width:
        sheet = [*first, _largest(answer), *last]
    console.print(_table(sheet, f"The first {SHOWN} rows" if answer.points > SHOWN else None))


def _numbers(told: dict[str, list[Any]]) -> list[ShownColumn]:
    """Values, standard errors and bounds."""
    others = (MISSING, FLAGS)
    return [_column(name, cells) for name, cells in told.items() if not name.startswith(WEIGHT) and name not in others]


def _classes(answer: Consensus, classes: Sequence[str]) -> list[ShownColumn]:
    """The most likely class with its probability, and the set of classes if there is one."""
    value = np.asarray(answer.value)
    names = output_names(value.shape[1], classes) or ()
    found = [_column("class", [names[q] for q in value.argmax(axis=1)]), _column("probability", value.max(axis=1))]
    if answer.sets is not None:
        found.append(_column("set", [", ".join(names[q] for q in np.flatnonzero(held)) for held in answer.sets]))
    return found


def _largest(answer: Consensus) -> ShownColumn:
    """Who has the largest weight, where there is no room for everybody's."""
    weights = np.asarray(answer.weights)
    first = zip(weights.argmax(axis=1), weights.max(axis=1), strict=True)
    return _column("largest weight", [f"{one_line(answer.names[k])} {weight:.4g}" for k, weight in first])


def _column(name: str, cells: Sequence[Any] | np.ndarray[Any, Any]) -> ShownColumn:
    words = isinstance(cells[0], str)
    first = [one_line(cell, 60) if words else f"{cell:.4g}" for cell in cells[:SHOWN]]
    return ShownColumn(one_line(name.replace("_", " ")), first, words)


def _table(sheet: Sequence[ShownColumn], title: str | None) -> Table:
    table = Table(title=title)
    for column in sheet:
        table.add_column(Text(column.head), justify="left" if column.words else "right")
    for row in zip(*(column.cells for column in sheet), strict=True):
        table.add_row(*map(Text, row))
    return table
