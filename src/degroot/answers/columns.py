"""Columns: an answer as columns of a table."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from degroot.answers.answer import ASKER_FIELDS, FIELDS, Consensus, interval_fields
from degroot.answers.flags import MISSING
from degroot.answers.frame import FLAGS, LABEL, column_names, likeliest, notes
from degroot.exceptions import InvalidInput

if TYPE_CHECKING:
    import pyarrow as pa

CORRECTION = "correction"  # of an asker's view
WEIGHTS = "weights"
ALL = (LABEL, *FIELDS, CORRECTION, FLAGS, MISSING)
TEXTS = (LABEL, FLAGS, MISSING)
BOUNDS = ("lower", "upper", "sets")  # where a coverage was asked for
USUAL = ("value", "standard_error", WEIGHTS)  # written by default
MAX_WEIGHTS = 20  # columns of weights by default: those of more agents are written where they are asked for


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
        computed = [field for field in self.fields if field in (*FIELDS, *ASKER_FIELDS)]
        return computed if computed and (LABEL not in self.fields or "value" in computed) else ["value", *computed]

    @property
    def schema(self) -> "pa.Schema":
        """Names and types."""
        import pyarrow as pa

        def find_type(field: str) -> pa.DataType:
            return pa.string() if field in TEXTS else pa.bool_() if field == "sets" else pa.float64()

        return pa.schema([(name, find_type(field)) for field in self.fields for name in self._names(field)])

    def arrays(self, answer: Consensus) -> "list[pa.Array]":
        """The columns, in the order of the schema."""
        import pyarrow as pa

        return [
            pa.array(values, pa.string()) if field in TEXTS else pa.array(np.ascontiguousarray(values))
            for field, _, values in self._list(answer)
        ]

    def lists(self, answer: Consensus) -> dict[str, list[Any]]:
        """The columns as lists, by name."""
        return {
            name: np.asarray(values, object if field in TEXTS else None).tolist()
            for field, name, values in self._list(answer)
        }

    def _list(self, answer: Consensus) -> Iterator[tuple[str, str, Any]]:
        """Every column: its field, its name and its values."""
        if answer.names != self.agents:
            raise InvalidInput(
                f"The agents must stay the same; they were {', '.join(self.agents)} and are {', '.join(answer.names)}."
            )
        for field in self.fields:
            for name, values in zip(self._names(field), self._values(field, answer), strict=True):
                yield field, name, values

    def _names(self, field: str) -> list[str]:
        return [field] if field in TEXTS else column_names(field, self.agents, self.outputs, self.peers)

    def _values(self, field: str, answer: Consensus) -> Sequence[Any]:
        if field in (FLAGS, MISSING):
            return [notes(answer, missing=field == MISSING)]
        if field == LABEL:
            return [likeliest(answer, self.outputs or ())]
        if getattr(answer, field) is None:
            raise InvalidInput(f"Answers must have the field {field!r}; it was not asked for, or there is no coverage.")
        values = np.asarray(getattr(answer, field))
        return list(values.reshape(len(values), -1).T)


def check_fields(fields: Sequence[str]) -> None:
    """Refuse fields that nobody knows, one that is there twice, and none at all."""
    if not fields or len(set(fields)) < len(fields) or not set(fields) <= set(ALL):
        raise InvalidInput(f"Fields must be different ones of {', '.join(ALL)}; got {', '.join(fields) or 'none'}.")


def choose_fields(
    agents: Sequence[str], classes: Sequence[str], known: Sequence[str] = USUAL
) -> tuple[list[str], list[str]]:
    """The fields that are written where nobody says which, and those of the `known` ones that are left out.

    Of classes, the most likely one comes first. Weights are left out where they would be more than 20 columns.

    Examples
    --------
    >>> choose_fields(["north", "south"], ["'cat'", "'dog'"])
    (['label', 'value', 'standard_error', 'weights'], [])
    >>> choose_fields([f"agent {k}" for k in range(21)], [])
    (['value', 'standard_error'], ['weights'])
    """
    omitted = [WEIGHTS] if WEIGHTS in known and len(agents) > MAX_WEIGHTS else []
    return [*([LABEL] if classes else []), *(name for name in known if name not in omitted)], omitted


def check_label(fields: Sequence[str], classes: Sequence[str]) -> None:
    """Raise where a label is asked for, and there are no classes."""
    if LABEL in fields and not classes:
        raise InvalidInput(f"The field {LABEL!r} must come with classes; this collective predicts numbers.")


def add_bounds(fields: Sequence[str], coverage: float | None, classes: Sequence[str]) -> tuple[str, ...]:
    """The fields; with a coverage, bounds come after the label, the value and its standard error.

    Examples
    --------
    >>> add_bounds(["value", "weights"], 0.9, ())
    ('value', 'lower', 'upper', 'weights')
    """
    after = max((k for k, field in enumerate(fields, 1) if field in (LABEL, "value", "standard_error")), default=0)
    return (*fields[:after], *interval_fields(coverage, classes), *fields[after:])
