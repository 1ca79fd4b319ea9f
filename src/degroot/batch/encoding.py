"""Rows of shards by a schema: the columns that are read, and their values as numbers."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from degroot.batch.shards import Shard
from degroot.compute.compiled import Array
from degroot.files.encoding import encode_column, find_unlisted, names_read_as_text, value_at
from degroot.schema import AS_SHARED, Schema, Site

MOST_UNLISTED = 100  # categories of a column that are told


@dataclass(frozen=True, slots=True)
class SchemaEncoding:
    """How input files with some of a schema's columns become numbers by it."""

    schema: Schema
    site: Site = AS_SHARED
    absent: Sequence[str] = ()  # features that the input does not have

    @property
    def names(self) -> list[str]:
        """The features that are read, as the files call them."""
        return [self.site.find_name(name) for name in self.schema.names if name not in self.absent]

    @property
    def text(self) -> list[str]:
        """Those of them that are read as they are written."""
        known = set(self.names)
        return [name for name in names_read_as_text(self.schema, self.site) if name in known]

    @property
    def mask(self) -> NDArray[np.bool_] | None:
        """Which features the input does not have, (d,); None: it has all."""
        return np.isin(self.schema.names, self.absent) if self.absent else None

    def encode(self, table: pa.Table) -> Array:
        """The features as numbers (n, d), NaN for gaps, infinite where a value is not admitted."""
        return self.schema.encode_marking({name: table.column(name) for name in self.names}, self.site, encode_column)

    def find_unlisted(self, table: pa.Table, X: Array) -> dict[str, list[str]]:
        """Categories of the table that are not listed, and so are gaps in its numbers `X`: the first few by column."""
        columns = {name: table.column(name) for name in self.names}
        found = find_unlisted(columns, self.schema, self.site, X)
        return {name: texts[:MOST_UNLISTED] for name, texts in found.items()}

    def refuse(self, shard: Shard, table: pa.Table, X: Array) -> None:
        """Raise for the first value that is not admitted, with file, row, column and remedy."""

        def find(name: str, row: int) -> object:
            return value_at(table.column(self.site.find_name(name)), row)

        self.schema.check_admitted(X, find, shard.file, lambda row: shard.first + row + 1)


def find_like(X: Array, row: int) -> NDArray[np.bool_]:
    """The rows (n,) that have gaps wherever `row` has some: what that row lacks, they lack too.

    Examples
    --------
    >>> find_like(np.array([[1.0, np.nan], [np.nan, np.nan], [np.nan, 1.0]]), 0)
    array([ True,  True, False])
    """
    gaps = np.isnan(X)
    return np.asarray(gaps[:, gaps[row]].all(axis=1))
