"""Abstention: a model that lacks an input gives no answer. Which rows of a table these are, and what stands in."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array

Mask: TypeAlias = NDArray[np.bool_]
ColumnMask: TypeAlias = NDArray[np.bool_] | None  # (d,) marked columns; None: none of them


def has_gaps(X: Any) -> bool:
    """Whether a table holds NaN. Only dense numbers are looked at: frames and sparse matrices go to models as they are.

    Examples
    --------
    >>> has_gaps(np.array([[1.0, np.nan]])), has_gaps(np.array([[1.0, 2.0]])), has_gaps(np.array([[1, 2]]))
    (True, False, False)
    """
    return isinstance(X, np.ndarray) and X.dtype.kind == "f" and X.size > 0 and bool(np.isnan(X.min()))


def find_gaps(X: Any) -> Mask | None:
    """Where a table holds NaN, (M, d); None: nowhere."""
    return np.isnan(X) if has_gaps(X) else None


def join_columns(one: ColumnMask, other: ColumnMask) -> ColumnMask:
    """The columns that either marks.

    Examples
    --------
    >>> join_columns(np.array([True, False, False]), np.array([False, False, True])), join_columns(None, None)
    (array([ True, False,  True]), None)
    """
    if one is None or other is None:
        return other if one is None else one
    return one | other


def find_needed(absent: ColumnMask, lacks: ColumnMask) -> Mask | None:
    """The columns (d,) that rows do not have and that a model takes, one that takes all but `lacks`; None: none.

    Examples
    --------
    >>> find_needed(np.array([True, True, False]), np.array([True, False, False]))
    array([False,  True, False])
    """
    if absent is None:
        return None
    needed = absent if lacks is None else absent & ~lacks
    return needed if needed.any() else None


def find_gap_rows(X: Any, lacks: ColumnMask = None) -> Mask | None:
    """The rows (M,) with a gap in a column that a model takes, one that takes all but `lacks`; None: no row.

    Examples
    --------
    >>> X = np.array([[1.0, np.nan], [np.nan, 1.0]])
    >>> find_gap_rows(X), find_gap_rows(X, np.array([True, False]))
    (array([ True,  True]), array([ True, False]))
    """
    gaps = find_gaps(X)
    if gaps is None:
        return None
    rows = np.asarray((gaps if lacks is None else gaps[:, ~lacks]).any(axis=1))
    return rows if rows.any() else None


def complete_predictions(said: Array, own: Array, labels: Array) -> Array:
    """What a model says of an agent's rows, (n, Q), with no row left open: what stands in where it abstains (NaN).

    That is what the agent's own model says of the row, `own` (n, Q); where that abstains too, the mean of the agent's
    `labels` (n, Q). So a model that cannot answer earns no more trust than the scoring agent's own, nor less.

    Examples
    --------
    >>> said, own = np.array([[1.0], [np.nan], [np.nan]]), np.array([[9.0], [2.0], [np.nan]])
    >>> complete_predictions(said, own, np.array([[0.0], [1.0], [5.0]])).ravel()
    array([1., 2., 2.])
    """
    standing = np.where(np.isnan(own), labels.mean(axis=0), own)
    completed: Array = np.where(np.isnan(said), standing, said)
    return completed


def blank_columns(X: Any, lacks: ColumnMask) -> Any:
    """A table of numbers with NaN in the columns `lacks`, (d,), so that these add to no distance.

    Examples
    --------
    >>> blank_columns(np.array([[1.0, 2.0]]), np.array([False, True]))
    array([[ 1., nan]])
    """
    if lacks is None or not isinstance(X, np.ndarray) or X.dtype.kind not in "fiu":
        return X
    return np.where(lacks, np.nan, X)
