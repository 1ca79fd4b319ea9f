"""Schemas between nodes: whether two have agreed on the same, what differs, and what a model takes of the columns.

A peer's schema is text from outside: it is read within limits, and what is told of it is one short line.
"""

import tomllib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from degroot.agents.abstention import ColumnMask, Mask, find_gap_rows, find_needed, has_gaps
from degroot.compute.compiled import Array
from degroot.exceptions import InvalidInput
from degroot.node.protocol.codec import Malformed, array
from degroot.node.protocol.v3 import collective_pb2 as wire
from degroot.schema import Schema, schema_from_text

MAX_SCHEMA_BYTES = 1 << 18  # of its text
MAX_COLUMNS, MAX_SCHEMA_CATEGORIES = 5_000, 20_000  # of a schema, and of all its columns together
TOLD, TOLD_CHARACTERS = 3, 120  # differences in a message, and how long each may be
DIFFERS = "schema differs"


def write_schema(schema: Schema) -> str:
    """The text of a schema for peers and those who ask, if it is one that they read."""
    text = schema.to_toml()
    size, categories = len(text.encode()), sum(len(column.categories) for column in schema.every_column)
    if size > MAX_SCHEMA_BYTES or len(schema.every_column) > MAX_COLUMNS or categories > MAX_SCHEMA_CATEGORIES:
        raise InvalidInput(
            f"The schema of a node must have at most {MAX_SCHEMA_BYTES} bytes, {MAX_COLUMNS} columns and "
            f"{MAX_SCHEMA_CATEGORIES} categories; it has {size}, {len(schema.every_column)} and {categories}."
        )
    return text


def read_schema_text(text: str, whose: str) -> Schema:
    """The schema in a text that came from outside; `whose` it is, in messages."""
    if len(text.encode(errors="replace")) > MAX_SCHEMA_BYTES:
        raise Malformed(f"The schema of {whose} must have at most {MAX_SCHEMA_BYTES} bytes; it has more.")
    try:
        tables = tomllib.loads(text).get("columns")
        _check_counts(tables if isinstance(tables, dict) else {}, whose)
        return schema_from_text(text, f"the schema of {whose}")
    except Malformed:
        raise
    except (InvalidInput, ValueError, RecursionError) as error:
        raise Malformed(clean(f"The schema of {whose} must be one that can be read; {error}")) from error


def _check_counts(tables: dict[str, Any], whose: str) -> None:
    lists = [each.get("categories") for each in tables.values() if isinstance(each, dict)]
    categories = sum(len(each) for each in lists if isinstance(each, list))
    if len(tables) > MAX_COLUMNS or categories > MAX_SCHEMA_CATEGORIES:
        raise Malformed(
            f"The schema of {whose} must have at most {MAX_COLUMNS} columns and {MAX_SCHEMA_CATEGORIES} categories; it "
            f"has {len(tables)} and {categories}."
        )


def find_schema_difference(schema: Schema | None, theirs: wire.Description) -> str | None:
    """What differs between this node's schema and a peer's, if anything does; with the text of theirs, in detail."""
    mine, digest = "" if schema is None else schema.digest, theirs.schema_digest
    if mine == digest:
        return None
    if schema is None:
        return f"{DIFFERS}: it has one and this node has none; name the same with `schema` in [data] of this file"
    if not digest:
        return f"{DIFFERS}: this node has one and it has none; name the same with `schema` in [data] of its file"
    told = f"{DIFFERS}: digest {mine} here, {clean(digest, len(mine))} there"
    if not theirs.schema:
        return told
    try:
        other = read_schema_text(theirs.schema, "this peer")
    except Malformed as error:
        return clean(f"{told}; {error}", TOLD * TOLD_CHARACTERS)
    found = schema.list_differences(other)
    if other.digest != digest or not found:
        return f"{told}; the schema that it sends is not the one of its digest"
    shown = [clean(each, TOLD_CHARACTERS) for each in found[:TOLD]]
    more = [f"{len(found) - TOLD} more"] if len(found) > TOLD else []
    return f"{DIFFERS}: {'; '.join([*shown, *more])}"


def clean(text: str, most: int = 300) -> str:
    r"""A text from outside as one line that can be printed, not too long.

    Examples
    --------
    >>> clean("a\n\x1b[31mb", 8)
    'a ?[31mb'
    """
    line = "".join(sign if sign.isprintable() else "?" for sign in " ".join(text.split()))
    return line if len(line) <= most else f"{line[: most - 1]}…"


class ModelInputs(NamedTuple):
    """What a model needs of the columns, as its owner says: where it lacks an input, it is not asked."""

    optional: ColumnMask = None  # (d,) columns that it can do without; None: none
    takes_gaps: bool = True  # in the others, of rows that have these columns

    @classmethod
    def from_message(cls, about: wire.Description | wire.Manifest, names: Sequence[str]) -> "ModelInputs":
        """Those that a description or a manifest tells of; `names`: of the columns."""
        if not about.schema_digest:
            return cls()
        told = set(about.optional_columns)
        optional = np.array([name in told for name in names])
        return cls(optional if optional.any() else None, about.takes_gaps)

    def find_abstentions(self, X: Any, absent: ColumnMask = None) -> Mask | None:
        """For which rows of `X` the model lacks an input, (M,); None: for none. As `Agent.find_abstentions`."""
        if absent is not None and find_needed(absent, self.optional) is not None:
            return np.ones(X.shape[0], np.bool_)
        return find_gap_rows(X, self.optional) if not self.takes_gaps and has_gaps(X) else None

    def find_able(self, X: Any, absent: ColumnMask = None) -> NDArray[np.intp]:
        """The places of the other rows."""
        abstains = self.find_abstentions(X, absent)
        return np.arange(X.shape[0]) if abstains is None else np.flatnonzero(~abstains)


def check_digest(digest: str, schema: Schema | None) -> None:
    """Refuse points that are numbers by another schema than this node's."""
    mine = "" if schema is None else schema.digest
    if digest != mine:
        raise Malformed(
            f"Points must be numbers by the schema of this node, {mine or 'which has none'}; they are by "
            f"{clean(digest, 40) or 'none'}."
        )


def decode_points(message: wire.Tensor, schema: Schema | None, features: int) -> Array:
    """The points in a message: finite numbers, or numbers by a schema, with NaN for gaps."""
    points = array(message, (None, features), "points", finite=schema is None)
    if schema is not None:
        schema.check_numbers(points, "points")
    return points


def decode_absent(names: Sequence[str], points: Array, schema: Schema | None) -> ColumnMask:
    """The columns (d,) that points do not have, as a request tells by their names; None: they have all."""
    if not names:
        return None
    known, told = () if schema is None else schema.names, set(names)
    strange = [name for name in told if name not in known]
    if strange:
        raise Malformed(f"`absent` must name columns of this node's schema; {clean(strange[0], 100)!r} is none.")
    absent = np.array([name in told for name in known])
    if not np.isnan(points[:, absent]).all():
        raise Malformed("`absent` must name columns that are gaps in all points; some are not.")
    return absent
