"""Columns: an answer as columns of a table."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from degroot.answers.answer import ASKER_FIELDS, FIELDS, Consensus
from degroot.answers.flags import MISSING
from degroot.answers.frame import FLAGS, column_names, notes
from degroot.exceptions import InvalidInput

CORRECTION = "correction"  # of an asker's view
ALL = (*FIELDS, CORRECTION, FLAGS, MISSING)
BOUNDS = ("lower", "upper", "sets")  # where a coverage was asked for


@dataclass(frozen=True, slots=True)
class Columns:
    """What the columns of an answer are, by the fields, the agents and the outputs."""

    fields: tuple[str, ...]
    agents: tuple[str, ...]
    outputs: tuple[str, ...] | None = None  # classes or numbers; None: a single output
    peers: tuple[tuple[int, ...], ...] | None = None  # whose models each agent scores; None: everybody's

    @property
    def computed_fields(self) -> list[str]:
        """The fields of `Consensus` that have to be computed."""
        return [field for field in self.fields if field in (*FIELDS, *ASKER_FIELDS)] or ["value"]

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
        names = column_names(field, self.agents, self.outputs, self.peers)
        return [(name, pa.bool_() if field == "sets" else pa.float64()) for name in names]

    def _arrays(self, field: str, answer: Consensus) -> list[pa.Array]:
        if field in (FLAGS, MISSING):
            return [pa.array(notes(answer, missing=field == MISSING), pa.string())]
        if getattr(answer, field) is None:
            raise InvalidInput(f"Answers must have the field {field!r}; it was not asked for, or there is no coverage.")
        values = np.asarray(getattr(answer, field))
        flat = values.reshape(len(values), -1)
        return [pa.array(np.ascontiguousarray(column)) for column in flat.T]


def check_fields(fields: Sequence[str]) -> None:
    """Refuse fields that nobody knows, one that is there twice, and none at all."""
    if not fields or len(set(fields)) < len(fields) or not set(fields) <= set(ALL):
        raise InvalidInput(f"Fields must be different ones of {', '.join(ALL)}; got {', '.join(fields) or 'none'}.")
