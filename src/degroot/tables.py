"""Tables: whatever holds rows. numpy arrays, pandas and polars frames, sparse matrices, nested lists.

Models get a table in the form in which it came, feature names and all. Distances need numbers.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse

from degroot.exceptions import InvalidInput
from degroot.points import Array

Complaint = Callable[[str], InvalidInput]


def as_table(X: Any, complaint: Complaint = InvalidInput, name: str = "X") -> Any:
    """`X` as something with rows that can be sliced; frames and sparse matrices stay what they are."""
    if is_frame(X):
        return X
    if issparse(X):
        return X.tocsr()
    try:
        table = np.asarray(X)
    except (TypeError, ValueError) as error:
        raise complaint(f"`{name}` must be a table of numbers; {told(error)}.") from error
    if table.ndim != 2:
        raise complaint(f"`{name}` must be 2-dimensional, (rows, features); its shape is {table.shape}.")
    return table


def is_frame(X: Any) -> bool:
    """Whether `X` is a data frame, of pandas or polars or the like."""
    return hasattr(X, "columns") and hasattr(X, "to_numpy")


def column_names(X: Any) -> list[str] | None:
    """The names of the columns where all of them are strings."""
    names = list(X.columns) if is_frame(X) else []
    return names if names and all(isinstance(name, str) for name in names) else None


def take(X: Any, start: int, stop: int) -> Any:
    """Rows start..stop, in the same form."""
    return X.iloc[start:stop] if hasattr(X, "iloc") else X[start:stop]


def to_numbers(X: Any, complaint: Complaint = InvalidInput, name: str = "X") -> Any:
    """`X` as a finite dense array or CSR of float32 or float64."""
    values = X if issparse(X) else np.asarray(X)
    if values.ndim != 2:
        raise complaint(f"`{name}` must be 2-dimensional, (rows, features); its shape is {values.shape}.")
    if values.dtype not in (np.float32, np.float64):
        if values.dtype.kind not in "fiubO":
            raise complaint(f"`{name}` must hold numbers; it holds {values.dtype}. A `space` can turn it into numbers.")
        try:
            values = values.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise complaint(
                f"`{name}` must hold numbers; {told(error)}. A `space` can turn it into numbers."
            ) from error
    stored = values.data if issparse(values) else values
    if not np.isfinite(stored).all():
        if issparse(values):
            raise complaint(f"`{name}` must be finite; it holds NaN or infinity.")
        row, column = (int(k) for k in np.argwhere(~np.isfinite(values))[0])
        raise complaint(f"`{name}` must be finite; row {row}, column {column} is {values[row, column]}.")
    return values


def to_vector(y: ArrayLike, length: int, complaint: Complaint = InvalidInput, name: str = "y") -> Array:
    """`y` as `length` finite numbers."""
    try:
        values = np.asarray(y)
        if np.iscomplexobj(values):
            raise TypeError("they are complex")
        vector = values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise complaint(f"`{name}` must hold numbers; {told(error)}.") from error
    if vector.ndim == 2 and vector.shape[1] == 1:
        vector = vector[:, 0]
    if vector.shape != (length,):
        raise complaint(f"`{name}` must hold one number for each of {length} rows; its shape is {vector.shape}.")
    if not np.isfinite(vector).all():
        row = int(np.flatnonzero(~np.isfinite(vector))[0])
        raise complaint(f"`{name}` must be finite; row {row} is {vector[row]}.")
    return vector


def told(error: BaseException) -> str:
    """What an error says, in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(".: ")
