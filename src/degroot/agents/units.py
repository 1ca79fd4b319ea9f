"""Units: which rows are of one person, farm or country, and so belong together."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.compute.tables import ErrorFactory, as_array, is_missing
from degroot.exceptions import InvalidInput

LABEL_APART = "If these are different units, label them apart."


def as_units(units: Any, n_rows: int, complaint: ErrorFactory = InvalidInput) -> NDArray[Any]:
    """`units` as an array with the label of each of `n_rows` rows, if they are that.

    Examples
    --------
    >>> as_units(["ann", "bob", "ann"], 3)
    array(['ann', 'bob', 'ann'], dtype='<U3')
    >>> as_units([1.0, float("nan")], 2)
    Traceback (most recent call last):
    degroot.exceptions.InvalidInput: `units` must hold no missing labels; row 1 is nan.
    """
    labels = as_array(units, lambda why: complaint(f"`units` must hold one label for each row; {why}."))
    if labels.shape != (n_rows,):
        raise complaint(f"`units` must hold one label for each of {n_rows} rows; its shape is {labels.shape}.")
    missing = np.flatnonzero(is_missing(labels, empty=True))
    if len(missing):
        row = int(missing[0])
        raise complaint(f"`units` must hold no missing labels; row {row} is {_describe_label(labels[row])}.")
    if labels.dtype.kind == "O":
        try:
            np.unique(labels)
        except TypeError as error:
            raise complaint(f"`units` must hold labels that can be sorted; {error}.") from error
    return labels


def code_units(units: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """The distinct labels (U,) in the order in which they first appear, and the place of each row's label (n,).

    Examples
    --------
    >>> code_units(np.array(["bob", "ann", "bob"]))
    (array(['bob', 'ann'], dtype='<U3'), array([0, 1, 0]))
    """
    labels, first, codes = np.unique(units, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(len(order), np.intp)
    place[order] = np.arange(len(order))
    return labels[order], place[codes.reshape(-1)]


def check_units_apart(
    holders: Iterable[tuple[str, NDArray[Any]]], what: str = "agents", hint: str = LABEL_APART
) -> None:
    """Refuse units that two holders have; each is a name and its distinct labels.

    Examples
    --------
    >>> check_units_apart([("north", np.array([17, 18])), ("south", np.array([17, 19]))])
    Traceback (most recent call last):
    degroot.exceptions.InvalidInput: Units must not span agents; unit 17 is in 'north' and in 'south'. If these are \
different units, label them apart.
    """
    owners: dict[Any, str] = {}
    for name, labels in holders:
        for label in labels.tolist():
            owner = owners.setdefault(label, name)
            if owner != name:
                raise InvalidInput(
                    f"Units must not span {what}; unit {label!r} is in {owner!r} and in {name!r}. {hint}"
                )


def _describe_label(label: Any) -> str:
    return "empty" if isinstance(label, str | bytes) else str(label)
