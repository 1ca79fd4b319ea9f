"""Models asked with numbers by a schema that were trained on something else: frames, or a booster's own categories."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array
from degroot.exceptions import InvalidInput
from degroot.models.forms import FRAME
from degroot.models.lightgbm import LightGBMModel
from degroot.models.skops import Framed
from degroot.models.xgboost import XGBoostModel
from degroot.schema.columns import BOOLEAN, CATEGORY, ORDERED
from degroot.schema.frames import FrameForm
from degroot.schema.schema import Schema


class RowForm(Protocol):
    """How a model takes rows that are numbers by a schema."""

    def restore(self, numbers: Array) -> Any:
        """The rows in that form."""


@dataclass(frozen=True, slots=True)
class FrameRows:
    """Rows as data frames."""

    form: FrameForm
    schema: Schema

    def restore(self, numbers: Array) -> Any:
        """The frame that the numbers stand for."""
        return self.form.restore(numbers, self.schema)


@dataclass(frozen=True, slots=True)
class CodedRows:
    """Rows as numbers: some of the schema's columns, with other numbers for categories."""

    places: NDArray[np.intp]  # (m,) of the columns in the schema, in the model's order
    codes: Mapping[int, Array]  # by the column of the model: the code of each category, and at last that of a gap

    def restore(self, numbers: Array) -> Array:
        """These columns with the model's own codes."""
        rows: Array = np.asarray(numbers, np.float64)[:, self.places]
        for column, codes in self.codes.items():
            gaps = np.isnan(rows[:, column])
            rows[:, column] = codes[np.where(gaps, len(codes) - 1, rows[:, column]).astype(np.intp)]
        return rows


class SchemaModel:
    """A model that is asked with numbers by a schema, and gets its rows in the form on which it was trained."""

    def __init__(self, model: Any, rows: RowForm, names: Sequence[str]) -> None:
        self.model, self.rows = model, rows
        self.feature_names_in_, self.n_features_in_ = list(names), len(names)

    def predict(self, X: Any) -> Any:
        """What the model says of each row."""
        return getattr(self.model, "predict", self.model)(self.rows.restore(X))


class SchemaClassifier(SchemaModel):
    """The same with probabilities."""

    def __init__(self, model: Any, rows: RowForm, names: Sequence[str]) -> None:
        super().__init__(model, rows, names)
        self.classes_ = model.classes_

    def predict_proba(self, X: Any) -> Any:
        """The probability of each of `classes_`."""
        return self.model.predict_proba(self.rows.restore(X))


def bind_schema(model: Any, schema: Schema, form: FrameForm | None = None) -> Any:
    """The model for rows that are numbers by the schema; it is itself where it takes them as they are.

    `form` is that of the frames that it takes, if it does. A booster that was trained on categories gets its own codes;
    a model that knows its features by name gets those columns.
    """
    if form is not None:
        check_library(form)
        return _wrap(model, FrameRows(form, schema), schema)
    names, own = getattr(model, "feature_names_in_", None), _find_categories(model, schema)
    _refuse_texts(model)
    written = [getattr(model, "written", str)(name) for name in schema.names]
    if names is None or list(names) == written or not set(names) <= set(written):
        places = np.arange(len(schema.names))
    else:
        places = np.array([written.index(name) for name in names])
    if own is None:
        return model if len(places) == len(written) else _wrap(model, CodedRows(places, {}), schema)
    if model.n_features_in_ != len(places):
        raise InvalidInput(
            f"The model takes {model.n_features_in_} features, so the schema must have as many; it has {len(places)}."
        )
    inner = copy(model)
    inner.takes_codes = True
    return _wrap(inner, CodedRows(places, _match_codes(own, places, schema)), schema)


def check_library(form: FrameForm) -> None:
    """Refuse frames of a library that is not installed."""
    if find_spec(form.library) is None:
        raise InvalidInput(
            f"A model that takes frames needs {form.library}, which is not installed: pip install {form.library}."
        )


def _wrap(model: Any, rows: RowForm, schema: Schema) -> SchemaModel:
    made = SchemaClassifier if hasattr(model, "predict_proba") and hasattr(model, "classes_") else SchemaModel
    return made(model, rows, schema.names)


def _refuse_texts(model: Any) -> None:
    """Refuse a model that was trained on texts where it will get numbers: it would take them for unknown texts."""
    inner = model.model if isinstance(model, Framed) else None
    if inner is not None and _holds_texts(inner, 0):
        raise InvalidInput(
            "The model was trained on frames with texts or categories, so it must get such frames: say "
            f'input = "{FRAME}" beside its file.'
        )


def _holds_texts(thing: Any, depth: int) -> bool:
    """Whether a part of an estimator has a list of categories that are texts."""
    if isinstance(thing, list | tuple):
        return any(_holds_texts(each, depth) for each in thing)
    if not hasattr(thing, "get_params") or depth > 5:  # no estimator
        return False
    held = vars(thing)
    listed = [each for each in held.get("categories_", ()) if isinstance(each, np.ndarray)]
    if any(isinstance(value, str) for each in listed for value in each.tolist()):
        return True
    return any(_holds_texts(each, depth + 1) for each in held.values())


# ---- boosters with categories of their own -------------------------------------------------------------------------


def _find_categories(model: Any, schema: Schema) -> dict[int, list[str]] | None:
    """The categories of a booster as texts, by the place of the feature; None: it has none."""
    if isinstance(model, XGBoostModel):
        return model.own_categories or None
    if not isinstance(model, LightGBMModel) or not model.own_categories:
        return None
    known = model.own_categories  # of the columns with categories in their order; the file does not say which they are
    names = model.feature_names_in_ or [model.written(name) for name in schema.names]
    kinds = {model.written(column.name): column for column in schema.columns}
    for meant in ((CATEGORY, ORDERED), (CATEGORY, ORDERED, BOOLEAN), (CATEGORY,)):
        places = [k for k, name in enumerate(names) if name in kinds and kinds[name].kind in meant]
        if len(places) == len(known) and all(
            set(texts) & set(kinds[names[k]].places) for k, texts in zip(places, known, strict=True)
        ):
            return dict(zip(places, known, strict=True))
    raise InvalidInput(
        f"The model was trained on {len(known)} columns with categories, and the schema must have the same; its are "
        f"{', '.join(repr(column.name) for column in schema.columns if column.is_listed) or 'none'}."
    )


def _match_codes(own: Mapping[int, Sequence[str]], places: NDArray[np.intp], schema: Schema) -> dict[int, Array]:
    """For each column the booster's code of each category of the schema; NaN for those that it does not know."""
    found = {}
    for column, texts in own.items():
        shared = schema.columns[int(places[column])]
        codes = {shared.places[text]: float(code) for code, text in enumerate(texts) if text in shared.places}
        found[column] = np.array([*(codes.get(float(k), np.nan) for k in range(len(shared.categories))), np.nan])
    return found


# ---- frames in files -----------------------------------------------------------------------------------------------
