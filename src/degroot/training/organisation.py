"""An organisation: its rows by the schema and its target, alone or pooled with those of others."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array


@dataclass(frozen=True, slots=True)
class Organisation:
    """One organisation's rows."""

    name: str
    X: Array  # (n, d) by the schema, NaN where a value is missing
    y: NDArray[Any]  # (n,) numbers or labels
    units: NDArray[Any] | None = None  # (n,) whose row it is, as text
    weights: Array | None = None  # (n,) for what each row counts in training; None: all alike

    def part(self, rows: NDArray[Any]) -> "Organisation":
        """Some of its rows."""
        return replace(
            self, X=self.X[rows], y=self.y[rows], units=None if self.units is None else self.units[rows],
            weights=None if self.weights is None else self.weights[rows],
        )  # fmt: skip

    @property
    def n_units(self) -> int:
        """How many units its rows are of; without units, as many as rows."""
        return len(self.y) if self.units is None else len(np.unique(self.units))

    @property
    def lacks(self) -> NDArray[np.bool_]:
        """Which columns have no value at all, (d,)."""
        return np.asarray(np.isnan(self.X).all(axis=0))


def mark_owner(X: Array, place: int) -> Array:
    """Rows with a further column: the place of the organisation whose they are."""
    return np.column_stack([X, np.full(len(X), float(place))])


def pool(organisations: Sequence[Organisation], name: str) -> Organisation:
    """The rows of all organisations as those of one, each with whose it is."""
    units = [each.units for each in organisations if each.units is not None]
    weights = [each.weights for each in organisations if each.weights is not None]
    marked = [mark_owner(each.X, place) for place, each in enumerate(organisations)]
    return Organisation(
        name, np.concatenate(marked), np.concatenate([each.y for each in organisations]),
        np.concatenate(units) if units else None, np.concatenate(weights) if weights else None,
    )  # fmt: skip
