"""Organisations: each one's rows and target, read from files and found to fit together."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array
from degroot.exceptions import InvalidInput
from degroot.training.features import Target, feature_names, read_features, read_target
from degroot.training.tables import Sheet, of_files, of_groups

FEWEST = 10  # rows of an organisation: some are held out, and the others make five folds


@dataclass(frozen=True, slots=True)
class Organisation:
    """One organisation's rows."""

    name: str
    X: Array  # (n, d), NaN where a value is missing
    y: NDArray[Any]  # (n,) numbers or labels

    def part(self, rows: NDArray[Any]) -> "Organisation":
        """Some of its rows."""
        return replace(self, X=self.X[rows], y=self.y[rows])


@dataclass(frozen=True, slots=True)
class Gathered:
    """All organisations, and what their columns mean."""

    organisations: list[Organisation]
    features: list[str]
    target: str
    classes: tuple[str, ...] | None
    notes: list[str]  # what was left out

    @property
    def has_gaps(self) -> bool:
        """Whether values are missing."""
        return any(bool(np.isnan(each.X).any()) for each in self.organisations)


def gather(
    files: Sequence[Path], target: str, group: str | None = None, ignore: Sequence[str] = (), classes: bool = False
) -> Gathered:
    """The organisations in these files; with `group`, in the parts of one file."""
    sheets = of_files(files, target) if group is None else of_groups(files, target, group)
    known = {name for sheet in sheets for name in sheet.columns} | ({group} if group else set())
    ignored = _ignored(ignore, known)
    found = read_target(sheets, target, classes)
    unnamed = sorted({name for sheet in sheets for name in sheet.columns if not name.strip()})
    features = feature_names(sheets, (target, *ignored, *unnamed))
    tables = read_features(sheets, features)
    whole = [
        Organisation(sheet.name, X[known], y[known])
        for sheet, X, y, known in zip(sheets, tables, found.values, found.known, strict=True)
    ]
    kept, notes = _large_enough(whole, sheets, grouped=group is not None)
    notes += ["a column without a name is left out"] if unnamed else []
    notes += _counting(features, tables)
    return Gathered(kept, features, target, found.classes, [*_gaps(sheets, found), *notes, *_maybe(target, found)])


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
    """Those with enough rows. A file that is too small is refused, a group left out."""
    small = [each for each in whole if len(each.y) < FEWEST]
    kept = [each for each in whole if len(each.y) >= FEWEST]
    if small and not grouped:
        path = next(sheet.path for sheet in sheets if sheet.name == small[0].name)
        raise InvalidInput(f"{path} must have at least {FEWEST} rows with a target; it has {len(small[0].y)}.")
    if len(kept) < 2:
        raise InvalidInput(
            f"At least two groups must have {FEWEST} rows with a target; {len(kept)} of {len(whole)} have."
        )
    told = ", ".join(f"{each.name} ({len(each.y)})" for each in small)
    return kept, [f"left out, with fewer than {FEWEST} rows: {told}"] if small else []


def _gaps(sheets: Sequence[Sheet], target: Target) -> list[str]:
    missing = {sheet.name: int((~known).sum()) for sheet, known in zip(sheets, target.known, strict=True)}
    told = ", ".join(f"{number} of {name}" for name, number in missing.items() if number)
    return [f"rows without a target, left out: {told}"] if told else []


def _counting(features: Sequence[str], tables: Sequence[Array]) -> list[str]:
    """Features that number the rows: hardly meant."""
    steps = [np.diff(table, axis=0) for table in tables]
    found = [name for k, name in enumerate(features) if all((step[:, k] == 1).all() for step in steps)]
    return [f"{name!r} numbers the rows, and is taken as a feature; --ignore leaves it out" for name in found]


def _maybe(name: str, target: Target) -> list[str]:
    few = target.few
    return [f"{name!r} is {few[0]} or {few[1]}, taken as a number; --classes takes it as two classes"] if few else []
