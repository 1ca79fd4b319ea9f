"""Names of columns: which some files have and others lack, and what these likely call them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from shlex import quote
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from degroot.exceptions import InvalidInput
from degroot.files.toml import toml_line
from degroot.schema.columns import NUMBER, Column, describe_some, round_outward
from degroot.schema.inference import infer_schema
from degroot.schema.matching import compare_names, find_likely_column
from degroot.schema.schema import Schema
from degroot.schema.sites import site_beside, write_absent, write_line
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
    if renamed := find_renamed(sheets, apart):
        first = renamed[0]
        sheet, others = sheets[first.place], [sheets[place] for place in first.others]
        same = [each for each in renamed if each.place == first.place]
        names = {each.name: each.likely for each in same}
        ignored = ",".join(name for each in same for name in (each.name, each.likely))
        raise InvalidInput(
            f"All files must call a column alike; {sheet.path} has no {describe_some(list(names))}, as "
            f"{_list_files(others)} {'has' if len(others) == 1 else 'have'}, but "
            f"{describe_some(list(names.values()))}. "
            f"If {'it is' if len(same) == 1 else 'they are'} the same, write in {site_beside(sheet.path)}: "
            f"{_write_names(names)}; if not: {write_absent(*names)} there, or --ignore {quote(ignored)}."
        )
    return describe_partial(sheets, apart)


def _write_names(names: Mapping[str, str]) -> str:
    """The line of a site file that says what columns are called there."""
    if len(names) == 1:
        ((name, own),) = names.items()
        return write_line(name, name=own)
    return toml_line(("columns",), {name: {"name": own} for name, own in names.items()})


def check_target_names(sheets: Sequence[Sheet], target: str) -> None:
    """Refuse a file without the target that has columns which no other file has: likely one of them is it."""
    holders = [sheet for sheet in sheets if sheet.site.find_name(target) in sheet.columns]
    for sheet in sheets:
        others = {name for each in sheets if each is not sheet for name in each.columns}
        extra = [name for name in sheet.columns if name not in others]
        if sheet not in holders and holders and extra:
            known = [each.columns[each.site.find_name(target)] for each in holders]
            likely = _find_likely(target, known, sheet.columns, extra)
            likely = likely or max(extra, key=lambda name: compare_names(target, name))
            raise InvalidInput(
                f"{sheet.path} must have the column {target!r}; it has none, but {describe_some(extra)}, as no other "
                f"file has. If {likely!r} is it, write in {site_beside(sheet.path)}: {write_line(target, name=likely)}."
            )


def find_renamed(sheets: Sequence[Sheet], apart: Sequence[str | None]) -> list[RenamedColumn]:
    """Columns that a file lacks and likely has under a name that none of the files has that do not lack it."""
    tables = [sheet.site.share_names(sheet.columns) for sheet in sheets]
    holders = _find_holders(tables, apart)
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


def _find_holders(tables: Sequence[Collection[str]], apart: Sequence[str | None]) -> dict[str, frozenset[int]]:
    """The places of the tables that have each column that not all of them have."""
    names = dict.fromkeys(name for table in tables for name in table if name not in apart and name.strip())
    holders = {name: frozenset(k for k, table in enumerate(tables) if name in table) for name in names}
    return {name: having for name, having in holders.items() if len(having) < len(tables)}


def find_likely(sheet: Sheet, column: Column, schema: Schema) -> str | None:
    """What a file likely calls a column of the schema, of its columns that the schema does not have; None: none."""
    taken = {sheet.site.find_name(each.name) for each in schema.every_column}
    extra = [name for name in sheet.columns if name not in {*taken, schema.units, *schema.identifiers}]
    return find_likely_column(column, sheet.columns, extra)


def refuse_missing(sheet: Sheet, column: Column, schema: Schema) -> NoReturn:
    """Refuse a file that lacks a column of the schema, with what it likely calls it."""
    likely = find_likely(sheet, column, schema)
    own, file = sheet.site.find_name(column.name), site_beside(sheet.path)
    hint = f"if it is {likely!r}, write" if likely is not None else "if it is called otherwise, write"
    raise InvalidInput(
        f"{sheet.path} must have the column {own!r} of the schema; it has none: {hint} in {file}: "
        f"{write_line(column.name, name=likely or 'ITS NAME')}; if it is not collected: "
        f"{write_absent(column.name)}."
    )


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
    tables = [sheet.site.share_names(sheet.columns) for sheet in sheets]
    for name, having in _find_holders(tables, apart).items():
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
