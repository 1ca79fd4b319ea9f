"""Data frames by a schema: frames of pandas or polars as numbers, and numbers as the frame that a model was given."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array
from degroot.compute.tables import column_names, is_frame
from degroot.exceptions import InvalidInput, UnlistedWarning
from degroot.schema.columns import (
    BOOLEAN,
    CATEGORY,
    DATE,
    GAP,
    NUMBER,
    ORDERED,
    Column,
    is_number,
    normalise_text,
)
from degroot.schema.schema import Schema, describe_unlisted

PANDAS, POLARS = "pandas", "polars"
NO_GAPS = frozenset(("bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))))  # types of numpy
NO_CATEGORY = "(none)"  # the list of a column that holds nothing but gaps


@dataclass(frozen=True, slots=True)
class FrameColumn:
    """A column of a frame as a model was given it."""

    name: str
    kind: str  # as in a schema
    dtype: str  # as the frame's library calls it
    values: tuple[Any, ...] = ()  # of a category, in the frame's own type
    is_ordered: bool = False


@dataclass(frozen=True, slots=True)
class FrameForm:
    """The form of the frames that a model takes: its columns, in order, with their types.

    A category that the frame it was made of does not have is a gap to the model: it has never seen it.
    """

    library: str
    columns: tuple[FrameColumn, ...]

    def among(self, names: Sequence[str]) -> "FrameForm":
        """The same with those columns only that a schema with these names has."""
        return FrameForm(self.library, tuple(column for column in self.columns if column.name in names))

    def restore(self, numbers: Array, schema: Schema) -> Any:
        """The frame that these numbers (n, d) by `schema` stand for."""
        places = {name: place for place, name in enumerate(schema.names)}
        series: dict[str, Any] = {}
        for column in self.columns:
            place = places[column.name]
            series[column.name] = self._restore_column(numbers[:, place], schema.columns[place], column)
        if self.library == POLARS:
            import polars

            return polars.DataFrame(series)
        import pandas

        return pandas.DataFrame(series)

    def _restore_column(self, numbers: Array, shared: Column, own: FrameColumn) -> Any:
        restore = _restore_polars if self.library == POLARS else _restore_pandas
        if not shared.is_listed:
            return restore(
                shared.decode(numbers) if own.kind == shared.kind else _restore_other(numbers, shared, own), own
            )
        known = _match_values(shared, own)
        values = np.empty(len(known) + 1, object)
        values[:] = [*known, None]
        return restore(values[np.where(np.isnan(numbers), len(known), numbers).astype(np.intp)], own)


def infer_form(frame: Any) -> tuple[Schema, FrameForm]:
    """The schema that a frame has by its types, and its form.

    Numbers are numbers; texts and categories are categories, in the order of the frame or of the alphabet; booleans and
    dates are what they are. A category that the frame does not have is a gap.
    """
    names = column_names(frame)
    if names is None:
        raise InvalidInput("The columns of a frame must have names that are strings; some are not.")
    _check_distinct(names)
    library = PANDAS if hasattr(frame, "iloc") else POLARS
    infer = _infer_pandas if library == PANDAS else _infer_polars
    found = [infer(frame[name], name) for name in names]
    return Schema(tuple(column for column, _ in found)), FrameForm(library, tuple(own for _, own in found))


def is_mixed(frame: Any) -> bool:
    """Whether a frame has columns that are no plain numbers, or gaps, so that it takes a schema."""
    if not is_frame(frame) or column_names(frame) is None:
        return False
    if not hasattr(frame, "iloc"):
        if not all(each.is_numeric() for each in frame.dtypes):
            return True
        return any(each.null_count() or (each.dtype.is_float() and each.is_nan().any()) for each in frame)
    kinds = {getattr(each, "kind", "O") for each in frame.dtypes}
    if any(str(each) == "category" for each in frame.dtypes) or not kinds <= set("fiu"):
        return True
    return bool(frame.isna().to_numpy().any())


def has_words(table: Any) -> bool:
    """Whether a table is a frame with columns that are no numbers, whatever gaps it has."""
    if not is_frame(table):
        return False
    if not hasattr(table, "iloc"):
        return not all(each.is_numeric() for each in table.dtypes)
    return any(getattr(each, "kind", "O") not in "biuf" for each in table.dtypes)


def encode_frame(frame: Any, schema: Schema, where: str = "`X`") -> Array:
    """A frame as numbers by a schema, (n, d); columns that it does not have are gaps.

    Categories that are not listed, where the schema takes them as gaps, are warned of.
    """
    _check_distinct([name for name in frame.columns if name in schema.names], where)
    table = {name: frame_values(frame[name]) for name in schema.names if name in frame.columns}
    if not table:
        raise InvalidInput(f"{where} must have columns of the schema; it has none of them.")
    numbers = schema.encode(table, where)
    if np.isnan(numbers).any() and (unlisted := schema.find_unlisted(table)):
        warnings.warn(describe_unlisted(unlisted), UnlistedWarning, stacklevel=4)
    return numbers


def frame_values(series: Any) -> NDArray[Any]:
    """The values of a column of a frame, in an array that a schema encodes."""
    if hasattr(series, "to_physical"):  # polars
        if series.dtype.is_temporal():
            return np.asarray(
                series.dt.replace_time_zone(None).to_numpy()
                if hasattr(series.dtype, "time_zone") and series.dtype.time_zone
                else series.to_numpy()
            )
        if series.dtype.is_numeric():
            return np.asarray(series.cast(_polars().Float64).to_numpy() if series.null_count() else series.to_numpy())
        return np.array(series.to_list(), object)
    dtype = series.dtype
    if getattr(dtype, "tz", None) is not None:
        return np.asarray(series.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy())
    if getattr(dtype, "kind", "O") in "iufbmM" and str(dtype) != "category":
        if not isinstance(dtype, np.dtype):  # pandas' own types, whose gaps are NA
            if dtype.kind == "M":
                return np.asarray(series.to_numpy())
            return np.asarray(
                series.to_numpy(
                    dtype=object if dtype.kind == "b" else np.float64, na_value=None if dtype.kind == "b" else np.nan
                )
            )
        return np.asarray(series.to_numpy())
    values = np.empty(len(series), object)
    values[:] = series.astype(object).where(series.notna(), None).tolist()
    return values


def _match_values(shared: Column, own: FrameColumn) -> list[Any]:
    """For each category of a schema's column the value that a frame has for it; None where the frame has none."""
    if own.kind == NUMBER:  # a frame of numbers that the schema calls categories
        if shared.kind == BOOLEAN:
            return [0, 1]
        return [float(text) if is_number(text) else None for text in shared.categories]
    known: list[Any] = [None] * len(shared.categories)
    for value in own.values:
        place = shared.places.get(normalise_text(value))  # which also knows other words for false and true
        if place is not None and known[int(place)] is None:
            known[int(place)] = value
    return known


def _restore_other(numbers: Array, shared: Column, own: FrameColumn) -> NDArray[Any]:
    """What a frame has for numbers or dates that it holds as texts or categories: else there is a gap."""
    values = np.full(len(numbers), None, object)
    if own.kind in (CATEGORY, ORDERED):
        known = dict(zip(shared.encode(np.array(own.values, object)).tolist(), own.values, strict=True))
        values[:] = [None if np.isnan(each) else known.get(each, shared.format(each)) for each in numbers.tolist()]
    return values


def _polars() -> Any:
    import polars

    return polars


def _check_distinct(names: Sequence[str], where: str = "a frame") -> None:
    """Refuse a frame with two columns of one name."""
    for name in names:
        if names.count(name) > 1:
            raise InvalidInput(f"The columns of {where} must have different names; {name!r} is there twice.")


def _infer_pandas(series: Any, name: str) -> tuple[Column, FrameColumn]:
    dtype = series.dtype
    if str(dtype) == "category":
        return _infer_category(name, list(series.cat.categories), bool(series.cat.ordered), "category")
    kind = getattr(dtype, "kind", "O")
    if kind == "b":
        return Column(name, BOOLEAN, ("false", "true")), FrameColumn(name, BOOLEAN, str(dtype), (False, True))
    if kind in "iuf":
        return Column(name), FrameColumn(name, NUMBER, str(dtype))
    if kind == "M":
        return Column(name, DATE), FrameColumn(name, DATE, str(dtype))
    return _infer_objects(name, frame_values(series), str(dtype))


def _infer_polars(series: Any, name: str) -> tuple[Column, FrameColumn]:
    dtype = series.dtype
    if dtype.is_numeric():
        return Column(name), FrameColumn(name, NUMBER, str(dtype))
    if str(dtype) == "Boolean":
        return Column(name, BOOLEAN, ("false", "true")), FrameColumn(name, BOOLEAN, str(dtype), (False, True))
    if dtype.is_temporal():
        return Column(name, DATE), FrameColumn(name, DATE, str(dtype))
    if str(dtype).startswith(("Enum", "Categorical")):
        listed = dtype.categories.to_list() if str(dtype).startswith("Enum") else None
        return _infer_category(name, listed or sorted(series.drop_nulls().unique().to_list()), False, str(dtype))
    return _infer_objects(name, frame_values(series), str(dtype))


def _infer_objects(name: str, values: NDArray[Any], dtype: str) -> tuple[Column, FrameColumn]:
    known = [value for value in values.tolist() if normalise_text(value)]
    kinds = {type(value) for value in known}
    if known and kinds <= {bool, np.bool_}:
        return Column(name, BOOLEAN, ("false", "true")), FrameColumn(name, BOOLEAN, dtype, (False, True))
    if known and all(hasattr(value, "isoformat") for value in known):
        return Column(name, DATE), FrameColumn(name, DATE, dtype)
    if known and kinds <= {int, float} and not kinds <= {str}:
        return Column(name), FrameColumn(name, NUMBER, dtype)
    try:
        distinct = sorted(set(known), key=lambda value: (str(type(value)), value))
    except TypeError:  # lists and the like
        raise InvalidInput(
            f"Column {name!r} must hold numbers, texts, booleans or dates; got {type(known[0]).__name__}."
        ) from None
    return _infer_category(name, distinct, False, dtype)


def _infer_category(name: str, values: Sequence[Any], is_ordered: bool, dtype: str) -> tuple[Column, FrameColumn]:
    texts: dict[str, Any] = {}
    for value in values:
        text = normalise_text(value)
        if text in texts and texts[text] != value:
            raise InvalidInput(f"Categories must differ as texts; {name!r} has {texts[text]!r} and {value!r}.")
        if text:
            texts[text] = value
    kind = ORDERED if is_ordered else CATEGORY
    return Column(name, kind, tuple(texts) or (NO_CATEGORY,), unlisted=GAP), FrameColumn(
        name, kind, dtype, tuple(texts.values()), is_ordered
    )


def _restore_pandas(values: NDArray[Any], own: FrameColumn) -> Any:
    import pandas

    if own.dtype == "category":
        return pandas.Categorical(values, categories=list(own.values), ordered=own.is_ordered)
    has_gaps = bool(pandas.isna(values).any())
    if own.kind == DATE:
        if own.dtype == "object":
            return pandas.Series(
                [None if value is pandas.NaT else value.to_pydatetime() for value in pandas.Series(values)],
                dtype=object,
            )
        zone = own.dtype.partition(", ")[2].removesuffix("]")
        series = pandas.Series(values)
        if zone:
            series = series.dt.tz_localize("UTC")
        return series.astype(own.dtype)
    if has_gaps and own.dtype in NO_GAPS:
        return values.astype(np.float64)
    return pandas.Series(values, dtype=own.dtype)


def _restore_polars(values: NDArray[Any], own: FrameColumn) -> Any:
    polars = _polars()
    if own.kind == NUMBER:
        numbers = values.astype(np.float64)
        series = polars.Series(own.name, numbers)
        return series.fill_nan(None) if np.isnan(numbers).any() else series
    if own.kind == DATE:
        series = polars.Series(own.name, values)
        return series.cast(polars.Date) if own.dtype == "Date" else series
    if own.dtype.startswith(("Enum", "Categorical")):
        return polars.Series(own.name, values.tolist(), dtype=polars.Enum(list(own.values)))
    return polars.Series(own.name, values.tolist(), strict=False)
