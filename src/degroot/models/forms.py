"""The forms of the frames that models take, in TOML files and by a schema."""

from typing import Any

import numpy as np

from degroot.exceptions import InvalidInput
from degroot.files.toml import Table
from degroot.schema.columns import BOOLEAN, CATEGORY, DATE, KINDS, NUMBER, ORDERED
from degroot.schema.frames import PANDAS, POLARS, PYTHON_GAPS, FrameColumn, FrameForm
from degroot.schema.schema import Schema

FRAME = "frame"  # the input of a model that takes frames with the types of the schema
FORM_KEYS = ("library", "columns")
FORM_COLUMN_KEYS = ("name", "kind", "dtype", "values", "ordered", "zoned", "gap")
DTYPES = {NUMBER: "float64", CATEGORY: "category", ORDERED: "category", BOOLEAN: "bool", DATE: "datetime64[us]"}


def form_by_schema(schema: Schema) -> FrameForm:
    """The form of frames that have the types that a schema suggests: those of pandas.

    Examples
    --------
    >>> from degroot.schema import Column
    >>> [each.dtype for each in form_by_schema(Schema((Column("age"), Column("day", "date")))).columns]
    ['float64', 'datetime64[us]']
    """
    return FrameForm(
        PANDAS,
        tuple(
            FrameColumn(
                column.name, column.kind, DTYPES[column.kind],
                (False, True) if column.kind == BOOLEAN else column.categories, column.kind == ORDERED,
            )
            for column in schema.columns
        ),
    )  # fmt: skip


def form_entries(form: FrameForm) -> dict[str, Any]:
    """The form of frames as a table of a TOML file."""
    return {"library": form.library, "columns": [_column_entries(column) for column in form.columns]}


def read_input(table: Table, key: str = "input") -> FrameForm | str | None:
    """What a model takes, as a table of a TOML file says: frames of this form or "frame"; None: numbers."""
    if key not in table.entries:
        return None
    if not isinstance(table.entries[key], dict):
        return table.choice(key, (FRAME,))
    told = table.table(key, FORM_KEYS)
    columns = tuple(_read_column(each) for each in told.tables("columns", FORM_COLUMN_KEYS))
    if not columns:
        raise told.refusal("columns", "be the columns of the frame")
    return FrameForm(told.choice("library", (PANDAS, POLARS)), columns)


def form_of(given: FrameForm | str | None, schema: Schema | None) -> FrameForm | None:
    """The form of the frames that a model takes, by what its `input` is; None: it takes numbers."""
    if given is None:
        return None
    if schema is None:
        raise InvalidInput("A model that takes frames must come with a schema, which says what columns hold; got none.")
    form = form_by_schema(schema) if isinstance(given, str) else given
    for column in form.columns:
        if column.name not in schema.names:
            raise InvalidInput(f"The frames of a model must have columns of the schema; {column.name!r} is none.")
    return form


def _column_entries(column: FrameColumn) -> dict[str, Any]:
    values = [value.item() if isinstance(value, np.generic) else value for value in column.values]
    strange = [value for value in values if not isinstance(value, str | bool | int | float)]
    if strange:
        raise InvalidInput(
            f"the categories of column {column.name!r} must be texts, numbers or booleans, to be saved; the first is "
            f"{strange[0]!r}."
        )
    return {
        "name": column.name,
        "kind": column.kind,
        "dtype": column.dtype,
        "values": values or None,
        "ordered": True if column.is_ordered else None,
        "zoned": True if column.is_zoned else None,
        "gap": column.gap or None,
    }


def _read_column(table: Table) -> FrameColumn:
    def are_plain(value: Any) -> bool:
        return isinstance(value, list) and all(isinstance(each, str | bool | int | float) for each in value)

    none: list[Any] = []
    values = table.given("values", lambda key: table.take(key, are_plain, "be texts, numbers or booleans"), none)
    return FrameColumn(
        table.text("name"), table.choice("kind", KINDS), table.text("dtype"), tuple(values),
        table.given("ordered", table.flag, False), table.given("zoned", table.flag, False),
        table.given("gap", lambda key: table.choice(key, PYTHON_GAPS), ""),
    )  # fmt: skip
