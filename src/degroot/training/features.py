"""Features: the columns from which models predict, as numbers with gaps."""

import shlex
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array
from degroot.compute.tables import LARGEST
from degroot.exceptions import InvalidInput
from degroot.files.columns import as_texts, listed
from degroot.training.tables import Sheet, is_numeric_text


def feature_names(sheets: Sequence[Sheet], apart: Sequence[str]) -> list[str]:
    """All columns but those `apart`, in the order of the first file. All files must have them, in any order."""
    first = sheets[0]
    names = [name for name in first.columns if name not in apart]
    for sheet in sheets[1:]:
        others = [name for name in sheet.columns if name not in apart]
        alone = [name for name in names if name not in others], [name for name in others if name not in names]
        for path, found in zip((first.path, sheet.path), alone, strict=True):
            if found:
                raise InvalidInput(
                    f"All files must have the same features; only {path} has {listed(found)}, not "
                    f"{sheet.path if path == first.path else first.path}. {_option(found)} leaves "
                    f"{_them(found)} out."
                )
    if not names:
        raise InvalidInput(f"{first.path} must have features beside the target; its columns are {listed(apart)}.")
    return names


def read_features(sheets: Sequence[Sheet], names: Sequence[str]) -> list[Array]:
    """These columns of every sheet, (n, d), NaN where a value is missing. A column that is no number is refused."""
    strange = {name: told for name in names for sheet in reversed(sheets) if (told := _strange(sheet, name))}
    if strange:
        told = ", ".join(f"{name!r} ({value})" for name, value in list(strange.items())[:3])
        raise InvalidInput(
            f"Features must be numbers; not so {told}{' and others' if len(strange) > 3 else ''}. Write "
            f"{_them(strange)} as numbers, or leave {_them(strange)} out: {_option(strange)}."
        )
    tables = [np.column_stack([_numbers(sheet, name) for name in names]) for sheet in sheets]
    for k, name in enumerate(names):
        if all(np.isnan(table[:, k]).all() for table in tables):
            raise InvalidInput(
                f"A feature must be known in some rows; column {name!r} is empty. {_option([name])} leaves it out."
            )
    return tables


def _strange(sheet: Sheet, name: str) -> str:
    """What a column holds that is no number, if anything."""
    column = sheet.columns[name]
    if column.dtype.kind in "fiu":
        infinite = np.flatnonzero(np.isinf(column.astype(np.float64)))
        return f"row {infinite[0] + 1} of {sheet.name} is infinite" if len(infinite) else ""
    if column.dtype.kind == "b":
        return f"{sheet.name} has true and false"
    written = [(row, text) for row, text in enumerate(as_texts(column), 1) if text]
    found = [each for each in written if not is_numeric_text(each[1])] or written
    return f"row {found[0][0]} of {sheet.name} is {found[0][1]!r}" if found else ""


def _numbers(sheet: Sheet, name: str) -> Array:
    column = sheet.columns[name]
    return column.astype(np.float64) if column.dtype.kind in "fiu" else np.full(len(column), np.nan)


def _option(names: Iterable[str]) -> str:
    """The option that leaves these columns out, as it is typed."""
    plain = [name for name in names if "," not in name]
    given = [",".join(plain)] * bool(plain) + [name for name in names if "," in name]
    return " ".join(f"--ignore {shlex.quote(each)}" for each in given)


def _them(names: Collection[str]) -> str:
    return "it" if len(names) == 1 else "them"


MANY = 50  # labels that are no classes any more


@dataclass(frozen=True, slots=True)
class Target:
    """The target of every organisation."""

    values: list[NDArray[Any]]  # numbers or labels
    known: list[NDArray[np.bool_]]  # which rows have one
    classes: tuple[str, ...] | None  # all labels; None: numbers

    @property
    def few(self) -> tuple[str, ...]:
        """The numbers that it holds, where they are so few that they may be meant as classes."""
        if self.classes is not None:
            return ()
        found = np.unique(np.concatenate([y[known] for y, known in zip(self.values, self.known, strict=True)]))
        return tuple(as_texts(found)) if len(found) == 2 else ()


def read_target(sheets: Sequence[Sheet], name: str, as_classes: bool) -> Target:
    """Numbers where all are numbers, and classes where none is, or where they are asked for."""
    for sheet in sheets:
        sheet.need(name)
    written = [np.array(as_texts(sheet.columns[name])) for sheet in sheets]
    known = [each != "" for each in written]
    if not any(each.any() for each in known):
        raise InvalidInput(f"The target must be known in some rows; column {name!r} is empty.")
    numbers = [np.array([is_numeric_text(text) for text in each.tolist()], bool) for each in written]
    if as_classes or not any(each.any() for each in numbers):
        return Target(written, known, _classes(written, known, name))
    for sheet, each, number, there in zip(sheets, written, numbers, known, strict=True):
        if (there & ~number).any():
            row = int(np.flatnonzero(there & ~number)[0])
            raise InvalidInput(
                f"The target must hold numbers, or labels with --classes; {name!r} of {sheet.name} "
                f"is {str(each[row])!r} in row {row + 1}."
            )
    return Target([_numeric_target(each, name) for each in written], known, None)


def _numeric_target(written: NDArray[Any], name: str) -> NDArray[Any]:
    numbers = np.array([float(text or "nan") for text in written.tolist()])
    if np.nanmax(np.abs(numbers), initial=0.0) > LARGEST:
        raise InvalidInput(f"The target must not exceed {LARGEST:g} in size; {name!r} does.")
    return numbers


def _classes(written: Sequence[NDArray[Any]], known: Sequence[NDArray[np.bool_]], name: str) -> tuple[str, ...]:
    labels = np.unique(np.concatenate([each[there] for each, there in zip(written, known, strict=True)])).tolist()
    if not 1 < len(labels) <= MANY:
        came = f"{labels[0]!r} only" if len(labels) == 1 else f"{len(labels)} labels, such as {labels[0]!r}"
        raise InvalidInput(f"A target that is no number must have 2 to {MANY} labels; {name!r} has {came}.")
    return tuple(sorted(labels, key=lambda label: (float(label) if is_numeric_text(label) else 0.0, label)))
