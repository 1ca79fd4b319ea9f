"""Data frames by a schema: frames of pandas or polars as numbers, and numbers as the frame that a model was given."""

import re
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array
from degroot.compute.tables import is_frame
from degroot.exceptions import InvalidInput, UnlistedWarning
from degroot.schema.columns import (
    BOOLEAN,
    CATEGORY,
    DATE,
    FALSE_TRUE,
    GAP,
    NUMBER,
    ORDERED,
    Column,
    is_number,
    normalise_text,
    plain_text,
)
from degroot.schema.schema import Schema, describe_unlisted

PANDAS, POLARS = "pandas", "polars"
NO_GAPS = frozenset(("bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))))  # types of numpy
NO_CATEGORY = "(none)"  # the list of a column that holds nothing but gaps
OBJECT = "object"  # the type of columns of Python objects, of pandas
PYTHON_GAPS = ("nan", "NaT", "<NA>")  # gaps in such a column other than None, as they are printed
BOOLEANS, NUMBERS, DATES = (bool, np.bool_), (Real, Decimal), (date, np.datetime64)  # types of Python objects
ZONE_FORM = re.compile(r"Datetime\(time_unit='(\w+)', time_zone='?([^']+?)'?\)")  # a type of polars


@dataclass(frozen=True, slots=True)
class FrameColumn:
    """A column of a frame as a model was given it."""

    name: str
    kind: str  # as in a schema
    dtype: str  # as the frame's library calls it
    values: tuple[Any, ...] = ()  # of a category, in the frame's own type
    is_ordered: bool = False
    is_zoned: bool = False  # whether dates that are Python objects have a time zone; those of other types say it
    gap: str = ""  # what a gap is among Python objects, one of PYTHON_GAPS; empty: None

    @property
    def has_zone(self) -> bool:
        """Whether it holds dates with a time zone."""
        return self.kind == DATE and (self.is_zoned or _is_zoned_type(self.dtype))


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
    names = check_names(frame)
    check_distinct(names)
    library = PANDAS if hasattr(frame, "iloc") else POLARS
    infer = _infer_pandas if library == PANDAS else _infer_polars
    found = [infer(frame[name], name) for name in names]
    return Schema(tuple(column for column, _ in found)), FrameForm(library, tuple(own for _, own in found))


def is_mixed(frame: Any) -> bool:
    """Whether a frame has columns that are no plain numbers, or gaps, so that it takes a schema."""
    if not is_frame(frame):
        return False
    if not _list_kinds(frame) <= set("iuf"):
        return True
    if hasattr(frame, "iloc"):
        return bool(frame.isna().to_numpy().any())
    return any(each.null_count() or (each.dtype.is_float() and each.is_nan().any()) for each in frame)


def has_words(table: Any) -> bool:
    """Whether a table is a frame with columns that are neither numbers nor booleans, whatever gaps it has."""
    return is_frame(table) and not _list_kinds(table) <= set("biuf")


def _list_kinds(frame: Any) -> set[str]:
    """The kinds of its columns, in the letters of numpy: b, i, u or f of booleans and numbers, others of the rest."""
    if hasattr(frame, "iloc"):
        return {getattr(each, "kind", "O") for each in frame.dtypes}
    return {"f" if each.is_numeric() else "b" if str(each) == "Boolean" else "O" for each in frame.dtypes}


def encode_frame(frame: Any, schema: Schema, where: str = "`X`") -> Array:
    """A frame as numbers by a schema, (n, d); columns that it does not have are gaps.

    Categories that are not listed, where the schema takes them as gaps, are warned of.
    """
    check_distinct([name for name in frame.columns if name in schema.names], where)
    table = {name: frame_values(frame[name]) for name in schema.names if name in frame.columns}
    if not table:
        raise InvalidInput(f"{where} must have columns of the schema; it has none of them.")
    numbers = schema.encode(table, where, first_row=0)
    if np.isnan(numbers).any() and (unlisted := schema.find_unlisted(table)):
        warnings.warn(describe_unlisted(unlisted), UnlistedWarning, stacklevel=4)
    return numbers


def check_zones(frame: Any, form: FrameForm, whose: str) -> None:
    """Refuse dates with a time zone where those of the form have none, and the reverse: they would be hours apart.

    `whose` is how the message calls who has the form.
    """
    for column in form.columns:
        if column.kind == DATE and column.name in frame.columns:
            series = frame[column.name]
            zoned = _find_zoned(series)
            if zoned is not None and zoned != column.has_zone:
                raise InvalidInput(describe_zones(column, whose, str(series.dtype)))


def describe_zones(column: FrameColumn, whose: str, came: str) -> str:
    """The line about a column of dates of the type `came` that has a time zone where it must not, or the reverse."""
    return (
        f"Column {column.name!r} must have {'a' if column.has_zone else 'no'} time zone, as the rows of {whose} "
        f"({column.dtype}); got {came}."
    )


def frame_values(series: Any) -> NDArray[Any]:
    """The values of a column of a frame, in an array that a schema encodes."""
    dtype = series.dtype
    if hasattr(series, "to_physical"):  # polars
        if str(dtype).startswith(("Duration", "Time", "Object", "List", "Array", "Struct", "Binary")):
            raise _refuse_type(series.name, str(dtype))
        if dtype.is_temporal():
            zoned = getattr(dtype, "time_zone", None) is not None
            return np.asarray(
                (series.dt.convert_time_zone("UTC").dt.replace_time_zone(None) if zoned else series).to_numpy()
            )
        if dtype.is_numeric():
            is_plain = dtype.is_integer() and not series.null_count()
            return np.asarray((series if is_plain else series.cast(_polars().Float64)).to_numpy())
        return np.array(series.to_list(), object)
    if getattr(dtype, "tz", None) is not None:
        return np.asarray(series.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy())
    kind = getattr(dtype, "kind", "O")
    if kind in "mc":
        raise _refuse_type(series.name, str(dtype))
    if kind in "iufbM" and str(dtype) != "category":
        if not isinstance(dtype, np.dtype):  # pandas' own types, whose gaps are NA
            if kind == "M":
                return np.asarray(series.to_numpy())
            return np.asarray(
                series.to_numpy(dtype=object if kind == "b" else np.float64, na_value=None if kind == "b" else np.nan)
            )
        return np.asarray(series.to_numpy())
    values = np.empty(len(series), object)
    values[:] = series.astype(object).where(series.notna(), None).tolist()
    if str(dtype) != "category":
        _check_objects(values, series.name)
    return values


def _check_objects(values: NDArray[Any], name: str) -> None:
    """Refuse Python objects that are no numbers, texts, booleans or dates, and dates with and without time zones."""
    kinds = set(map(type, values.tolist())) - {type(None)}
    for kind in sorted(kinds, key=str):
        if not issubclass(kind, (str, *BOOLEANS, *NUMBERS, *DATES)):
            raise _refuse_type(name, kind.__name__)
    if len(_list_zoned(values, kinds)) > 1:
        raise InvalidInput(f"The dates of column {name!r} must all have a time zone, or none; got both.")


def _refuse_type(name: str, came: str) -> InvalidInput:
    return InvalidInput(
        f"Column {name!r} must hold numbers, texts, booleans or dates; got {came}: turn it into numbers or texts."
    )


def _find_zoned(series: Any) -> bool | None:
    """Whether the dates of a column have a time zone; None where it has no dates."""
    dtype = series.dtype
    if hasattr(series, "to_physical"):  # polars
        is_known = str(dtype).startswith("Date") and series.null_count() < len(series)
        return _is_zoned_type(str(dtype)) if is_known else None
    if getattr(dtype, "kind", "O") == "M":
        return _is_zoned_type(str(dtype)) if series.notna().any() else None
    if str(dtype) != OBJECT:
        return None
    values = frame_values(series)
    return next(iter(_list_zoned(values, map(type, values.tolist()))), None)


def _list_zoned(values: NDArray[Any], kinds: Iterable[type]) -> set[bool]:
    """Whether the dates among Python objects have time zones: both, where some have."""
    if not any(issubclass(kind, DATES) for kind in kinds):
        return set()
    return {getattr(value, "tzinfo", None) is not None for value in values.tolist() if isinstance(value, DATES)}


def _is_zoned_type(dtype: str) -> bool:
    """Whether a type of dates, as pandas or polars writes it, has a time zone."""
    return ", " in dtype and "time_zone=None" not in dtype


def _match_values(shared: Column, own: FrameColumn) -> list[Any]:
    """For each category of a schema's column the value that a frame has for it; None where the frame has none."""
    if own.kind == NUMBER:  # a frame of numbers that the schema calls categories
        if shared.kind == BOOLEAN:
            return [0, 1]
        return [float(text) if is_number(text) else None for text in shared.categories]
    known: list[Any] = [None] * len(shared.categories)
    for value in own.values:
        place = shared.places.get(plain_text(value))  # which also knows other words for false and true
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


def check_names(frame: Any) -> list[str]:
    """The names of its columns, if they are texts."""
    names = list(frame.columns)
    for name in names:
        if not isinstance(name, str):
            raise InvalidInput(f"The columns of a frame must have names that are texts; got {name!r}.")
    return names


def check_distinct(names: Iterable[Any], where: str = "a frame") -> None:
    """Refuse a frame with two columns of one name."""
    for name, count in Counter(names).items():
        if count > 1:
            raise InvalidInput(f"The columns of {where} must have different names; {name!r} is there twice.")


def _infer_pandas(series: Any, name: str) -> tuple[Column, FrameColumn]:
    dtype = series.dtype
    if str(dtype) == "category":
        return _infer_category(name, list(series.cat.categories), bool(series.cat.ordered), "category")
    kind = getattr(dtype, "kind", "O")
    if kind == "b":
        return Column(name, BOOLEAN, FALSE_TRUE), FrameColumn(name, BOOLEAN, str(dtype), (False, True))
    if kind in "iuf":
        return Column(name), FrameColumn(name, NUMBER, str(dtype))
    if kind == "M":
        return Column(name, DATE), FrameColumn(name, DATE, str(dtype))
    return _infer_objects(name, frame_values(series), str(dtype), _name_gap(series))


def _name_gap(series: Any) -> str:
    """What a gap is in a column of Python objects, one of PYTHON_GAPS; empty: None, or several."""
    found = set(map(str, series[series.isna()].tolist())) if str(series.dtype) == OBJECT else set()
    return found.pop() if len(found) == 1 and found <= set(PYTHON_GAPS) else ""


def _infer_polars(series: Any, name: str) -> tuple[Column, FrameColumn]:
    dtype = series.dtype
    if dtype.is_numeric():
        return Column(name), FrameColumn(name, NUMBER, str(dtype))
    if str(dtype) == "Boolean":
        return Column(name, BOOLEAN, FALSE_TRUE), FrameColumn(name, BOOLEAN, str(dtype), (False, True))
    if str(dtype).startswith("Date"):
        return Column(name, DATE), FrameColumn(name, DATE, str(dtype))
    if str(dtype).startswith(("Enum", "Categorical")):
        listed = dtype.categories.to_list() if str(dtype).startswith("Enum") else None
        return _infer_category(name, listed or sorted(series.drop_nulls().unique().to_list()), False, str(dtype))
    return _infer_objects(name, frame_values(series), str(dtype))


def _infer_objects(name: str, values: NDArray[Any], dtype: str, gap: str = "") -> tuple[Column, FrameColumn]:
    distinct = {(type(value), value) for value in values.tolist()}  # as keys alone, True and 1 are the same
    present = [value for _, value in distinct if plain_text(value)]
    known = [value for value in present if normalise_text(value)]  # among numbers and dates, a text such as NA is a gap
    booleans, numbers, dates = (
        sum(isinstance(value, kinds) for value in known) for kinds in (BOOLEANS, NUMBERS, DATES)
    )
    numbers -= sum(isinstance(value, bool) for value in known)  # which Python has as a number
    if booleans and numbers:
        raise InvalidInput(f"Column {name!r} must hold booleans or numbers; got both.")
    if known and booleans == len(known):
        return Column(name, BOOLEAN, FALSE_TRUE), FrameColumn(name, BOOLEAN, dtype, (False, True), gap=gap)
    if known and dates == len(known):
        zoned = True in _list_zoned(values, map(type, known))
        return Column(name, DATE), FrameColumn(name, DATE, dtype, is_zoned=zoned, gap=gap)
    if known and numbers == len(known):
        return Column(name), FrameColumn(name, NUMBER, dtype, gap=gap)
    return _infer_category(name, sorted(present, key=lambda value: (str(type(value)), value)), False, dtype, gap)


def _infer_category(
    name: str, values: Sequence[Any], is_ordered: bool, dtype: str, gap: str = ""
) -> tuple[Column, FrameColumn]:
    texts: dict[str, Any] = {}
    for value in values:
        text = plain_text(value)
        if text in texts and texts[text] != value:
            raise InvalidInput(f"Categories must differ as texts; {name!r} has {texts[text]!r} and {value!r}.")
        if text:
            texts[text] = value
    kind = ORDERED if is_ordered else CATEGORY
    return Column(name, kind, tuple(texts) or (NO_CATEGORY,), unlisted=GAP), FrameColumn(
        name, kind, dtype, tuple(texts.values()), is_ordered, gap=gap
    )


def _restore_pandas(values: NDArray[Any], own: FrameColumn) -> Any:
    import pandas

    if own.dtype == "category":
        return pandas.Categorical(values, categories=list(own.values), ordered=own.is_ordered)
    if own.dtype == OBJECT:
        return pandas.Series(_restore_objects(values, own), dtype=object)
    if own.kind == DATE:
        series = pandas.Series(values, dtype="datetime64[us]")
        return (series.dt.tz_localize("UTC") if own.has_zone else series).astype(own.dtype)
    if own.dtype in NO_GAPS and bool(pandas.isna(values).any()):
        return values.astype(np.float64)
    try:
        return pandas.Series(values, dtype=own.dtype)
    except (TypeError, ValueError, NotImplementedError):  # numbers that the type does not hold, such as 1.5 of integers
        if own.kind != NUMBER:
            raise
        return pandas.Series(values.astype(np.float64))


def _restore_objects(values: NDArray[Any], own: FrameColumn) -> list[Any]:
    """Values as Python objects, with the gaps that the frame had."""
    import pandas

    gap = {"nan": np.nan, "NaT": pandas.NaT, "<NA>": pandas.NA}.get(own.gap)
    objects = values.tolist()  # of which dates are those of Python
    if own.is_zoned:
        objects = [each.replace(tzinfo=UTC) if isinstance(each, datetime) else each for each in objects]
    return [gap if is_gap else each for each, is_gap in zip(objects, pandas.isna(values).tolist(), strict=True)]


def _restore_polars(values: NDArray[Any], own: FrameColumn) -> Any:
    polars = _polars()
    dtype = getattr(polars, own.dtype.partition("(")[0], None)
    if own.kind == NUMBER:
        series = polars.Series(own.name, values.astype(np.float64)).fill_nan(None)
        cast = series if dtype is None or dtype == polars.Decimal else series.cast(dtype, strict=False)
        is_same = cast.dtype.is_float() or cast.cast(polars.Float64).equals(series, null_equal=True)
        return cast if is_same else series  # integers do not hold all numbers
    if own.kind == DATE:
        series = polars.Series(own.name, values).cast(polars.Datetime("us"))
        told = ZONE_FORM.fullmatch(own.dtype)
        if told is None:
            return series.cast(polars.Date)
        series = series.cast(polars.Datetime(told[1]))
        return series.dt.replace_time_zone("UTC").dt.convert_time_zone(told[2]) if own.has_zone else series
    if own.dtype.startswith("Enum"):
        dtype = polars.Enum(list(own.values))
    return polars.Series(own.name, values.tolist(), dtype=dtype, strict=False)
