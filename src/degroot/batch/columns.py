"""Columns: an answer as columns of a table."""

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from degroot.answers import FIELDS, MISSING, Consensus, Flag
from degroot.exceptions import InvalidInput

FLAGS = "flags"  # beside MISSING, a column of text: who was left out or could not be checked
ALL = (*FIELDS, FLAGS, MISSING)
SINGLE = {"weights": "weight", "beliefs": "belief", "sets": "set"}  # what one column of a field is called
BOUNDS = ("lower", "upper", "sets")  # where a coverage was asked for


@dataclass(frozen=True, slots=True)
class Columns:
    """What the columns of an answer are, by the fields, the agents and the outputs."""

    fields: tuple[str, ...]
    agents: tuple[str, ...]
    outputs: tuple[str, ...] | None = None  # classes or numbers; None: a single output
    peers: tuple[tuple[int, ...], ...] | None = None  # whose models each agent scores; None: everybody's

    @property
    def asked(self) -> list[str]:
        """The fields of `Consensus` that have to be computed."""
        return [field for field in self.fields if field in FIELDS] or ["value"]

    @property
    def schema(self) -> pa.Schema:
        """Names and types."""
        return pa.schema([entry for field in self.fields for entry in self._entries(field)])

    def arrays(self, answer: Consensus) -> list[pa.Array]:
        """The columns, in the order of the schema."""
        if answer.names != self.agents:
            raise InvalidInput(
                f"The agents must stay the same; they were {', '.join(self.agents)} and are {', '.join(answer.names)}."
            )
        return [array for field in self.fields for array in self._arrays(field, answer)]

    def _entries(self, field: str) -> list[tuple[str, pa.DataType]]:
        if field in (FLAGS, MISSING):
            return [(field, pa.string())]
        names = [SINGLE.get(field, field)]
        if field == "trust":
            names = [f"trust_{agent}_{self.agents[j]}" for agent, scored in self._scored() for j in scored]
        elif field not in ("value", "standard_error", *BOUNDS):
            names = [f"{name}_{agent}" for name in names for agent in self.agents]
        if self.outputs is not None and field not in ("weights", "trust"):
            names = [f"{name}_{output}" for name in names for output in self.outputs]
        return [(name, pa.bool_() if field == "sets" else pa.float64()) for name in names]

    def _scored(self) -> Iterable[tuple[str, Iterable[int]]]:
        everybody = range(len(self.agents))
        return zip(self.agents, self.peers or [everybody for _ in everybody], strict=True)

    def _arrays(self, field: str, answer: Consensus) -> list[pa.Array]:
        if field in (FLAGS, MISSING):
            return [_told(field, answer)]
        values = np.asarray(getattr(answer, field))
        flat = values.reshape(len(values), -1)
        return [pa.array(np.ascontiguousarray(column)) for column in flat.T]


def _told(field: str, answer: Consensus) -> pa.Array:
    """What is told of each row, joined: ``agent`` for those that were missing, ``agent: reason`` for the others."""
    M = len(next(np.asarray(values) for values in _given(answer)))
    rows: list[str] = [""] * M
    for flag in answer.flags:
        if (reason_of(flag) == MISSING) == (field == MISSING):
            text = flag.agent if field == MISSING else f"{flag.agent}: {reason_of(flag)}"
            for row in flag.points.tolist():
                rows[row] = f"{rows[row]};{text}" if rows[row] else text
    return pa.array(rows, pa.string())


def _given(answer: Consensus) -> Iterable[Any]:
    return (values for values in (getattr(answer, field) for field in FIELDS) if values is not None)


def reason_of(flag: Flag) -> str:
    """In short, without what is only of interest at one place."""
    return flag.reason.partition(":")[0]


def output_names(outputs: int | None, classes: Iterable[str] = ()) -> tuple[str, ...] | None:
    """What outputs are called: by the class, which comes as Python writes it, or by the number; None for one output.

    Examples
    --------
    >>> output_names(2, ["'cat'", "'dog'"]), output_names(2), output_names(None)
    (('cat', 'dog'), ('0', '1'), None)
    """
    labels = tuple(map(_label, classes))
    return labels or (None if outputs is None else tuple(str(k) for k in range(outputs)))


def _label(written: str) -> str:
    try:
        return str(ast.literal_eval(written))
    except (ValueError, SyntaxError):  # a node may call a class as it likes
        return written


def check_fields(fields: Sequence[str]) -> None:
    """Refuse fields that nobody knows, one that is there twice, and none at all."""
    if not fields or len(set(fields)) < len(fields) or not set(fields) <= set(ALL):
        raise InvalidInput(f"Fields must be different ones of {', '.join(ALL)}; got {', '.join(fields) or 'none'}.")
