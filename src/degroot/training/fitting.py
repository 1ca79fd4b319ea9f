"""Fitting: what a data file holds by a schema, and what in it does not fit."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from degroot.answers.display import counted
from degroot.schema.columns import GAP, NUMBER, REFUSE, Column, describe_some, find_not_admitted, list_texts
from degroot.schema.labels import map_labels
from degroot.schema.matching import find_likely_column, find_unit_factor
from degroot.schema.schema import Schema
from degroot.schema.sites import site_beside, write_line
from degroot.training.tables import Sheet, read_sheet

FEW_TOLD, FEW_UNLISTED = 10, 4  # columns in a note on gaps, and on categories that are not listed


@dataclass(frozen=True, slots=True)
class FileReport:
    """What was found in a file."""

    path: Path
    rows: int
    notes: list[str]  # what it is well to know
    problems: list[str]  # what does not fit, with what to do


def check_file(path: Path, schema: Schema, site_file: Path | None = None) -> FileReport:
    """What a file holds by the schema, written as its site says."""
    sheet = read_sheet(path.stem, path, [schema.units] if schema.units else [], site_file, schema)
    if schema.target is not None and sheet.site.find_name(schema.target.name) in sheet.columns:
        values = sheet.columns[sheet.site.find_name(schema.target.name)]
        sheet = replace(sheet, site=map_labels(sheet.site, schema.target, values))
    problems, unlisted, gaps, empty = list[str](), list[str](), dict[str, int](), list[str]()
    rows = len(next(iter(sheet.columns.values())))
    for column in schema.every_column:
        own = sheet.site.find_name(column.name)
        if own not in sheet.columns:
            problems += _describe_missing(sheet, column, schema)
            continue
        if column.name in sheet.site.absent:
            continue
        numbers = column.encode(sheet.columns[own], sheet.site.column(column.name))
        problems += _describe_wrong(sheet, column, numbers)
        unlisted += _describe_unlisted(sheet, column)
        missing = int(np.isnan(numbers).sum())
        if missing == rows:
            empty.append(column.name)
        elif missing:
            gaps[column.name] = missing
    notes = _describe_found(sheet, schema, gaps, empty, site_file)
    if unlisted:
        rest = f" and of {len(unlisted) - FEW_UNLISTED} more columns" if len(unlisted) > FEW_UNLISTED else ""
        notes.append(f"not listed, and so gaps: {', '.join(unlisted[:FEW_UNLISTED])}{rest}")
    return FileReport(path, rows, notes, problems)


def _describe_missing(sheet: Sheet, column: Column, schema: Schema) -> list[str]:
    """The problem that a column is missing, unless the site says so or it is the target."""
    if column.name in sheet.site.absent or column is schema.target:
        return []
    taken = {sheet.site.find_name(each.name) for each in schema.every_column}
    extra = [name for name in sheet.columns if name not in {*taken, schema.units, *schema.identifiers}]
    likely, place = find_likely_column(column, sheet.columns, extra), sheet.site.path or site_beside(sheet.path)
    absent = f'absent = ["{column.name}"]'
    if likely is None:
        return [f"column {column.name!r} is missing. To go on: if it is not collected, write in {place}: {absent}"]
    return [
        f'column {column.name!r} is missing; {likely!r} looks like it. To go on: write in {place}: '
        f"{write_line(column.name, name=likely)}, or {absent} if it is not collected"
    ]  # fmt: skip


def _describe_wrong(sheet: Sheet, column: Column, numbers: np.ndarray) -> list[str]:
    """The problem that values of a column are not admitted, with the first of them, and the unit that is suspected."""
    wrong = find_not_admitted(numbers)
    if not len(wrong):
        return []
    values, site = sheet.columns[sheet.site.find_name(column.name)], sheet.site.column(column.name)
    row = int(wrong[0])
    told = column.describe_refusal(str(sheet.path), row + 1, values[row])
    more = f" In {len(wrong):,} of {len(numbers):,} rows, the first {describe_rows(wrong)}." if len(wrong) > 1 else ""
    if column.kind == NUMBER and column.range is not None:
        factor = find_unit_factor(replace(column, range=None).encode(values, site), *column.range)
        if factor is not None:
            place = sheet.site.path or site_beside(sheet.path)
            more += f" Another unit? Then write in {place}: {write_line(column.name, factor=factor)}."
    return [f"{told}{more}"]


def _describe_unlisted(sheet: Sheet, column: Column) -> list[str]:
    """Categories that are not listed, and so gaps."""
    if not column.is_listed or column.unlisted != GAP:
        return []
    strict, site = replace(column, unlisted=REFUSE), sheet.site.column(column.name)
    values = sheet.columns[sheet.site.find_name(column.name)]
    texts = Counter(list_texts(values[find_not_admitted(strict.encode(values, site))].tolist()))
    if not texts:
        return []
    text, _ = texts.most_common(1)[0]
    rest = f" and {len(texts) - 1} more" if len(texts) > 1 else ""
    return [f"{text!r}{rest} of {column.name!r} ({counted(texts.total(), 'row')})"]


def describe_rows(rows: Sequence[int] | np.ndarray) -> str:
    """The numbers, from 1, of the first few rows."""
    return ", ".join(str(int(row) + 1) for row in rows[:3])


def _describe_found(
    sheet: Sheet, schema: Schema, gaps: dict[str, int], empty: Sequence[str], site_file: Path | None
) -> list[str]:
    notes = []
    if sheet.site.path is not None:
        notes.append(f"site: {sheet.site.path}{'' if site_file is not None else ', which is beside it'}")
    if schema.target is not None and sheet.site.find_name(schema.target.name) not in sheet.columns:
        notes.append(f"no target {schema.target.name!r}: these rows can be asked about")
    if gaps:
        shown = ", ".join(f"{name!r} {count:,}" for name, count in list(gaps.items())[:FEW_TOLD])
        rest = len(gaps) - FEW_TOLD
        notes.append(f"gaps: {shown}" + (f" and {rest} more columns" if rest > 0 else ""))
    notes += [f"without any value: {describe_some(empty)}"] if empty else []
    notes += [f"absent, as its site says: {describe_some(sheet.site.absent)}"] if sheet.site.absent else []
    known = {sheet.site.find_name(column.name) for column in schema.every_column} | {schema.units, *schema.identifiers}
    extra = [name for name in sheet.columns if name not in known]
    return notes + ([f"not in the schema, ignored: {describe_some(extra)}"] if extra else [])
