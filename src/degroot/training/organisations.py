"""Organisations: each one's rows by the schema and its target, read from files and found to fit together."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from degroot.agents.units import check_units_apart
from degroot.answers.display import counted
from degroot.compute.compiled import Array
from degroot.compute.progress import progress
from degroot.compute.tables import is_missing
from degroot.exceptions import InvalidInput
from degroot.files.columns import as_texts
from degroot.schema.columns import AS_AGREED, CATEGORY, GAP, describe_some
from degroot.schema.inference import Inference, infer_schema
from degroot.schema.labels import map_labels
from degroot.schema.schema import Schema, read_schema
from degroot.schema.sites import Site
from degroot.training.checks import check_sites, check_target_labels, check_target_units
from degroot.training.column_names import check_renamed, check_target_names, refuse_missing
from degroot.training.organisation import Organisation
from degroot.training.tables import Sheet, deal_file, parse_sites, read_files

FEWEST = 10  # rows of an organisation: some are held out, and the others make five folds
FEWEST_UNITS = 3  # of an organisation: one at least is held out, and the others make two folds at least


@dataclass(frozen=True, slots=True)
class Gathered:
    """All organisations, and what their columns mean."""

    organisations: list[Organisation]
    schema: Schema
    inferred: str | None  # what the schema was found to be, where none was given
    notes: list[str]  # what was left out, and what may be wrong
    unit: str | None = None  # the column that says whose row it is
    sites: Mapping[str, Site] = field(default_factory=dict)  # how organisations write columns, if in their own way

    @property
    def features(self) -> list[str]:
        """The names of the features."""
        return list(self.schema.names)

    @property
    def target(self) -> str:
        """What is predicted."""
        return self.schema.target.name  # type: ignore[union-attr]

    @property
    def classes(self) -> tuple[str, ...] | None:
        """All labels; None: the target is a number."""
        return self.schema.classes


def gather(
    files: Sequence[Path],
    target: str | None,
    group: str | None = None,
    ignore: Sequence[str] = (),
    classes: bool = False,
    unit: str | None = None,
    weight: str | None = None,
    schema_file: Path | None = None,
    sites: Sequence[str] = (),
) -> Gathered:
    """The organisations in these files; with `group`, in the parts of one file.

    By the schema of a file or, without one, by the schema that the columns have.
    """
    agreed = None if schema_file is None else _read_agreed(schema_file, target)
    if agreed is not None and classes and agreed.classes is None:
        raise InvalidInput(f'--classes must agree with {schema_file}; there the target is no `kind = "category"`.')
    target = _name_target(target, agreed)
    unit = unit or (None if agreed is None else agreed.units)
    _check_distinct({"the target": target, "--group": group, "--unit": unit, "--weight": weight})
    labels = [target] if unit is None else [target, unit]
    whole, sheets = _read_sheets(files, labels, group, parse_sites(sites), agreed)
    known = {name for sheet in whole for name in sheet.columns} | ({group} if group else set())
    apart = [*list_ignored(ignore, known), *([weight] if weight else [])]
    check_target_names(whole, target)
    for sheet in whole:
        for name in (target, *([unit] if unit else []), *([weight] if weight else [])):
            sheet.need(name)
    inferred, about_columns = None, list[str]()
    if agreed is None:
        about_columns = check_renamed(whole, (target, unit, group, *apart))
        inference = _infer(whole, sheets, target, unit, apart, classes)
        schema, inferred = inference.schema, inference.describe()
        about_columns += inference.notes
        sheets = [replace(sheet, site=_find_site(inference, sheet)) for sheet in sheets]
    else:
        schema = _leave_out(agreed, [*apart, *([group] if group else [])])
        about_columns += [f"{group!r} says whose row it is, and is no feature"] if group in agreed.names else []
        _check_columns(whole, schema)
        sheets = [_map_labels(sheet, schema) for sheet in sheets]
    read = []
    with progress("Encoding rows", len(sheets)) as work:
        for sheet in sheets:
            work.name_step(sheet.name)
            read.append(_read_organisation(sheet, schema, unit, weight))
            work()
    parts = [organisation.part(is_whole) for organisation, is_whole in read]
    kept, small = _keep_large_enough(parts, sheets, group is not None)
    if unit is not None:
        check_units_apart(((each.name, np.unique(np.asarray(each.units))) for each in kept), "organisations")
    own_sites = {sheet.name: sheet.site for sheet in sheets}
    site_files = {sheet.name: sheet.name_site_file() for sheet in sheets}
    about_target = check_target_units(kept, schema, own_sites, site_files, is_dealt=group is not None)
    if agreed is None:
        check_target_labels(kept, schema, own_sites, site_files)
    notes = [
        *_describe_sites([*whole, *sheets]),
        *_describe_ownerless(whole, sheets, group),
        *_describe_unlisted_labels(sheets, schema),
        *_describe_dropped([each for each, _ in read], unit, weight),
        *small,
        *about_columns,
    ]
    notes += [
        *about_target,
        *check_sites(kept, schema, _find_absent(sheets, schema)),
        *_describe_target(target, kept, schema),
    ]
    own_sites = _list_own_sites(sheets, schema, {each.name for each in kept})
    return Gathered(kept, schema, inferred, notes, unit, own_sites)


# ---- schemas ---------------------------------------------------------------------------------------------------------


def _read_agreed(file: Path, target: str | None) -> Schema:
    schema = read_schema(file)
    if schema.target is None:
        raise InvalidInput(f'{file} must name what is predicted, target = "COLUMN"; it does not.')
    if target is not None and schema.target.name != target:
        raise InvalidInput(f"--target must be {schema.target.name!r}, the target of {file}; got {target!r}.")
    return schema


def _name_target(target: str | None, schema: Schema | None) -> str:
    if schema is not None and schema.target is not None:
        return schema.target.name
    if target is None:
        raise InvalidInput("--target COLUMN must say what is predicted, or --schema FILE; got neither.")
    return target


def _leave_out(schema: Schema, names: Sequence[str]) -> Schema:
    """The schema without these columns."""
    for name in names:
        if name in schema.names and len(schema.columns) == 1:
            raise InvalidInput(f"A schema must keep a feature; --ignore {name} leaves none.")
    return replace(schema, columns=tuple(column for column in schema.columns if column.name not in names))


def _check_columns(sheets: Sequence[Sheet], schema: Schema) -> None:
    """Refuse a file without a column of the schema that its site does not call absent."""
    for sheet in sheets:
        for column in schema.columns:
            if column.name not in sheet.site.absent and sheet.site.find_name(column.name) not in sheet.columns:
                refuse_missing(sheet, column, schema)


def _map_labels(sheet: Sheet, schema: Schema) -> Sheet:
    """The sheet with numbers as labels of the target, however it writes them."""
    if schema.target is None:
        return sheet
    return replace(sheet, site=map_labels(sheet.site, schema.target, sheet.columns[sheet.need(schema.target.name)]))


def _infer(
    whole: Sequence[Sheet], sheets: Sequence[Sheet], target: str, unit: str | None, apart: Sequence[str], classes: bool
) -> Inference:
    """The schema of whole files; of the organisations in them, where these have sites of their own."""
    looked_at = whole if all(sheet.site == whole[0].site for sheet in sheets) or len(whole) > 1 else sheets
    tables = {sheet.where: sheet.columns for sheet in looked_at}
    sites = {sheet.where: sheet.site for sheet in looked_at}
    inference = infer_schema(tables, target, sites=sites, units=unit, ignore=apart, classes=classes)
    for sheet in looked_at:
        names = [column.name for column in inference.schema.every_column]
        sheet.site.check(tuple(dict.fromkeys((*names, *inference.left_out, *apart))), target)
        sheet.site.check_kinds(inference.schema.every_column)
    return replace(inference, schema=_take_unlisted_as_gaps(inference.schema))


def _take_unlisted_as_gaps(schema: Schema) -> Schema:
    """The same schema, by which a category that no organisation has is a gap: nobody has agreed on the list."""
    columns = (replace(each, unlisted=GAP) if each.kind == CATEGORY else each for each in schema.columns)
    return replace(schema, columns=tuple(columns))


def _list_own_sites(sheets: Sequence[Sheet], schema: Schema, names: Collection[str]) -> dict[str, Site]:
    """The sites of these organisations that write columns of the schema otherwise than it does, without others."""
    known, found = {column.name for column in schema.every_column}, {}
    for sheet in sheets:
        columns = {name: own for name, own in sheet.site.columns.items() if name in known and own != AS_AGREED}
        if columns and sheet.name in names:
            found[sheet.name] = Site(columns)
    return found


def _find_site(inference: Inference, sheet: Sheet) -> Site:
    return inference.sites.get(sheet.where) or inference.sites[str(sheet.path)]


# ---- rows ------------------------------------------------------------------------------------------------------------


def _read_sheets(
    files: Sequence[Path], labels: Sequence[str], group: str | None, sites: Mapping[str, Path], schema: Schema | None
) -> tuple[list[Sheet], list[Sheet]]:
    """The files, and the organisations in them."""
    if group is None:
        sheets = read_files(files, labels, sites, schema)
        return sheets, sheets
    whole, sheets = deal_file(files, labels, group, sites, schema)
    return [whole], sheets


def _read_organisation(
    sheet: Sheet, schema: Schema, unit: str | None, weight: str | None
) -> tuple[Organisation, NDArray[np.bool_]]:
    """One organisation's rows by the schema, and which of them have a target, a unit and a weight."""
    X = schema.encode_marking(sheet.columns, sheet.site)
    schema.check_admitted(X, lambda name, row: sheet.columns[sheet.need(name)][row], str(sheet.path), sheet.number_row)
    target = sheet.need(schema.target.name)  # type: ignore[union-attr]
    y = schema.encode_target(sheet.columns[target], str(sheet.path), sheet.site, sheet.number_row)
    units = None if unit is None else np.array(as_texts(sheet.columns[sheet.need(unit)]))
    weights = None if weight is None else _read_weights(sheet, weight)
    is_whole = ~is_missing(y, empty=True)
    is_whole &= True if units is None else units != ""
    is_whole &= True if weights is None else ~np.isnan(weights)
    return Organisation(sheet.name, X, y, units, weights), is_whole


def _read_weights(sheet: Sheet, weight: str) -> Array:
    values = sheet.columns[sheet.need(weight)]
    if values.dtype.kind not in "fiu":
        raise InvalidInput(f"--weight must name a column of numbers; {weight!r} of {sheet.path} holds others.")
    weights = values.astype(np.float64)
    wrong = np.flatnonzero((weights < 0.0) | np.isinf(weights))
    if len(wrong):
        row = int(wrong[0])
        raise InvalidInput(
            f"Weights must be finite and not negative; {weight!r} of {sheet.path} is {weights[row]:g} in row "
            f"{sheet.number_row(row)}."
        )
    return weights


def _check_distinct(given: Mapping[str, str | None]) -> None:
    """Refuse one column in two roles."""
    seen: dict[str, str] = {}
    for role, name in given.items():
        if name is not None and seen.setdefault(name, role) != role:
            raise InvalidInput(f"{role} must be another column than {seen[name]}; got {name!r}.")


def list_ignored(given: Sequence[str], known: set[str]) -> list[str]:
    """Columns that are given one by one, or with commas between them."""
    names = [name for each in given for name in ([each] if each in known else map(str.strip, each.split(",")))]
    for name in names:
        if name not in known:
            raise InvalidInput(f"--ignore must name columns; there is no {name!r}.")
    return names


def _keep_large_enough(
    parts: list[Organisation], sheets: Sequence[Sheet], grouped: bool
) -> tuple[list[Organisation], list[str]]:
    """Those with enough rows, of enough units, and with some values. A file that is too small is refused, a group left
    out."""
    small = [each for each in parts if len(each.y) < FEWEST]
    narrow = [each for each in parts if len(each.y) >= FEWEST and each.n_units < FEWEST_UNITS]
    large = [each for each in parts if len(each.y) >= FEWEST and each.n_units >= FEWEST_UNITS]
    empty, kept = [each for each in large if each.lacks.all()], [each for each in large if not each.lacks.all()]
    needed = f"{FEWEST} rows with a target" + ("" if parts[0].units is None else f", of {FEWEST_UNITS} units")
    if len(kept) < len(parts) and not grouped:
        first = (small or narrow or empty)[0]
        path = next(sheet.path for sheet in sheets if sheet.name == first.name)
        if not (small or narrow):
            raise InvalidInput(f"{path} must have values in some feature; all are empty.")
        came = f"{len(first.y)}" if small else f"{len(first.y)}, of {counted(first.n_units, 'unit')}"
        raise InvalidInput(f"{path} must have at least {needed}; it has {came}.")
    if len(kept) < 2:
        raise InvalidInput(f"At least two groups must have {needed}; {len(kept)} of {len(parts)} have.")
    notes = _describe_some(
        f"left out, with fewer than {FEWEST} rows", [f"{each.name} ({len(each.y)})" for each in small]
    )
    notes += _describe_some(
        f"left out, with fewer than {FEWEST_UNITS} units", [f"{each.name} ({each.n_units})" for each in narrow]
    )
    return kept, [*notes, *_describe_some("left out, without any value that counts", [each.name for each in empty])]


FEW_TOLD = 8  # organisations in a note


def _describe_some(what: str, told: Sequence[str]) -> list[str]:
    """A note on the first few of them, if there are any."""
    rest = f" and {len(told) - FEW_TOLD} more" if len(told) > FEW_TOLD else ""
    return [f"{what}: {', '.join(told[:FEW_TOLD])}{rest}"] if told else []


# ---- notes -----------------------------------------------------------------------------------------------------------


def _describe_sites(sheets: Sequence[Sheet]) -> list[str]:
    """The files that say how organisations write columns."""
    paths = dict.fromkeys(str(sheet.site.path) for sheet in sheets if sheet.site.path is not None)
    return [f"columns are read as {', '.join(paths)} {'says' if len(paths) == 1 else 'say'}"] if paths else []


def _find_absent(sheets: Sequence[Sheet], schema: Schema) -> set[tuple[str, str]]:
    """Organisations and columns that their files do not have."""
    return {
        (sheet.name, name)
        for sheet in sheets
        for name, is_absent in zip(schema.names, schema.find_absent(sheet.columns, sheet.site), strict=True)
        if is_absent
    }


def _describe_ownerless(whole: Sequence[Sheet], sheets: Sequence[Sheet], group: str | None) -> list[str]:
    """Rows of a shared file that are nobody's."""
    if group is None:
        return []
    rows, owned = whole[0].n_rows, sum(sheet.n_rows for sheet in sheets)
    return [f"rows without {group!r}, left out: {rows - owned:,} of {rows:,}"] if owned < rows else []


def _describe_unlisted_labels(sheets: Sequence[Sheet], schema: Schema) -> list[str]:
    """Labels of the target that the schema does not list, whose rows are left out."""
    target, labels = schema.target, Counter[str]()
    if target is None:
        return []
    for sheet in sheets:
        labels += target.count_unlisted(sheet.columns[sheet.need(target.name)], sheet.site.column(target.name))
    if not labels:
        return []
    return [
        f"labels of {target.name!r} that the schema does not list: {describe_some(list(labels))}; their "
        f"{counted(labels.total(), 'row')} count as rows without a target"
    ]


def _describe_dropped(organisations: Sequence[Organisation], unit: str | None, weight: str | None) -> list[str]:
    """Rows that have no target, no unit or no weight."""
    missing: dict[str, list[NDArray[np.bool_]]] = {
        "a target": [is_missing(each.y, empty=True) for each in organisations]
    }
    if unit is not None:
        missing["a unit"] = [np.asarray(each.units == "") for each in organisations]
    if weight is not None:
        missing["a weight"] = [np.isnan(np.asarray(each.weights)) for each in organisations]
    notes = []
    for what, marks in missing.items():
        counts = {each.name: int(mark.sum()) for each, mark in zip(organisations, marks, strict=True)}
        told = [f"{number} of {name}" for name, number in counts.items() if number]
        rest = f" and others, {sum(counts.values())} in all" if len(told) > FEW_TOLD else ""
        notes += [f"rows without {what}, left out: {', '.join(told[:FEW_TOLD])}{rest}"] if told else []
    return notes


def _describe_target(name: str, organisations: Sequence[Organisation], schema: Schema) -> list[str]:
    """A target that is always the same, or one of two numbers, which may be meant as classes."""
    found = np.unique(np.concatenate([np.unique(each.y) for each in organisations]))
    if len(found) == 1:
        return [f"{name!r} is {as_texts(found)[0]} in all rows: there is nothing to predict"]
    same = [each.name for each in organisations if (each.y == each.y[0]).all()]
    notes = _describe_some(f"the target {name!r} is the same in all rows", same)
    if schema.classes is not None or len(found) != 2:
        return notes
    first, second = as_texts(found)
    return [*notes, f"{name!r} is {first} or {second}, taken as a number; --classes takes it as two classes"]
