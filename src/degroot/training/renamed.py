"""Renamed: columns that some files have and others lack, by the name or at all."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from shlex import quote
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from degroot.exceptions import InvalidInput
from degroot.schema.columns import NUMBER, Column, describe_some, round_outward
from degroot.schema.inference import infer_schema
from degroot.schema.matching import find_likely_column
from degroot.schema.schema import Schema
from degroot.schema.sites import site_beside, write_line
from degroot.training.tables import Sheet


@dataclass(frozen=True, slots=True)
class RenamedColumn:
    """A column that one file likely has under another name than others."""

    place: int  # of the file
    name: str  # that others call it
    likely: str  # that the file calls it
    others: list[int]  # the places of these


def check_renamed(sheets: Sequence[Sheet], apart: Sequence[str | None]) -> list[str]:
    """Notes on columns that not all files have; refused where a file likely has one under another name."""
    for found in find_renamed(sheets, apart):
        sheet, others = sheets[found.place], [sheets[place] for place in found.others]
        raise InvalidInput(
            f"All files must call a column alike; {sheet.path} has no {found.name!r}, as {_list_files(others)} "
            f"{'has' if len(others) == 1 else 'have'}, but {found.likely!r}. If it is the same, write in "
            f"{site_beside(sheet.path)}: {write_line(found.name, name=found.likely)}; if not: "
            f'absent = ["{found.name}"] there, or --ignore {quote(f"{found.name},{found.likely}")}.'
        )
    return describe_partial(sheets, apart)


def check_target_names(sheets: Sequence[Sheet], target: str) -> None:
    """Refuse a file without the target that has a column which no other file has: likely that."""
    for sheet in sheets:
        others = {name for each in sheets if each is not sheet for name in each.columns}
        extra = [name for name in sheet.columns if name not in others]
        if sheet.site.find_name(target) not in sheet.columns and target in others and extra:
            raise InvalidInput(
                f"{sheet.path} must have the column {target!r}; it has none, but {describe_some(extra)}, as no other "
                f"file has. If that is it, write in {site_beside(sheet.path)}: {write_line(target, name=extra[0])}."
            )


def find_renamed(sheets: Sequence[Sheet], apart: Sequence[str | None]) -> list[RenamedColumn]:
    """Columns that a file lacks and likely has under a name that none of the files has that do not lack it."""
    tables, holders = [share_names(sheet) for sheet in sheets], _find_holders(sheets, apart)
    found: list[RenamedColumn] = []
    for name, having in sorted(holders.items(), key=lambda item: -len(item[1])):  # what most call it goes first
        for k, sheet in enumerate(sheets):
            if k in having or name in sheet.site.absent:
                continue
            absent = {each for holder in having for each in sheets[holder].site.absent}
            taken = {each.likely for each in found if each.place == k}
            extra = [
                each for each, others in holders.items()
                if k in others and not others & having and each not in absent | taken
            ]  # fmt: skip
            likely = _find_likely(name, [tables[holder][name] for holder in sorted(having)], tables[k], extra)
            given = {each.name for each in found} | {each.likely for each in found}
            if likely is not None and not {name, likely} <= given:
                found.append(RenamedColumn(k, name, likely, sorted(having)))
    return found


def _find_holders(sheets: Sequence[Sheet], apart: Sequence[str | None]) -> dict[str, frozenset[int]]:
    """The places of the files that have each column that not all of them have."""
    tables = [share_names(sheet) for sheet in sheets]
    names = dict.fromkeys(name for table in tables for name in table if name not in apart and name.strip())
    holders = {name: frozenset(k for k, table in enumerate(tables) if name in table) for name in names}
    return {name: having for name, having in holders.items() if len(having) < len(sheets)}


def refuse_missing(sheet: Sheet, column: Column, schema: Schema) -> NoReturn:
    """Refuse a file that lacks a column of the schema, with what it likely calls it."""
    taken = {sheet.site.find_name(each.name) for each in schema.every_column}
    extra = [name for name in sheet.columns if name not in {*taken, schema.units, *schema.identifiers}]
    likely = find_likely_column(column, sheet.columns, extra)
    own, file = sheet.site.find_name(column.name), site_beside(sheet.path)
    hint = f"is {likely!r} it? Then write" if likely is not None else "if it is called otherwise, write"
    raise InvalidInput(
        f"{sheet.path} must have the column {own!r} of the schema; it has none: {hint} in {file}: "
        f"{write_line(column.name, name=likely or 'ITS NAME')}; if it is not collected: "
        f'absent = ["{column.name}"].'
    )


def share_names(sheet: Sheet) -> dict[str, NDArray[Any]]:
    """The columns of a file by their names in the schema."""
    shared = {sheet.site.find_name(name): name for name in sheet.site.columns}
    named = {shared.get(own, own): values for own, values in sheet.columns.items()}
    return {name: values for name, values in named.items() if name not in sheet.site.absent}


def _find_likely(
    name: str, columns: Sequence[NDArray[Any]], table: dict[str, NDArray[Any]], extra: Sequence[str]
) -> str | None:
    """Which of the `extra` columns of a table likely is the one that others call `name`."""
    if not extra:
        return None
    try:
        column = infer_schema({str(k): {name: values} for k, values in enumerate(columns)}).schema.columns[0]
    except InvalidInput:  # a column that is no feature, such as a number of the row
        return None
    if column.kind == NUMBER:
        column = replace(column, range=round_outward(np.concatenate([column.encode(values) for values in columns])))
    return find_likely_column(column, table, extra)


def describe_partial(sheets: Sequence[Sheet], apart: Sequence[str | None]) -> list[str]:
    """A line for all columns that the same files have."""
    groups: dict[frozenset[int], list[str]] = {}
    for name, having in _find_holders(sheets, apart).items():
        groups.setdefault(having, []).append(name)
    notes = []
    for having, names in groups.items():
        lacking = [sheet for k, sheet in enumerate(sheets) if k not in having]
        if len(lacking) <= len(having):
            notes.append(f"{describe_some(names)}: not in {_list_files(lacking)}, absent there")
        else:
            files = _list_files([sheets[k] for k in sorted(having)])
            notes.append(f"{describe_some(names)}: only in {files}, absent elsewhere")
    return notes


def _list_files(sheets: Sequence[Sheet]) -> str:
    shown = ", ".join(str(sheet.path) for sheet in sheets[:3])
    return shown + (f" and {len(sheets) - 3} more" if len(sheets) > 3 else "")
