"""Features: whether rows have those that a model takes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from degroot.compute.tables import column_names, is_frame
from degroot.exceptions import InvalidInput

NEEDS_FRAMES = "the model was trained on categories of a frame, so it must get frames, or come with a schema."


def check_features(model: Any, names: Sequence[str]) -> None:
    """Refuse rows with these features if the model says that it takes others."""
    takes = getattr(model, "n_features_in_", None)
    if takes is not None and takes != len(names):
        raise InvalidInput(f"The model takes {takes} features, so the rows must have as many; they have {len(names)}.")
    expected = getattr(model, "feature_names_in_", None)
    written = [getattr(model, "written", str)(name) for name in names]
    if expected is not None and list(expected) != written:
        k = next(k for k, pair in enumerate(zip(expected, written, strict=True)) if pair[0] != pair[1])
        raise InvalidInput(
            "The rows must have the model's features in the model's order; "
            f"feature {k} is {names[k]!r}, and {str(expected[k])!r} in the model."
        )


def rows_for(model: Any, X: Any) -> Any:
    """The rows as an array, or sparse as they are, if they have the features that the model takes."""
    names = column_names(X)
    if names is not None:
        check_features(model, names)
    rows = np.asarray(X) if is_frame(X) or not hasattr(X, "shape") else X
    if rows.shape[1] != model.n_features_in_:
        raise InvalidInput(f"The model takes {model.n_features_in_} features; the rows have {rows.shape[1]}.")
    return rows
