"""Gaps: which columns of a table lack values, and errors that name them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.compute.tables import ErrorFactory, is_frame, is_missing, is_sparse, to_numbers
from degroot.exceptions import InvalidInput, describe_error

NAMED = 4  # columns in a message


def describe_gaps(X: Any, *, only_empty: bool = False) -> str | None:
    """Which columns of `X`, (n, d), have no value or, if there are none, lack some; None where no value is missing.

    Examples
    --------
    >>> describe_gaps(np.array([[1.0, np.nan, np.nan], [2.0, np.nan, 3.0]]))
    'column 1 has no value in any of 2 rows'
    >>> describe_gaps(np.array([[1.0, np.nan], [2.0, 3.0]]))
    'column 1 is NaN in 1 of 2 rows'
    """
    if is_sparse(X) or not X.shape[0]:
        return None
    counts = np.array([int(is_missing(column).sum()) for column in _columns(X)])
    empty, some = np.flatnonzero(counts == X.shape[0]), np.flatnonzero(counts)
    if len(empty):
        return f"{_name(X, empty)} {'has' if len(empty) == 1 else 'have'} no value in any of {X.shape[0]} rows"
    if only_empty or not len(some):
        return None
    most = f"{counts[some].max()} of {X.shape[0]} rows"
    return f"{_name(X, some)} is NaN in {most}" if len(some) == 1 else f"{_name(X, some)} are NaN in up to {most}"


def describe_failure(X: Any, error: Exception) -> str:
    """What a model raised when it was given `X`; the columns without a value, where these seem to be why."""
    about_gaps = "nan" in str(error).lower() or "missing value" in str(error).lower()
    gaps = describe_gaps(X, only_empty=not about_gaps)
    if gaps is None:
        return str(error).rstrip(".") if isinstance(error, InvalidInput) else f"it raised {describe_error(error)}"
    return f"it raised {type(error).__name__}, where {gaps}. Leave it out, or fill gaps in a pipeline before the model"


def check_finite(X: Any, complaint: ErrorFactory = InvalidInput) -> None:
    """Raise unless `X` holds finite numbers; the error names the columns that lack values."""
    try:
        to_numbers(X, complaint)
    except InvalidInput:
        gaps = describe_gaps(X)
        if gaps is None:
            raise
        remedy = (
            "Leave it out, or fill it."
            if describe_gaps(X, only_empty=True)
            else "Fill gaps, or for models that take NaN give a `space` that does: "
            "make_pipeline(SimpleImputer(), StandardScaler())."
        )
        raise complaint(f"`X` must be finite; {gaps}. {remedy}") from None


def _columns(X: Any) -> list[NDArray[Any]]:
    if not is_frame(X):
        return list(np.asarray(X).T)
    return [np.asarray(X.iloc[:, k] if hasattr(X, "iloc") else X[:, k]) for k in range(X.shape[1])]


def _name(X: Any, places: Sequence[int] | NDArray[np.intp]) -> str:
    """Columns by name where they have one, else by number."""
    names = [repr(X.columns[k]) if is_frame(X) else str(k) for k in places[:NAMED]]
    more = [f"{len(places) - NAMED} more"] if len(places) > NAMED else []
    return f"column{'' if len(places) == 1 else 's'} {', '.join([*names, *more])}"
