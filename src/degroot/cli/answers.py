"""Answers as columns of a table, and in one line."""

import ast
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from degroot.answers import Consensus, Flag
from degroot.node.membership import MISSING

FIELDS = ("value", "standard_error", "weights")  # what the columns are made from


def columns(answer: Consensus, classes: Sequence[str] = ()) -> dict[str, list[Any]]:
    """The columns: value, standard error, everybody's weight, who was missing, and what else is to be known."""
    table = {**_outputs("value", answer.value, classes), **_outputs("standard_error", answer.standard_error, classes)}
    weights = np.asarray(answer.weights)
    table |= {f"weight_{name}": weights[:, k].tolist() for k, name in enumerate(answer.names)}
    missing, others = _told(answer.flags)
    table["missing"] = _listed(len(weights), [(flag, flag.agent) for flag in missing])
    table["flags"] = _listed(len(weights), [(flag, f"{flag.agent}: {_short(flag)}") for flag in others])
    return table


def summary(answer: Consensus) -> str:
    """How many rows and agents, who was missing and why, who was flagged, and how many rounds it took, if any."""
    M, missing, others = len(np.asarray(answer.value)), *_told(answer.flags)
    parts = [f"{M} rows, {len(answer.names)} agents"]
    for what, flags in ((MISSING, missing), ("flagged", others)):
        told = (f"{flag.agent} ({_reason(flag)}{_where(flag, M)})" for flag in flags)
        parts += [f"{what}: {', '.join(told)}"] if flags else []
    parts += [f"{answer.rounds} rounds"] if answer.rounds else []
    return "; ".join(parts)


def _outputs(name: str, values: Any, classes: Sequence[str]) -> dict[str, list[Any]]:
    """One column, or one for each output: by its number, or by its class."""
    values = np.asarray(values)
    if values.ndim == 1:
        return {name: values.tolist()}
    labels = [_label(each) for each in classes] or [str(k) for k in range(values.shape[1])]
    return {f"{name}_{label}": values[:, k].tolist() for k, label in enumerate(labels)}


def _label(written: str) -> str:
    """A class, which comes as Python writes it."""
    try:
        return str(ast.literal_eval(written))
    except (ValueError, SyntaxError):
        return written


def _told(flags: Iterable[Flag]) -> tuple[list[Flag], list[Flag]]:
    """Who was missing, and all other flags."""
    flags = list(flags)
    missing = [flag for flag in flags if _short(flag) == MISSING]
    return missing, [flag for flag in flags if _short(flag) != MISSING]


def _listed(M: int, told: Iterable[tuple[Flag, str]]) -> list[str]:
    """What is told of each of M rows, joined."""
    rows: list[list[str]] = [[] for _ in range(M)]
    for flag, text in told:
        for row in flag.points.tolist():
            rows[row].append(text)
    return [";".join(texts) for texts in rows]


def _short(flag: Flag) -> str:
    return flag.reason.partition(":")[0]


def _reason(flag: Flag) -> str:
    return flag.reason.partition(": ")[2] if _short(flag) == MISSING else _short(flag)


def _where(flag: Flag, M: int) -> str:
    return "" if len(flag.points) == M else f", at {len(flag.points)} rows"
