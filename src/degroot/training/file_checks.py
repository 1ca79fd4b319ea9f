"""Checks of one data file against a schema: what it holds, and what in it does not fit."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from degroot.answers.display import counted
from degroot.schema.columns import AS_AGREED, NUMBER, POINT, Column, describe_some, find_not_admitted, is_number
from degroot.schema.labels import map_labels
from degroot.schema.matching import ALIKE, compare_names, find_unit_factors
from degroot.schema.notation import list_number_notations
from degroot.schema.schema import Schema
from degroot.schema.sites import site_beside, write_absent
from degroot.training.column_names import find_likely
from degroot.training.tables import Sheet, read_sheet

FEW_TOLD, FEW_UNLISTED = 10, 4  # columns in a note on gaps, and on categories that are not listed
FEW_FACTORS = 4  # of units, in a message


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
    likely, place = find_likely(sheet, column, schema), _find_site_file(sheet)
    own, absent = sheet.site.find_name(column.name), write_absent(column.name)
    told = f"column {own!r} is missing" + (f", as {place} calls {column.name!r}" if own != column.name else "")
    if likely is None and own != column.name:
        return [f"{told}. To go on: correct the `name` there, or write {absent} instead if it is not collected"]
    if likely is None:
        return [f"{told}. To go on: if it is not collected, write in {place}: {absent}"]
    return [
        f"{told}; {likely!r} looks like it. To go on: write in {place}: "
        f"{sheet.site.change_line(column.name, name=likely)}, or {absent} if it is not collected"
    ]


def _find_site_file(sheet: Sheet) -> Path:
    """Where it is written how the file writes columns."""
    return sheet.site.path or site_beside(sheet.path)


def _describe_wrong(sheet: Sheet, column: Column, numbers: np.ndarray) -> list[str]:
    """The problem that values of a column are not admitted, with the first of them, and what is suspected."""
    wrong = find_not_admitted(numbers)
    if not len(wrong):
        return []
    first = ", ".join(str(row + 1) for row in wrong[:3].tolist())
    more = f" In {len(wrong):,} of {len(numbers):,} rows, the first {first}." if len(wrong) > 1 else ""
    suspected = (
        (_suspect_notation(sheet, column, wrong) or _suspect_unit(sheet, column)) if column.kind == NUMBER else ""
    )
    return [f"{_describe_first(sheet, column, int(wrong[0]))}{more}{suspected}"]


def _describe_first(sheet: Sheet, column: Column, row: int) -> str:
    """The line about a value that is not admitted: as it is written, and as the site file converts it."""
    values, site = sheet.columns[sheet.site.find_name(column.name)], sheet.site.column(column.name)
    told = column.describe_refusal(str(sheet.path), row + 1, values[row])
    if column.kind != NUMBER or column.range is None or (site.factor == 1.0 and site.offset == 0.0):
        return told
    converted = replace(column, range=None).encode(values[row : row + 1], site)[0]
    if not np.isfinite(converted):
        return told
    by = "factor" if site.offset == 0.0 else "factor and offset"
    return (
        f"{sheet.path}: row {row + 1}: column {column.name!r} must {column.describe_requirement()}; got {values[row]}, "
        f"which is {converted:.4g} by the site file's {by}. To go on: correct it, or the {by} in the site file, or "
        "widen `range` in the schema."
    )


def _suspect_notation(sheet: Sheet, column: Column, wrong: np.ndarray) -> str:
    """What to write if the texts that are not admitted are numbers with a decimal comma, or signs beside digits."""
    values, site = sheet.columns[sheet.site.find_name(column.name)], sheet.site.column(column.name)
    texts = [str(value).strip() for value in values[wrong].tolist()]
    if site.parses_numbers or all(map(is_number, texts)):
        return ""
    lines = []
    for notation in list_number_notations(list(dict.fromkeys(texts))):
        decimal = None if notation.decimal == POINT else notation.decimal
        read = replace(site, decimal=notation.decimal, strip=notation.strip)
        if not len(find_not_admitted(column.encode(values, read))):
            lines.append(sheet.site.change_line(column.name, decimal=decimal, strip=notation.strip or None))
    return f" If these are numbers, write in {_find_site_file(sheet)}: {' or '.join(lines)}." if lines else ""


def _suspect_unit(sheet: Sheet, column: Column) -> str:
    """What to write if the numbers are in another unit."""
    if column.range is None:
        return ""
    values, site = sheet.columns[sheet.site.find_name(column.name)], sheet.site.column(column.name)
    plain = replace(site, factor=AS_AGREED.factor, offset=AS_AGREED.offset)
    written = site.factor if site.offset == 0.0 else None
    factors = find_unit_factors(replace(column, range=None).encode(values, plain), *column.range)
    factors = [factor for factor in factors if factor != written]
    if not factors:
        return ""
    line = sheet.site.change_line(column.name, factor=factors[0], offset=None)
    others = " or ".join(f"{factor:.12g}" for factor in factors[1:FEW_FACTORS])
    rest = f", or factor = {others}" if others else ""
    return f" Another unit? Then write in {_find_site_file(sheet)}: {line}{rest}."


def _describe_unlisted(sheet: Sheet, column: Column) -> list[str]:
    """Categories that are not listed, and so gaps."""
    values = sheet.columns[sheet.site.find_name(column.name)]
    texts = column.count_unlisted(values, sheet.site.column(column.name))
    if not texts:
        return []
    text, _ = texts.most_common(1)[0]
    rest = f" and {len(texts) - 1} more" if len(texts) > 1 else ""
    return [f"{text!r}{rest} of {column.name!r} ({counted(texts.total(), 'row')})"]


def _describe_found(
    sheet: Sheet, schema: Schema, gaps: dict[str, int], empty: Sequence[str], site_file: Path | None
) -> list[str]:
    notes = []
    if sheet.site.path is not None:
        notes.append(f"site: {sheet.site.path}{'' if site_file is not None else ', which is beside it'}")
    if schema.target is not None and sheet.site.find_name(schema.target.name) not in sheet.columns:
        suggested = _suggest_target(sheet, schema.target, schema)
        notes.append(f"no target {schema.target.name!r}: these rows can be asked about{suggested}")
    if gaps:
        shown = ", ".join(f"{name!r} {count:,}" for name, count in list(gaps.items())[:FEW_TOLD])
        rest = len(gaps) - FEW_TOLD
        notes.append(f"gaps: {shown}" + (f" and {rest} more columns" if rest > 0 else ""))
    notes += [f"without any value: {describe_some(empty)}"] if empty else []
    notes += [f"absent, as its site says: {describe_some(sheet.site.absent)}"] if sheet.site.absent else []
    known = {sheet.site.find_name(column.name) for column in schema.every_column} | {schema.units, *schema.identifiers}
    extra = [name for name in sheet.columns if name not in known]
    return notes + ([f"not in the schema, ignored: {describe_some(extra)}"] if extra else [])


def _suggest_target(sheet: Sheet, target: Column, schema: Schema) -> str:
    """What to write if the file has the target by another name, like it."""
    taken = {sheet.site.find_name(name) for name in schema.names} | {schema.units, *schema.identifiers}
    rated = {name: compare_names(target.name, name) for name in sheet.columns if name not in taken}
    likely = max(rated, key=lambda name: rated[name], default=None)
    if likely is None or rated[likely] < ALIKE:
        return ""
    line = sheet.site.change_line(target.name, name=likely)
    return f"; if {likely!r} is the target, write in {_find_site_file(sheet)}: {line}"
