"""Drafting: a schema from files, for members to edit and agree on, that tells nobody what single rows hold."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files as package_files
from pathlib import Path
from string import Template

import numpy as np

from degroot.answers.display import counted
from degroot.exceptions import InvalidInput
from degroot.schema.columns import (
    CATEGORY,
    GAP,
    MIN_PUBLISHED_ROWS,
    NUMBER,
    Column,
    SiteColumn,
    describe_some,
    round_outward,
)
from degroot.schema.inference import Inference, infer_schema
from degroot.schema.schema import FILE, Schema
from degroot.schema.sites import Site, site_beside
from degroot.training.column_names import describe_partial, find_renamed
from degroot.training.organisations import list_ignored
from degroot.training.tables import Sheet, name_files, read_sheet

Confirm = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class DraftSchema:
    """A schema that was made from files, and what goes with it."""

    schema: Schema
    sites: Mapping[Path, Site]  # files to be written beside the data, where a file writes columns in its own way
    about: str  # what was inferred
    notes: list[str]

    def to_toml(self) -> str:
        """The text of its file, with comments."""
        text = package_files("degroot.training").joinpath("templates", FILE).read_text(encoding="utf-8")
        return Template(text).substitute(schema=self.schema.to_toml(), digest=self.schema.digest)


def draft_schema(
    files: Sequence[Path],
    target: str,
    *,
    group: str | None = None,
    unit: str | None = None,
    ignore: Sequence[str] = (),
    classes: bool = False,
    confirm_rare: Confirm,
) -> DraftSchema:
    """The schema of these files: ranges in round numbers, and categories with few rows only if `confirm_rare` says so.

    `group` deals a file to organisations, and is no feature; `unit` says whose row it is.
    """
    labels = [target, *([unit] if unit else [])]
    sheets = [read_sheet(name, file, labels, None, None) for name, file in zip(name_files(files), files, strict=True)]
    for sheet in sheets:
        for name in (*labels, *([group] if group else [])):
            sheet.need(name)
    apart = [*list_ignored(ignore, {name for sheet in sheets for name in sheet.columns}), *([group] if group else [])]
    sheets, notes = _rename(sheets, (*labels, *apart))
    notes += describe_partial(sheets, (*labels, *apart))
    tables = {str(sheet.path): sheet.columns for sheet in sheets}
    sites = {str(sheet.path): sheet.site for sheet in sheets}
    inference = infer_schema(tables, target, sites=sites, units=unit, ignore=apart, classes=classes)
    schema, rare = _drop_rare(_add_ranges(inference, sheets), _count(inference, sheets), confirm_rare)
    sites_beside = _list_sites(inference, sheets, schema)
    return DraftSchema(schema, sites_beside, inference.describe(), [*notes, *inference.notes, *rare])


def _rename(sheets: Sequence[Sheet], apart: Sequence[str]) -> tuple[list[Sheet], list[str]]:
    """The sheets with sites that name the columns that they likely have under other names."""
    renamed, notes = list(sheets), []
    for found in find_renamed(sheets, apart):
        sheet = renamed[found.place]
        columns = {**sheet.site.columns, found.name: SiteColumn(name=found.likely)}
        renamed[found.place] = replace(sheet, site=replace(sheet.site, columns=columns))
        notes.append(f"{found.likely!r} of {sheet.path} is likely {found.name!r}: see {site_beside(sheet.path)}")
    return renamed, notes


def _add_ranges(inference: Inference, sheets: Sequence[Sheet]) -> Schema:
    def add_range(column: Column) -> Column:
        if column.kind != NUMBER:
            return column
        values = [
            column.encode(sheet.columns[own], site.column(column.name))
            for sheet in sheets
            if (own := (site := inference.sites[str(sheet.path)]).find_name(column.name)) in sheet.columns
            and column.name not in site.absent
        ]
        return replace(column, range=round_outward(np.concatenate(values)))

    schema = inference.schema
    target = None if schema.target is None else add_range(schema.target)
    return replace(schema, columns=tuple(map(add_range, schema.columns)), target=target)


def _count(inference: Inference, sheets: Sequence[Sheet]) -> dict[str, dict[str, int]]:
    """How many rows have each category of each column."""
    counts: dict[str, dict[str, int]] = {}
    for column in inference.schema.every_column:
        if column.kind != CATEGORY:
            continue
        total = np.zeros(len(column.categories), int)
        for sheet in sheets:
            site = inference.sites[str(sheet.path)]
            if (own := site.find_name(column.name)) in sheet.columns and column.name not in site.absent:
                codes = column.encode(sheet.columns[own], site.column(column.name))
                total += np.bincount(codes[np.isfinite(codes)].astype(np.intp), minlength=len(total))
        counts[column.name] = dict(zip(column.categories, total.tolist(), strict=True))
    return counts


def _drop_rare(schema: Schema, counts: Mapping[str, Mapping[str, int]], confirm: Confirm) -> tuple[Schema, list[str]]:
    """The schema without categories of few rows, unless they are confirmed: who sees it may know whose they are."""
    rare = {name: [text for text, count in rows.items() if count < MIN_PUBLISHED_ROWS] for name, rows in counts.items()}
    rare = {name: texts for name, texts in rare.items() if texts}
    total = sum(map(len, rare.values()))
    if not rare:
        return schema, []
    first, texts = next(iter(rare.items()))
    told = (
        f"{total} {'category' if total == 1 else 'categories'} of {counted(len(rare), 'column')} "
        f"{'has' if total == 1 else 'have'} fewer than {MIN_PUBLISHED_ROWS} rows, such as {texts[0]!r} of {first!r}"
    )
    if confirm(told):
        return schema, [f"{told}: they are listed"]
    kept = [_without(column, rare.get(column.name, [])) for column in schema.columns]
    lost = [column.name for column, left in zip(schema.columns, kept, strict=True) if left is None]
    target = None if schema.target is None else _without(schema.target, rare.get(schema.target.name, []))
    if schema.target is not None and (target is None or (target.is_listed and len(target.categories) < 2)):
        raise InvalidInput(
            f"A target of classes must have two with {MIN_PUBLISHED_ROWS} rows or more; {schema.target.name!r} does "
            "not. --list-rare lists all."
        )
    columns_left = tuple(column for column in kept if column is not None)
    if not columns_left:
        raise InvalidInput(f"A schema must have a feature; all are categories of fewer than {MIN_PUBLISHED_ROWS} rows.")
    notes = [f"{told}: they are not listed, and count as gaps; --list-rare lists them"]
    if schema.target is not None and schema.target.name in rare:
        labels = describe_some(rare[schema.target.name])
        notes.append(f"of the target these labels are not listed, so that training leaves their rows out: {labels}")
    notes += [f"left out, with such categories only: {describe_some(lost)}"] if lost else []
    return replace(schema, columns=columns_left, target=target), notes


def _without(column: Column, texts: Sequence[str]) -> Column | None:
    """The column with these categories as gaps; None if no other is left."""
    if not texts:
        return column
    kept = tuple(text for text in column.categories if text not in texts)
    return replace(column, categories=kept, unlisted=GAP) if kept else None


def _list_sites(inference: Inference, sheets: Sequence[Sheet], schema: Schema) -> dict[Path, Site]:
    """Sites that say more than what is beside the files already."""
    sites = {}
    names = [column.name for column in schema.every_column]
    for sheet in sheets:
        site, place = inference.sites[str(sheet.path)], site_beside(sheet.path)
        missing = [name for name in names if site.find_name(name) not in sheet.columns and name not in site.absent]
        site = replace(site, absent=(*site.absent, *missing))
        if (site.columns or site.absent) and not place.exists():
            sites[place] = site
    return sites
