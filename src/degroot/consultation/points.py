"""Points to ask about, read as the agents' rows are."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.agents.abstention import blank_columns
from degroot.compute.tables import as_floats, check_points, is_frame, row_labels
from degroot.exceptions import InvalidInput
from degroot.schema.schema import Schema


@dataclass(frozen=True, slots=True)
class AskedPoints:
    """Points to ask about: where the agents have a schema, as numbers by it."""

    X: Any  # (M, d)
    index: Any = None  # what a pandas frame calls its rows
    absent: NDArray[np.bool_] | None = None  # (d,) columns that the points do not have at all; None: they have all


def read_points(
    X: Any,
    schema: Schema | None,
    n_features: int,
    feature_names: list[str] | None,
    absent: Sequence[str] = (),
    whose: str = "the agents'",
) -> AskedPoints:
    """The points `X`, with the features that `whose` rows have.

    By a schema columns may be `absent`, those that a frame does not have among them: their values do not count.

    Examples
    --------
    >>> from degroot.schema import Column, Schema
    >>> schema = Schema((Column("age"), Column("sex", "category", ("female", "male"))))
    >>> read_points([[31.0, 1.0]], schema, 2, None, ["age"]).X
    array([[nan,  1.]])
    """
    if schema is None:
        if len(absent):
            raise InvalidInput(f"`absent` must name columns of the schema; there is none, and got {absent[0]!r}.")
        table = check_points(X, n_features, feature_names, whose)
        return AskedPoints(table, row_labels(table))
    marked = schema.mark_features(absent, "`absent`")
    if is_frame(X):
        marked |= schema.find_absent(X.columns)
        from degroot.schema.frames import encode_frame

        numbers = encode_frame(X, schema)
    else:
        numbers = as_floats(np.asarray(check_points(X, n_features, None, whose)), _refuse_values, "X")
        schema.check_numbers(numbers)
    lacking = marked if marked.any() else None
    return AskedPoints(blank_columns(numbers, lacking), row_labels(X), lacking)


def _refuse_values(message: str) -> InvalidInput:
    """The error about points of other values than numbers, where there is a schema."""
    return InvalidInput(f"{message} A frame of pandas or polars may hold texts, categories and dates.")
