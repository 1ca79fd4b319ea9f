"""Organisations: each one's rows and target, read from files and found to fit together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.agents.units import check_units_apart
from degroot.answers.display import counted
from degroot.compute.compiled import Array
from degroot.exceptions import InvalidInput
from degroot.files.columns import as_texts
from degroot.training.features import Target, feature_names, read_features, read_target
from degroot.training.tables import Sheet, of_files, of_groups

FEWEST = 10  # rows of an organisation: some are held out, and the others make five folds
FEWEST_UNITS = 3  # of an organisation: one at least is held out, and the others make two folds at least


@dataclass(frozen=True, slots=True)
class Organisation:
    """One organisation's rows."""

    name: str
    X: Array  # (n, d), NaN where a value is missing
    y: NDArray[Any]  # (n,) numbers or labels
    units: NDArray[Any] | None = None  # (n,) whose row it is, as text

    def part(self, rows: NDArray[Any]) -> "Organisation":
        """Some of its rows."""
        return replace(self, X=self.X[rows], y=self.y[rows], units=None if self.units is None else self.units[rows])

    @property
    def n_units(self) -> int:
        """How many units its rows are of; without units, as many as rows."""
        return len(self.y) if self.units is None else len(np.unique(self.units))


def mark_owner(X: Array, place: int, count: int) -> Array:
    """Rows with a further column for each of `count` organisations: 1 for the one at `place`, 0 for the others."""
    return np.hstack([X, np.tile(np.eye(count)[place], (len(X), 1))])


def pool(organisations: Sequence[Organisation], name: str) -> Organisation:
    """The rows of all organisations as those of one, each with whose it is."""
    labels = [each.units for each in organisations if each.units is not None]
    marked = [mark_owner(each.X, place, len(organisations)) for place, each in enumerate(organisations)]
    return Organisation(
        name, np.concatenate(marked), np.concatenate([each.y for each in organisations]),
        np.concatenate(labels) if labels else None,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Gathered:
    """All organisations, and what their columns mean."""

    organisations: list[Organisation]
    features: list[str]
    target: str
    classes: tuple[str, ...] | None
    notes: list[str]  # what was left out
    unit: str | None = None  # the column that says whose row it is

    @property
    def has_gaps(self) -> bool:
        """Whether values are missing."""
        return any(bool(np.isnan(each.X).any()) for each in self.organisations)


def gather(
    files: Sequence[Path],
    target: str,
    group: str | None = None,
    ignore: Sequence[str] = (),
    classes: bool = False,
    unit: str | None = None,
) -> Gathered:
    """The organisations in these files; with `group`, in the parts of one file."""
    _check_distinct({"the target": target, "--group": group, "--unit": unit})
    labels = [target] if unit is None else [target, unit]
    sheets = of_files(files, labels) if group is None else of_groups(files, labels, group)
    known = {name for sheet in sheets for name in sheet.columns} | ({group} if group else set())
    ignored = _ignored(ignore, known)
    found = read_target(sheets, target, classes)
    unnamed = sorted({name for sheet in sheets for name in sheet.columns if not name.strip()})
    units = _units(sheets, unit)
    features = feature_names(sheets, (*labels, *ignored, *unnamed))
    tables = read_features(sheets, features)
    whole = [
        Organisation(sheet.name, X, y, labels).part(_is_whole(known, labels))
        for sheet, X, y, labels, known in zip(sheets, tables, found.values, units, found.known, strict=True)
    ]
    kept, notes = _large_enough(whole, sheets, grouped=group is not None)
    if unit is not None:
        check_units_apart(((each.name, np.unique(np.asarray(each.units))) for each in kept), "organisations")
    notes += ["a column without a name is left out"] if unnamed else []
    notes += _counting(features, tables)
    gaps = _gaps(sheets, found.known, "a target")
    gaps += _gaps(sheets, [labels != "" for labels in units if labels is not None], "a unit") if unit else []
    return Gathered(kept, features, target, found.classes, [*gaps, *notes, *_maybe(target, found)], unit)


def _check_distinct(given: Mapping[str, str | None]) -> None:
    """Refuse one column in two roles."""
    seen: dict[str, str] = {}
    for role, name in given.items():
        if name is not None and seen.setdefault(name, role) != role:
            raise InvalidInput(f"{role} must be another column than {seen[name]}; got {name!r}.")


def _units(sheets: Sequence[Sheet], unit: str | None) -> Sequence[NDArray[Any] | None]:
    """Whose each row is, as text, empty where nothing says so; None without a column that does."""
    if unit is None:
        return [None] * len(sheets)
    for sheet in sheets:
        sheet.need(unit)
    return [np.array(as_texts(sheet.columns[unit])) for sheet in sheets]


def _is_whole(known: NDArray[np.bool_], units: NDArray[Any] | None) -> NDArray[np.bool_]:
    """Which rows have a target and, where there are units, a unit."""
    return known if units is None else known & (units != "")


def _ignored(given: Sequence[str], known: set[str]) -> list[str]:
    """Columns that are given one by one, or with commas between them."""
    names = [name for each in given for name in ([each] if each in known else map(str.strip, each.split(",")))]
    for name in names:
        if name not in known:
            raise InvalidInput(f"--ignore must name columns; there is no {name!r}.")
    return names


def _large_enough(
    whole: list[Organisation], sheets: Sequence[Sheet], grouped: bool
) -> tuple[list[Organisation], list[str]]:
    """Those with enough rows, of enough units. A file that is too small is refused, a group left out."""
    small = [each for each in whole if len(each.y) < FEWEST]
    narrow = [each for each in whole if len(each.y) >= FEWEST and each.n_units < FEWEST_UNITS]
    kept = [each for each in whole if len(each.y) >= FEWEST and each.n_units >= FEWEST_UNITS]
    needed = f"{FEWEST} rows with a target" + ("" if whole[0].units is None else f", of {FEWEST_UNITS} units")
    if (small or narrow) and not grouped:
        first = (small or narrow)[0]
        path = next(sheet.path for sheet in sheets if sheet.name == first.name)
        came = f"{len(first.y)}" if small else f"{len(first.y)}, of {counted(first.n_units, 'unit')}"
        raise InvalidInput(f"{path} must have at least {needed}; it has {came}.")
    if len(kept) < 2:
        raise InvalidInput(f"At least two groups must have {needed}; {len(kept)} of {len(whole)} have.")
    notes = []
    if small:
        told = ", ".join(f"{each.name} ({len(each.y)})" for each in small)
        notes.append(f"left out, with fewer than {FEWEST} rows: {told}")
    if narrow:
        told = ", ".join(f"{each.name} ({each.n_units})" for each in narrow)
        notes.append(f"left out, with fewer than {FEWEST_UNITS} units: {told}")
    return kept, notes


def _gaps(sheets: Sequence[Sheet], known: Sequence[NDArray[np.bool_]], what: str) -> list[str]:
    missing = {sheet.name: int((~there).sum()) for sheet, there in zip(sheets, known, strict=True)}
    told = ", ".join(f"{number} of {name}" for name, number in missing.items() if number)
    return [f"rows without {what}, left out: {told}"] if told else []


def _counting(features: Sequence[str], tables: Sequence[Array]) -> list[str]:
    """Features that number the rows: hardly meant."""
    steps = [np.diff(table, axis=0) for table in tables]
    found = [name for k, name in enumerate(features) if all((step[:, k] == 1).all() for step in steps)]
    return [f"{name!r} numbers the rows, and is taken as a feature; --ignore leaves it out" for name in found]


def _maybe(name: str, target: Target) -> list[str]:
    few = target.few
    return [f"{name!r} is {few[0]} or {few[1]}, taken as a number; --classes takes it as two classes"] if few else []
