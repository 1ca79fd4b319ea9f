"""Tables: whatever holds rows. numpy arrays, pandas and polars frames, sparse matrices, nested lists.

Models get a table in the form in which it came, feature names and all. Distances need numbers.
"""

import math
import sys
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from degroot.compute.compiled import Array
from degroot.exceptions import InvalidInput, describe_error

CHECKED = 1 << 20  # numbers looked at at once: rows may be a file larger than memory
FEW_NUMBERS = 64  # that Python looks at sooner than numpy
LARGEST = 1e140  # of labels and predictions, so that the square of an error is finite

ErrorFactory = Callable[[str], InvalidInput]


def as_table(X: Any, complaint: ErrorFactory = InvalidInput, name: str = "X") -> Any:
    """`X` as something with rows that can be sliced; frames and sparse matrices stay what they are."""
    if is_frame(X):
        return X
    table: Any = (
        X if is_sparse(X) else as_array(X, lambda why: complaint(f"`{name}` must be a table of numbers; {why}."))
    )
    if table.ndim != 2:
        raise complaint(f"`{name}` must be 2-dimensional, (rows, features); its shape is {table.shape}.")
    return table.tocsr() if is_sparse(table) else table


def is_sparse(X: Any) -> bool:
    """Whether `X` is a sparse matrix. Without scipy imported nothing is, and it is not imported to see that.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> is_sparse(csr_array([[1.0]])), is_sparse(np.ones((1, 1)))
    (True, False)
    """
    sparse = sys.modules.get("scipy.sparse")
    return sparse is not None and bool(sparse.issparse(X))


def is_frame(X: Any) -> bool:
    """Whether `X` is a data frame, of pandas or polars or the like."""
    return hasattr(X, "columns") and hasattr(X, "to_numpy")


def column_names(X: Any) -> list[str] | None:
    """The names of the columns where all of them are strings."""
    names = list(X.columns) if is_frame(X) else []
    return names if names and all(isinstance(name, str) for name in names) else None


def row_labels(X: Any) -> Any:
    """What a pandas frame calls its rows; None for other tables."""
    return X.index if is_frame(X) and hasattr(X, "iloc") else None


def same_columns(
    names: list[str] | None, expected: list[str] | None, whose: str = "`X`", complaint: ErrorFactory = InvalidInput
) -> None:
    """Refuse columns with other names, or in another order, where both have names."""
    if names is not None and expected is not None and names != expected:
        k = next(k for k, pair in enumerate(zip(names, expected, strict=True)) if pair[0] != pair[1])
        raise complaint(
            f"{whose} must have the same features in the same order; feature {k} is {names[k]!r}, not {expected[k]!r}."
        )


def check_points(X: Any, n_features: int, feature_names: list[str] | None, whose: str = "the agents'") -> Any:
    """`X` as a table of points to ask about, with the features that `whose` rows have.

    Examples
    --------
    >>> check_points([[1.0, 2.0]], 2, None)
    array([[1., 2.]])
    >>> check_points([[1.0]], 2, None)
    Traceback (most recent call last):
    degroot.exceptions.InvalidInput: `X` must have 2 features, as the agents' rows do; got 1.
    """
    X = as_table(X)
    if X.shape[1] != n_features:
        raise InvalidInput(f"`X` must have {n_features} features, as {whose} rows do; got {X.shape[1]}.")
    same_columns(column_names(X), feature_names)
    return X


def take(X: Any, rows: slice | NDArray[np.intp]) -> Any:
    """Some rows, in the same form."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def to_numbers(X: Any, complaint: ErrorFactory = InvalidInput, name: str = "X") -> Any:
    """`X` as a finite dense array or CSR of float32 or float64."""
    is_plain = type(X) is np.ndarray and X.ndim == 2  # as most are, and few points are asked about often
    values = X if is_plain else as_table(X if is_sparse(X) else np.asarray(X), complaint, name)
    if values.dtype.char not in "fd" or not values.dtype.isnative:
        values = as_floats(values, lambda why: complaint(f"{why} A `space` can turn it into numbers."), name)
    if not is_plain and is_sparse(values):
        if not np.isfinite(values.data).all():
            raise complaint(f"`{name}` must be finite; it holds NaN or infinity. A `space` of the agent can fill gaps.")
    elif (place := _not_finite(values)) is not None:
        raise complaint(
            f"`{name}` must be finite; row {place[0]}, column {place[1]} is {values[place]}. "
            "A `space` of the agent can fill gaps."
        )
    return values


def _not_finite(values: Array) -> tuple[int, int] | None:
    """Row and column of the first number that is not finite, if there is any."""
    if values.size <= FEW_NUMBERS and is_finite(values):
        return None
    step = max(1, CHECKED // max(1, values.shape[1]))
    for start in range(0, len(values), step):
        finite = np.isfinite(values[start : start + step])
        if not finite.all():
            row, column = (int(k) for k in np.argwhere(~finite)[0])
            return start + row, column
    return None


def to_outputs(
    y: ArrayLike, length: int, complaint: ErrorFactory = InvalidInput, name: str = "y", outputs: int | None = -1
) -> Array:
    """`y` as finite numbers, (length,) or (length, Q); a single column is taken as (length,).

    `outputs` says what it has to be: Q columns, or None for (length,); -1: either.
    """
    is_plain = type(y) is np.ndarray
    values: Any = y if is_plain else as_array(y, lambda why: complaint(f"`{name}` must hold numbers; {why}."))
    if values.ndim == 2 and values.shape[1] == 1 and outputs in (None, -1):
        values = values[:, 0]
    several = values.ndim == 2 and values.shape[1] > 0 and outputs in (values.shape[1], -1)
    if values.shape[:1] != (length,) or not (several or (values.ndim == 1 and outputs in (None, -1))):
        wanted = "one number" if outputs is None else f"{outputs} numbers" if outputs > 0 else "numbers"
        form = ", (n,) or (n, Q)" if outputs == -1 else ""
        raise complaint(f"`{name}` must hold {wanted} for each of {length} rows{form}; its shape is {values.shape}.")
    numbers: Array = as_floats(values, complaint, name)
    largest = find_largest_magnitude(numbers)
    if not largest <= LARGEST:  # also false of NaN
        if not np.isfinite(numbers).all():
            row = int(np.argwhere(~np.isfinite(numbers))[0][0])
            raise complaint(f"`{name}` must be finite; row {row} is {numbers[row]}.")
        raise complaint(f"`{name}` must not exceed {LARGEST:g} in size; it reaches {largest:g}.")
    return numbers


def is_finite(values: Array) -> bool:
    """Whether all of them are finite numbers.

    Examples
    --------
    >>> is_finite(np.array([1.0, -1e308, -1e308])), is_finite(np.array([1.0, np.inf, -np.inf]))
    (True, False)
    """
    if values.size <= FEW_NUMBERS and math.isfinite(sum(values.reshape(-1).tolist())):
        return True
    return bool(np.isfinite(values).all())  # a sum of finite numbers can be too large for one


def find_largest_magnitude(values: Array) -> float:
    """The largest absolute value; 0 of no numbers, NaN where one is not a number.

    Examples
    --------
    >>> find_largest_magnitude(np.array([[1.0, -3.0]])), find_largest_magnitude(np.array([1.0, np.nan, 2.0]))
    (3.0, nan)
    """
    if values.size > FEW_NUMBERS:
        return float(np.abs(values).max())
    few = values.reshape(-1).tolist()
    return math.nan if any(map(math.isnan, few)) else max(map(abs, few), default=0.0)


def call_model(predict: Callable[[Any], Any], X: Any, complaint: ErrorFactory) -> Any:
    """What a model answers; whatever it raises is a complaint."""
    try:
        return predict(X)
    except Exception as error:
        from degroot.compute.gaps import describe_failure  # which itself works on tables

        raise complaint(f"its model must predict; {describe_failure(X, error)}.") from error


def as_array(values: Any, complaint: ErrorFactory) -> NDArray[Any]:
    """`values` as an array, if they can be one; whatever is wrong is a complaint."""
    masks = sys.modules.get("numpy.ma")  # without which nothing is masked
    if masks is not None and isinstance(values, masks.MaskedArray) and masks.is_masked(values):
        raise complaint("some of it is masked")
    try:
        return np.asarray(values)
    except (TypeError, ValueError) as error:
        raise complaint(describe_error(error)) from error


def is_missing(column: NDArray[Any], *, empty: bool = False) -> NDArray[np.bool_]:
    """Where values are None, NaN, NaT or pandas' NA; with `empty` also where a text is empty.

    Examples
    --------
    >>> is_missing(np.array(["a", None, ""], dtype=object)), is_missing(np.array(["a", ""]), empty=True)
    (array([False,  True, False]), array([False,  True]))
    """
    if column.dtype.kind == "O":
        return np.array(
            [_is_none_or_nan(value) or (empty and isinstance(value, str | bytes) and not value) for value in column],
            bool,
        )
    if empty and column.dtype.kind in "US":
        return np.asarray(np.char.str_len(column) == 0)
    return np.asarray(column != column)  # true of NaN and NaT alone


def _is_none_or_nan(value: object) -> bool:
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas.NA compares to NA, which is neither true nor false
        return True


def as_floats(values: Any, complaint: ErrorFactory, name: str) -> Any:
    """Numbers of any kind as float64. A text that looks like a number is none."""
    kind = values.dtype.kind
    if kind not in "fiubO":
        raise complaint(f"`{name}` must hold numbers; it holds {values.dtype}.")
    if kind == "O":
        strange = [value for value in values.flat if not isinstance(value, Real)]
        if strange:
            raise complaint(f"`{name}` must hold numbers; it holds {strange[0]!r}.")
    return values.astype(np.float64)
