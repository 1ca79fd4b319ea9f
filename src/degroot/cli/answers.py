"""Answers as columns of a table, and in one line."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from degroot.answers import MISSING, Consensus, Flag
from degroot.batch import Columns, output_names
from degroot.batch.columns import BOUNDS, FLAGS

FIELDS = ("value", "standard_error", "weights")  # what the columns are made from


def columns(answer: Consensus, classes: Sequence[str] = ()) -> dict[str, list[Any]]:
    """The columns: value, standard error, bounds if any, everybody's weight, who was missing, and what else is told."""
    shape = np.asarray(answer.value).shape
    bounds = [name for name in BOUNDS if getattr(answer, name) is not None]
    fields = (*FIELDS[:2], *bounds, *FIELDS[2:], MISSING, FLAGS)
    made = Columns(fields, answer.names, output_names(shape[1] if len(shape) > 1 else None, classes))
    return dict(zip(made.schema.names, (each.to_pylist() for each in made.arrays(answer)), strict=True))


def summary(answer: Consensus) -> str:
    """How many rows and agents, who was missing and why, who was flagged, and how many rounds it took, if any."""
    M, missing, others = len(np.asarray(answer.value)), *_told(answer.flags)
    parts = [f"{M} rows, {len(answer.names)} agents"]
    for what, flags in ((MISSING, missing), ("flagged", others)):
        told = (f"{flag.agent} ({_reason(flag)}{_where(flag, M)})" for flag in flags)
        parts += [f"{what}: {', '.join(told)}"] if flags else []
    parts += [f"{answer.rounds} rounds"] if answer.rounds else []
    return "; ".join(parts)


def _told(flags: Iterable[Flag]) -> tuple[list[Flag], list[Flag]]:
    """Who was missing, and all other flags."""
    flags = list(flags)
    missing = [flag for flag in flags if flag.kind == MISSING]
    return missing, [flag for flag in flags if flag.kind != MISSING]


def _reason(flag: Flag) -> str:
    return flag.about if flag.kind == MISSING else flag.kind


def _where(flag: Flag, M: int) -> str:
    return "" if len(flag.points) == M else f", at {len(flag.points)} rows"
