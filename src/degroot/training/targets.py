"""Targets: what is to be predicted, numbers or classes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.exceptions import InvalidInput
from degroot.tables import LARGEST
from degroot.training.sheets import Sheet
from degroot.training.texts import is_number, texts

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
        return tuple(texts(found)) if len(found) == 2 else ()


def read_target(sheets: Sequence[Sheet], name: str, as_classes: bool) -> Target:
    """Numbers where all are numbers, and classes where none is, or where they are asked for."""
    for sheet in sheets:
        sheet.need(name)
    written = [np.array(texts(sheet.columns[name])) for sheet in sheets]
    known = [each != "" for each in written]
    if not any(each.any() for each in known):
        raise InvalidInput(f"The target must be known in some rows; column {name!r} is empty.")
    numbers = [np.array([is_number(text) for text in each.tolist()], bool) for each in written]
    if as_classes or not any(each.any() for each in numbers):
        return Target(written, known, _classes(written, known, name))
    for sheet, each, number, there in zip(sheets, written, numbers, known, strict=True):
        if (there & ~number).any():
            row = int(np.flatnonzero(there & ~number)[0])
            raise InvalidInput(
                f"The target must hold numbers, or labels with --classes; {name!r} of {sheet.name} "
                f"is {str(each[row])!r} in row {row + 1}."
            )
    return Target([_numbers(each, name) for each in written], known, None)


def _numbers(written: NDArray[Any], name: str) -> NDArray[Any]:
    numbers = np.array([float(text or "nan") for text in written.tolist()])
    if np.nanmax(np.abs(numbers), initial=0.0) > LARGEST:
        raise InvalidInput(f"The target must not exceed {LARGEST:g} in size; {name!r} does.")
    return numbers


def _classes(written: Sequence[NDArray[Any]], known: Sequence[NDArray[np.bool_]], name: str) -> tuple[str, ...]:
    labels = np.unique(np.concatenate([each[there] for each, there in zip(written, known, strict=True)])).tolist()
    if not 1 < len(labels) <= MANY:
        came = f"{labels[0]!r} only" if len(labels) == 1 else f"{len(labels)} labels, such as {labels[0]!r}"
        raise InvalidInput(f"A target that is no number must have 2 to {MANY} labels; {name!r} has {came}.")
    return tuple(sorted(labels, key=lambda label: (float(label) if is_number(label) else 0.0, label)))
