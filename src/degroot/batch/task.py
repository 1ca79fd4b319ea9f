"""Tasks: what is to be done with every shard. A task can be sent to other processes."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from degroot.agents.agent import Agent
from degroot.answers.answer import Consensus
from degroot.answers.columns import Columns
from degroot.batch.encoding import SchemaEncoding, find_like
from degroot.batch.numbers import numbers, strange
from degroot.batch.shards import Shard
from degroot.compute.compiled import Array
from degroot.compute.tables import is_frame
from degroot.consultation.abstention import UnansweredRow
from degroot.consultation.groups import Unmatched, match_groups
from degroot.exceptions import InvalidInput

REFUSE, NULL = "refuse", "null"  # what is done with bad rows
UNMATCHED_KEY, UNLISTED_KEY = b"unmatched", b"unlisted"  # notes in the schema of answers


class UnansweredInput(InvalidInput):
    """All models abstain at a row of a file."""


class Consult(Protocol):
    """Whoever answers points, as `Collective.consult` does; where a column says for whom, it is called with `asker`."""

    def __call__(self, X: Array, fields: list[str], /) -> Consensus:
        """What is answered for the points."""


@dataclass(frozen=True, slots=True)
class FrameConsult:
    """Asks about rows as data frames, for models that were trained on frames."""

    consult: Any  # as `Collective.consult`
    frame: type  # of pandas or polars
    names: dict[str, list[str]]  # of the columns, as an argument of the frame

    def __call__(self, X: Array, fields: list[str], /, **about: Any) -> Consensus:
        """What is answered for the points."""
        answer: Consensus = self.consult(self.frame(X, **self.names), fields, **about)
        return answer


def consult_in_form_of(agents: Iterable[Agent], consult: Consult) -> Consult:
    """The same, which gives the models frames where agents hold their rows as frames."""
    frame = next((agent.X for agent in agents if is_frame(agent.X)), None)
    if frame is None:
        return consult
    argument = "columns" if hasattr(frame, "iloc") else "schema"
    return FrameConsult(consult, type(frame), {argument: list(frame.columns)})


@dataclass(frozen=True, slots=True)
class Task:
    """Which columns are the features, which are kept, what is asked, and what is done with bad rows."""

    features: tuple[str, ...]
    keep: tuple[str, ...]
    columns: Columns  # of the answers
    schema: pa.Schema  # of all that is written
    gaps: bool = False  # whether features may be missing
    on_bad_row: str = REFUSE
    asker_column: str | None = None  # which says for whom each row is answered
    encoding: SchemaEncoding | None = None  # by which features become numbers; None: they are

    @property
    def names(self) -> list[str]:
        """The columns that are read."""
        features = self.features if self.encoding is None else self.encoding.names
        return list(dict.fromkeys((*features, *self.text)))

    @property
    def text(self) -> tuple[str, ...]:
        """The columns that are read as they are written."""
        asker = () if self.asker_column is None else (self.asker_column,)
        encoded = () if self.encoding is None else self.encoding.text
        return tuple(dict.fromkeys((*self.keep, *asker, *encoded)))

    def answer(self, shard: Shard, table: pa.Table, consult: Consult) -> pa.RecordBatch:
        """The rows to be written for the rows of a shard: what is kept, and the answers; null for a bad row."""
        X = numbers(table, self.features) if self.encoding is None else self.encoding.encode(table)
        answers, schema = self._answer_answerable(shard, table, X, self._good(shard, table, X), consult)
        if self.encoding is not None and (unlisted := self.encoding.find_unlisted(table, X)):
            schema = schema.with_metadata((schema.metadata or {}) | {UNLISTED_KEY: json.dumps(unlisted)})
        kept = [table.column(name).combine_chunks() for name in self.keep]
        return pa.RecordBatch.from_arrays([*map(_plain, kept), *answers], schema=schema)

    def _answer_answerable(
        self, shard: Shard, table: pa.Table, X: Array, good: NDArray[np.bool_] | None, consult: Consult
    ) -> tuple[list[pa.Array], pa.Schema]:
        """As `_answer_good`, for those of the good rows at which some model answers."""
        while True:
            try:
                return self._answer_good(shard, table, X, good, consult)
            except UnansweredRow as error:
                good = self._leave_out(shard, table, X, good, error)

    def _leave_out(
        self, shard: Shard, table: pa.Table, X: Array, good: NDArray[np.bool_] | None, error: UnansweredRow
    ) -> NDArray[np.bool_]:
        """The good rows without those like the one that nobody answers, which is refused unless it may be null."""
        row = error.row if good is None else int(np.flatnonzero(good)[error.row])
        if self.on_bad_row == REFUSE or self.encoding is None:
            raise UnansweredInput(error.describe(shard.row(row))) from error
        answerable = ~(find_like(X, row) & self._share_asker(table, row))
        return answerable if good is None else good & answerable

    def _answer_good(
        self, shard: Shard, table: pa.Table, X: Array, good: NDArray[np.bool_] | None, consult: Consult
    ) -> tuple[list[pa.Array], pa.Schema]:
        """The answers to the good rows, null for others, and the schema of what is written, with notes."""
        if self.asker_column is None:
            return self._ask(shard, X, good, consult), self.schema
        column = table.column(self.asker_column)
        column = column if good is None else column.filter(pa.array(good))
        askers, unmatched = _match_askers(column, self.columns.agents)
        noted = self.schema.with_metadata({UNMATCHED_KEY: json.dumps(asdict(unmatched))})
        return self._ask(shard, X, good, _consult_for(askers, consult)), noted

    def _share_asker(self, table: pa.Table, row: int) -> NDArray[np.bool_]:
        """Which rows (n,) are answered for the same asker as this one: others' models may answer for others."""
        if self.asker_column is None:
            return np.ones(len(table), np.bool_)
        askers = table.column(self.asker_column).to_pylist()
        return np.array([asker == askers[row] for asker in askers])

    def _good(self, shard: Shard, table: pa.Table, X: Array) -> NDArray[np.bool_] | None:
        """Which rows are good; None: all."""
        fine = ~np.isinf(X) if self.gaps else np.isfinite(X)
        if fine.all():
            return None
        if self.on_bad_row == REFUSE and self.encoding is not None:
            self.encoding.refuse(shard, table, X)
        if self.on_bad_row == REFUSE:
            row, k = (int(place) for place in np.argwhere(~fine)[0])
            name = self.features[k]
            told = strange(table.column(name)[row], X[row, k])
            raise InvalidInput(f"Every feature must be a finite number; {shard.row(row)}: {name!r} is {told}.")
        return np.asarray(fine.all(axis=1))

    def _ask(self, shard: Shard, X: Array, good: NDArray[np.bool_] | None, consult: Consult) -> list[pa.Array]:
        if good is not None and not good.any():
            return [pa.nulls(len(X), column.type) for column in self.columns.schema]
        found = self._consult(shard, X if good is None else X[good], consult)
        _check_finite(shard, np.arange(len(X)) if good is None else np.flatnonzero(good), found)
        answers = self.columns.arrays(found)
        if good is None:
            return answers
        places = pa.array(np.cumsum(good) - 1, mask=~good)  # null: a null in its place
        return [answer.take(places) for answer in answers]

    def _consult(self, shard: Shard, X: Array, consult: Consult) -> Consensus:
        try:
            return consult(X, self.columns.computed_fields)
        except UnansweredRow:
            raise
        except InvalidInput as error:
            raise InvalidInput(f"{shard}: {error}") from error


def read_unmatched(answers: pa.RecordBatch) -> Unmatched:
    """The rows of a shard whose asker is no agent, which got the neutral consensus."""
    noted = (answers.schema.metadata or {}).get(UNMATCHED_KEY)
    return Unmatched() if noted is None else Unmatched(**json.loads(noted))


def read_unlisted(answers: pa.RecordBatch) -> dict[str, list[str]]:
    """The categories of a shard that are not listed, and count as gaps, by the name of the column."""
    found: dict[str, list[str]] = json.loads((answers.schema.metadata or {}).get(UNLISTED_KEY, b"{}"))
    return found


def _match_askers(column: pa.ChunkedArray, names: Sequence[str]) -> tuple[NDArray[Any], Unmatched]:
    """The agent for whom each row is answered, None for the neutral consensus."""
    labels = np.empty(len(column), object)
    labels[:] = column.to_pylist()
    return match_groups(labels, names)


def _consult_for(askers: NDArray[Any], consult: Callable[..., Consensus]) -> Consult:
    """The same, for these askers."""
    return partial(consult, asker=askers)


def _check_finite(shard: Shard, rows: NDArray[np.intp], found: Consensus) -> None:
    """Refuse a value or a weight that is no number; other fields have none where an agent is missing or alone."""
    for name in ("value", "weights"):
        answers = getattr(found, name)
        if answers is not None and not np.isfinite(answers).all():
            k = int(np.argwhere(~np.isfinite(answers))[0, 0])
            raise InvalidInput(f"Every answer must be a finite number; {shard.row(int(rows[k]))}: {name!r} is not.")


def _plain(array: pa.Array) -> pa.Array:
    """An array without a dictionary, which would be another one in every shard."""
    return array.cast(array.type.value_type) if pa.types.is_dictionary(array.type) else array
