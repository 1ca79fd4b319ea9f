"""Arrow columns as numbers by a schema: at the speed of Arrow, each distinct value looked up once; and as arrays."""

from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from degroot.compute.compiled import Array
from degroot.files.encoding import as_objects
from degroot.schema.columns import DATE, GAP_MARKS, GAPS, HOURS, NUMBER_FORM, Column, SiteColumn

WHOLE_NUMBER_FORM = f"^{NUMBER_FORM.pattern}$"  # of a whole text, for Arrow
MISSING = GAPS | GAP_MARKS  # numbers by a schema, as `Column.encode` has them


def to_array(column: pa.ChunkedArray, is_label: bool = False) -> NDArray[Any]:
    """A column as an array; a label keeps all its digits."""
    if is_label and column.null_count and pa.types.is_integer(column.type):
        column = column.cast(pa.string())  # numpy has no whole numbers with gaps, and large ones would lose digits
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    column = decode_binary(column)
    return _read_floats(column) if pa.types.is_float64(column.type) else np.asarray(column.to_numpy())


def _read_floats(column: pa.ChunkedArray) -> Array:
    """Numbers, NaN where one is missing. Arrow's own way to arrays imports pandas, where that is installed."""
    filled = column.fill_null(np.nan) if column.null_count else column
    return np.concatenate([np.empty(0), *(np.from_dlpack(chunk) for chunk in filled.chunks)])


def encode_column(column: Column, values: pa.ChunkedArray, site: SiteColumn) -> Array:
    """One column as `Column.encode` gives it: what Arrow holds as a dictionary or text is encoded value by value."""
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


def parse_numbers(texts: pa.ChunkedArray, missing: Collection[str] = MISSING) -> pa.ChunkedArray:
    """Texts as numbers: null where one is `missing`, infinite where it is no number."""
    marks = pa.array(sorted(missing), pa.string())  # here, since it makes Arrow import pandas, where that is installed
    trimmed = pc.utf8_trim_whitespace(texts.cast(pa.string()))  # of all types of text the one that it takes
    gap, written = pc.is_in(trimmed, marks), pc.match_substring_regex(trimmed, WHOLE_NUMBER_FORM)
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
        return column.encode(as_objects(values.to_pylist()), site)
    parts = []
    for chunk in coded.chunks:
        found = column.encode(chunk.dictionary.to_numpy(zero_copy_only=False), site)
        codes = chunk.indices.fill_null(len(found)).to_numpy(zero_copy_only=False)
        parts.append(np.append(found, np.nan)[codes])
    return np.concatenate([np.zeros(0), *parts])


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_plain(kind: pa.DataType, column: Column) -> bool:
    """Whether a column of that type is a column of that kind as it is, or its text."""
    if column.kind == DATE:
        return _is_text(kind) or pa.types.is_timestamp(kind) or pa.types.is_date(kind)
    if column.unit == HOURS and _is_text(kind):
        return False  # times of day are looked up one by one
    return _is_text(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
