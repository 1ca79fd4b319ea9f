"""Columns of files as numbers by a schema: Arrow columns at the speed of Arrow, each distinct value looked up once."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from degroot.compute.compiled import Array
from degroot.schema.columns import DATE, GAP, GAP_MARKS, GAPS, HOURS, NUMBER, NUMBER_FORM, Column, SiteColumn
from degroot.schema.schema import Schema
from degroot.schema.sites import AS_SHARED, Site

FileColumn: TypeAlias = "pa.ChunkedArray | NDArray[Any]"  # a column as a file has it
WHOLE_NUMBER_FORM = f"^{NUMBER_FORM.pattern}$"  # of a whole text, for Arrow
MISSING = pa.array(sorted(GAPS | GAP_MARKS))  # numbers by a schema, as `Column.encode` has them


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
            distinct[own] = values if isinstance(values, np.ndarray) else _as_objects(values.unique().to_pylist())
    return schema.find_unlisted(distinct, site)


def encode_column(column: Column, values: FileColumn, site: SiteColumn) -> Array:
    """One column as `Column.encode` gives it: what Arrow holds as a dictionary or text is encoded value by value."""
    if isinstance(values, np.ndarray):
        return column.encode(values, site)
    values = decode_binary(values)
    kind = values.type
    if pa.types.is_null(kind):
        return np.full(len(values), np.nan)
    looked_up = site.values or (site.parses_numbers and _is_text(kind))
    if pa.types.is_dictionary(kind) or column.is_listed or looked_up or not _is_plain(kind, column):
        return _encode_distinct(values, column, site)
    if column.kind == DATE:
        return _encode_distinct(values, column, site) if _is_text(kind) else column.encode(values.to_numpy(), site)
    return column.encode(cast_floats(parse_numbers(values) if _is_text(kind) else values).to_numpy(), site)


def decode_binary(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Bytes as text where all of them are UTF-8; else the same."""
    if not (pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type)):
        return values
    try:
        return values.cast(pa.large_string())
    except pa.ArrowInvalid:
        return values


def value_at(values: FileColumn, row: int) -> Any:
    """What stands in a row of a column."""
    value = values[row]
    return value if isinstance(values, np.ndarray) else value.as_py()


def parse_numbers(texts: pa.ChunkedArray, missing: pa.Array = MISSING) -> pa.ChunkedArray:
    """Texts as numbers: null where one is `missing`, infinite where it is no number."""
    trimmed = pc.utf8_trim_whitespace(texts.cast(pa.string()))  # of all types of text the one that it takes
    gap, written = pc.is_in(trimmed, missing), pc.match_substring_regex(trimmed, WHOLE_NUMBER_FORM)
    values = pc.if_else(written, pc.utf8_ltrim(trimmed, "+"), None).cast(pa.float64())
    return pc.if_else(pc.or_(gap, written), values, np.inf)


def cast_floats(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of numbers as float64, NaN where one is missing."""
    if not pa.types.is_float64(column.type):
        column = column.cast(pa.float64(), safe=False)
    return column.fill_null(np.nan) if column.null_count else column


def _encode_distinct(values: pa.ChunkedArray, column: Column, site: SiteColumn) -> Array:
    """The numbers of the distinct values, where each row has them."""
    try:
        coded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
    except pa.ArrowNotImplementedError:  # lists and the like, which no column holds
        return column.encode(_as_objects(values.to_pylist()), site)
    parts = []
    for chunk in coded.chunks:
        found = column.encode(chunk.dictionary.to_numpy(zero_copy_only=False), site)
        codes = chunk.indices.fill_null(len(found)).to_numpy(zero_copy_only=False)
        parts.append(np.append(found, np.nan)[codes])
    return np.concatenate([np.zeros(0), *parts])


def _as_objects(values: Sequence[Any]) -> NDArray[Any]:
    objects = np.empty(len(values), object)
    objects[:] = values
    return objects


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_plain(kind: pa.DataType, column: Column) -> bool:
    """Whether a column of that type is a column of that kind as it is, or its text."""
    if column.kind == DATE:
        return _is_text(kind) or pa.types.is_timestamp(kind) or pa.types.is_date(kind)
    if column.unit == HOURS and _is_text(kind):
        return False  # times of day are looked up one by one
    return _is_text(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
