"""Features: the columns from which models predict, as numbers with gaps."""

import shlex
from collections.abc import Collection, Iterable, Sequence

import numpy as np

from degroot.datafiles.columns import listed
from degroot.exceptions import InvalidInput
from degroot.points import Array
from degroot.training.sheets import Sheet
from degroot.training.texts import is_number, texts


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
    written = [(row, text) for row, text in enumerate(texts(column), 1) if text]
    found = [each for each in written if not is_number(each[1])] or written
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
