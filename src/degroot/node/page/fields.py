"""Fields of the page by the schema: what a form asks for, what was typed, and points as people read them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from degroot.agents.abstention import ColumnMask
from degroot.compute.compiled import Array
from degroot.exceptions import InvalidInput
from degroot.node.page.encoding import numbers
from degroot.schema import DATE, NUMBER, Column, Schema

NAME = 100  # characters of what came, in a message


class NotAdmitted(InvalidInput):
    """What was typed is not what the schema admits; `fields`: what is wrong, by column."""

    def __init__(self, message: str, fields: Mapping[str, str]) -> None:
        super().__init__(message)
        self.fields = dict(fields)


def describe_columns(schema: Schema | None, rows: Array) -> list[dict[str, Any]] | None:
    """The columns of a form, in order; None: there is no schema, and features are numbers.

    `rows`: of the node, (n, d): a date has a time where some of them have.
    """
    if schema is None:
        return None
    return [_describe_column(column, rows[:, place]) for place, column in enumerate(schema.columns)]


def _describe_column(column: Column, values: Array) -> dict[str, Any]:
    days = values[np.isfinite(values)] if column.kind == DATE else values[:0]
    return {
        "name": column.name, "kind": column.kind, "categories": list(column.categories), "unit": column.unit,
        "range": None if column.range is None else list(column.range), "missing": column.missing,
        "time": bool((days % 1.0 != 0.0).any()) or column.cycle == "day",
    }  # fmt: skip


def describe_target(schema: Schema | None) -> dict[str, str] | None:
    """What is predicted, and its unit; None: not known."""
    return None if schema is None or schema.target is None else {"name": schema.target.name, "unit": schema.target.unit}


def parse_typed_rows(rows: Sequence[Any], schema: Schema) -> tuple[Array, ColumnMask]:
    """Typed rows as numbers by the schema, and the columns (d,) that none of them has; None: there are none.

    A row is a list with a value for each column, or an object by name. Empty texts and null are gaps.
    """
    read = [_as_values(row, place, schema) for place, row in enumerate(rows, 1)]
    points = np.full((len(rows), len(schema.columns)), np.nan)
    for place, column in enumerate(schema.columns):
        given = np.empty(len(rows), object)
        given[:] = [values.get(column.name) for values in read]
        points[:, place] = column.encode(given)
    _check_admitted(points, read, schema)
    known = {name for values in read for name in values}
    absent = np.array([name not in known for name in schema.names])
    return points, absent if absent.any() else None


def _as_values(row: Any, place: int, schema: Schema) -> dict[str, Any]:
    if isinstance(row, list) and len(row) == len(schema.names):
        row = dict(zip(schema.names, row, strict=True))
    if not isinstance(row, dict):
        came = f"{len(row)} came" if isinstance(row, list) else "none came"
        raise InvalidInput(f"Row {place} must have a value for each of {len(schema.names)} columns; {came}.")
    strange = [name for name in row if name not in schema.names]
    if strange:
        raise InvalidInput(f"Row {place} must have columns of the schema only; got {strange[0][:NAME]!r}.")
    return row


def _check_admitted(points: Array, read: Sequence[Mapping[str, Any]], schema: Schema) -> None:
    """Refuse values that the schema does not admit, with all columns of the first row that has any."""
    rows = np.flatnonzero(np.isinf(points).any(axis=1))
    if not len(rows):
        return
    first = int(rows[0])
    fields = {
        column.name: _describe_refusal(column, read[first].get(column.name))
        for place, column in enumerate(schema.columns)
        if np.isinf(points[first, place])
    }
    name, told = next(iter(fields.items()))
    where = f"Row {first + 1}: " if len(read) > 1 else ""
    raise NotAdmitted(f"{where}{name} {told}", fields)


def _describe_refusal(column: Column, value: Any) -> str:
    return f"must {column.describe_requirement()}, or be left empty; got {str(value)[:NAME]!r}."


def format_points(points: Array, schema: Schema | None) -> list[Any]:
    """Points (M, d) as people read them: texts by the schema, empty for gaps; without a schema the numbers."""
    if schema is None:
        return list(numbers(points))
    return [[column.format(value) for column, value in zip(schema.columns, row, strict=True)] for row in points]


def readable_columns(points: Array, schema: Schema) -> Iterable[list[Any]]:
    """The columns of points as the schema writes them: numbers, or texts, with None for gaps."""
    for column, values in zip(schema.columns, points.T, strict=True):
        if column.kind == NUMBER:
            yield [None if value != value else value for value in values.tolist()]
        else:
            yield [column.format(value) or None for value in values.tolist()]
