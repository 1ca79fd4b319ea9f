"""Columns of files as numbers by a schema."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array
from degroot.schema.columns import GAP, NUMBER, Column, SiteColumn
from degroot.schema.schema import Schema
from degroot.schema.sites import AS_SHARED, Site

if TYPE_CHECKING:
    import pyarrow as pa

FileColumn: TypeAlias = "pa.ChunkedArray | NDArray[Any]"  # a column as a file has it


def names_read_as_text(schema: Schema, site: Site = AS_SHARED) -> tuple[str, ...]:
    """The columns, as the site calls them, whose values must stay as they are written: "01" is not 1."""
    return tuple(
        site.find_name(column.name)
        for column in schema.every_column
        if column.kind != NUMBER or site.column(column.name).values or site.column(column.name).parses_numbers
    )


def encode_file(columns: Mapping[str, FileColumn], schema: Schema, site: Site, where: str, first_row: int = 1) -> Array:
    """The features in the columns of a file as numbers (n, d); a value that is not admitted is refused, with its row.

    Features without a column are gaps. `first_row`: the number of the first row.
    """
    numbers = schema.encode_marking(columns, site, encode_column)
    schema.check_admitted(
        numbers, lambda name, row: value_at(columns[site.find_name(name)], row), where, first_row.__add__
    )
    return numbers


def find_unlisted(
    columns: Mapping[str, FileColumn], schema: Schema, site: Site, numbers: Array
) -> dict[str, list[str]]:
    """Categories that are not listed and so are gaps in `numbers` (n, d): distinct texts, by the name of the column."""
    distinct = {}
    for place, column in enumerate(schema.columns):
        own = site.find_name(column.name)
        if column.unlisted == GAP and own in columns and np.isnan(numbers[:, place]).any():
            values = columns[own]
            distinct[own] = values if isinstance(values, np.ndarray) else as_objects(values.unique().to_pylist())
    return schema.find_unlisted(distinct, site)


def encode_column(column: Column, values: FileColumn, site: SiteColumn) -> Array:
    """One column as `Column.encode` gives it."""
    if isinstance(values, np.ndarray):
        return column.encode(values, site)
    from degroot.files.arrow_columns import encode_column

    return encode_column(column, values, site)


def value_at(values: FileColumn, row: int) -> Any:
    """What stands in a row of a column."""
    value = values[row]
    return value if isinstance(values, np.ndarray) else value.as_py()


def as_objects(values: Sequence[Any]) -> NDArray[Any]:
    """Values of any kind as an array of objects."""
    objects = np.empty(len(values), object)
    objects[:] = values
    return objects
