r"""The space of a mixed table: rows by a schema as vectors, so that Euclidean distances weigh all columns alike.

A number, a date or the rank of an ordered category is divided by its standard deviation, in which outliers do not
count; a category becomes a weighted one-hot vector, so that all different categories of a column are equally far apart,
as in Gower's similarity (*A general coefficient of similarity and some of its properties*, Biometrics 27, 1971); a date
with a cycle is a point on a circle; a gap lies at the mean of the column's vectors. benchmarks/TABLES.md compares it
with standardised one-hot vectors.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array
from degroot.exceptions import InvalidInput
from degroot.schema.columns import BOOLEAN, CATEGORY, CYCLES, Column
from degroot.schema.schema import Schema

FENCE = 5.0  # ranges of the inner numbers beyond their ends, where numbers are cut off
INNER = (0.05, 0.02, 0.01, 0.0)  # share of the numbers at each end that are outer ones: the first that leaves a range
CATEGORY_VARIANCE = 2.0  # of a category's vectors; a number has 1
LEAST_MISMATCH = 0.1  # share of pairs of rows that differ, below which a category is not weighed up any more
SCALED = 0  # the size of a column that is scaled as a number


class SchemaSpace:
    r"""Where distances are taken between rows by a schema.

    With :math:`p_k` the share of category k in the rows, :math:`h = \max(1 - \sum_k p_k^2, 0.1)` and
    :math:`w = \sqrt{2 / h}`, category k is :math:`w e_k`, so that two different ones are :math:`w \sqrt 2` apart. A
    number x is :math:`(\min(\max(x, l), u) - m) / s`; the fence l, u lies five times the range of the inner 90 % of the
    numbers beyond it, and m and s are mean and standard deviation of the numbers within.

    Parameters
    ----------
    sizes : for each column the number of its categories, 1 for a boolean, 0 where it is scaled as a number
    cycles : for each column the length of its cycle; 0 where it has none

    Examples
    --------
    >>> from degroot.schema import Column, Schema
    >>> schema = Schema((Column("age"), Column("sex", "category", ("female", "male"))))
    >>> rows = np.array([[20.0, 0.0], [30.0, 1.0], [40.0, 1.0], [50.0, np.nan]])
    >>> SchemaSpace.of(schema).fit(rows).transform(rows).shape
    (4, 3)
    """

    def __init__(self, sizes: Sequence[int], cycles: Sequence[float]) -> None:
        self.sizes = [int(size) for size in sizes]
        self.cycles = [float(cycle) for cycle in cycles]
        self.fences_: Array | None = None  # (2, d) of numbers
        self.centre_: Array | None = None  # (d,)
        self.scale_: Array | None = None  # (d,)
        self.weights_: Array | None = None  # (d,) of categories
        self.fill_: Array | None = None  # (D,) the mean vector of each column's part

    @classmethod
    def of(cls, schema: Schema) -> "SchemaSpace":
        """The space of a schema, to be fitted to rows."""
        return cls([_count_coordinates(column) for column in schema.columns],
                   [0.0 if column.cycle is None else CYCLES[column.cycle] for column in schema.columns])  # fmt: skip

    @property
    def is_fitted(self) -> bool:
        """Whether it has centres and scales."""
        return self.fill_ is not None

    @property
    def widths(self) -> list[int]:
        """How many coordinates each column has."""
        return [size or (2 if cycle else 1) for size, cycle in zip(self.sizes, self.cycles, strict=True)]

    @property
    def has_range(self) -> NDArray[np.bool_]:
        """Which coordinates are of numbers and dates, (D,): of those of categories none is beyond another."""
        return np.repeat([size == SCALED for size in self.sizes], self.widths)

    def fit(self, X: Any, y: Any = None) -> "SchemaSpace":
        """The same space with centres, scales and weights from the rows `X`, (n, d)."""
        X = self._check(X)
        d = X.shape[1]
        fitted = SchemaSpace(self.sizes, self.cycles)
        fences, centre, scale, weights = np.zeros((2, d)), np.zeros(d), np.ones(d), np.ones(d)
        known = [X[:, place][~np.isnan(X[:, place])] for place in range(d)]
        for place, (size, cycle) in enumerate(zip(self.sizes, self.cycles, strict=True)):
            if size:
                weights[place] = _weigh_categories(known[place], size)
            elif not cycle and len(known[place]):
                fences[:, place], centre[place], scale[place] = _locate(known[place])
        fitted.fences_, fitted.centre_, fitted.scale_, fitted.weights_ = fences, centre, scale, weights
        fitted.fill_ = np.concatenate([
            part.mean(axis=0) if len(part) else np.zeros(width)
            for part, width in zip(map(fitted._embed, range(d), known), self.widths, strict=True)
        ])  # fmt: skip
        return fitted

    def transform(self, X: Any) -> Array:
        """Rows (n, d) as vectors (n, D)."""
        if not self.is_fitted:
            raise InvalidInput("A space must be fitted before it transforms rows; it is not.")
        X = self._check(X)
        vectors, fill, start = np.empty((len(X), sum(self.widths))), np.asarray(self.fill_), 0
        for place, width in enumerate(self.widths):
            column, part, mean = X[:, place], vectors[:, start : start + width], fill[start : start + width]
            if self.sizes[place] > 1:
                table = np.vstack([np.eye(width) * self.weights_[place], mean])  # type: ignore[index]
                part[:] = table[np.where(np.isnan(column), width, column).astype(np.intp)]
            else:
                part[:] = self._embed(place, column)
                gaps = np.isnan(column)
                if gaps.any():
                    part[gaps] = mean
            start += width
        return vectors

    def _embed(self, place: int, column: Array) -> Array:
        """The vectors (n, width) of one column's values that are no gaps."""
        size, cycle = self.sizes[place], self.cycles[place]
        fences, centre, scale, weights = (
            np.asarray(each) for each in (self.fences_, self.centre_, self.scale_, self.weights_)
        )
        vectors: Array
        if size > 1:
            vectors = np.eye(size)[column.astype(np.intp)] * weights[place]
        elif size:
            vectors = np.sqrt(2.0) * weights[place] * column[:, None]  # as far apart as two categories
        elif cycle:
            angle = 2.0 * np.pi * column / cycle
            vectors = np.column_stack([np.cos(angle), np.sin(angle)])
        else:
            vectors = ((np.clip(column, *fences[:, place]) - centre[place]) / scale[place])[:, None]
        return vectors

    def _check(self, X: Any) -> Array:
        numbers = np.asarray(X, np.float64)
        if numbers.ndim != 2 or numbers.shape[1] != len(self.sizes):
            raise InvalidInput(
                f"Rows must have {len(self.sizes)} columns, as the schema has; their shape is {numbers.shape}."
            )
        return numbers


def _count_coordinates(column: Column) -> int:
    if column.kind == BOOLEAN:
        return 1
    return len(column.categories) if column.kind == CATEGORY else SCALED


def _weigh_categories(codes: Array, size: int) -> float:
    """The weight of a column's one-hot vectors."""
    shares = np.bincount(codes.astype(np.intp), minlength=max(size, 2)) / max(len(codes), 1)
    mismatch = 1.0 - float((shares**2).sum()) if len(codes) else 0.0
    return float(np.sqrt(CATEGORY_VARIANCE / max(mismatch, LEAST_MISMATCH)))


def _locate(known: Array) -> tuple[tuple[float, float], float, float]:
    """Fences, centre and scale of numbers."""
    low, high = float(known[0]), float(known[0])
    for share in INNER:
        low = float(np.quantile(known, share, method="lower"))
        high = float(np.quantile(known, 1.0 - share, method="higher"))
        if high > low:
            break
    reach = FENCE * (high - low)
    inner = known[(known >= low - reach) & (known <= high + reach)]
    scale = float(np.std(inner))
    return (low - reach, high + reach), float(np.mean(inner)), scale if scale > 0.0 and np.isfinite(scale) else 1.0
