"""Rows in data files: an organisation's, points to ask about, and the answers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from degroot.compute.compiled import Array
from degroot.compute.tables import is_missing
from degroot.exceptions import InvalidInput
from degroot.files.atomic import save
from degroot.files.columns import (
    Columns,
    as_array,
    as_texts,
    find_similar,
    listed,
    missing_column_error,
    missing_feature_error,
    read_columns,
    read_file_columns,
    read_numbers,
)
from degroot.files.encoding import encode_file, find_unlisted, names_read_as_text
from degroot.files.size_limits import Extent
from degroot.files.source import DataSource
from degroot.schema.schema import Schema, describe_unlisted, read_schema
from degroot.schema.sites import AS_SHARED, Site, read_site


@dataclass(frozen=True, slots=True)
class Rows:
    """An organisation's rows."""

    X: Array  # (m, d); by a schema NaN is a gap
    y: NDArray[Any]  # (m,) or (m, Q); labels where there are classes
    own: Array | str | None  # out-of-fold predictions, "peers", or nothing
    names: tuple[str, ...]  # of the d features
    units: NDArray[Any] | None = None  # (m,) labels as text: whose row it is
    schema: Schema | None = None  # by which the rows are numbers
    lacks: NDArray[np.bool_] | None = None  # (d,) by a schema: features that the organisation does not have


@dataclass(frozen=True, slots=True)
class Points:
    """Points to ask about."""

    X: Array  # (M, d)
    ignored: tuple[str, ...]  # columns that are no features
    absent: NDArray[np.bool_] | None = None  # (d,) by a schema: features that the file does not have
    note: str = ""  # what is to be said of features that are absent, and of categories that are not listed


def load(source: DataSource, features: Sequence[str] | None = None, *, gaps: bool = False) -> Rows:
    """The rows in the file: the target, own predictions and units if there are any, and these features, or all others.

    With `gaps` features may be missing: NaN. With a schema the features are its columns, and may be missing.
    """
    if source.schema is not None:
        return _load_by_schema(source, read_schema(source.schema))
    labels = source.target if source.classes is not None and isinstance(source.classes[0], str) else ()
    units = () if source.units is None else (source.units,)
    columns = read_columns(source.file, (*labels, *units))
    own = _own_columns(source)
    for name in (*source.target, *own, *units, *(features or ())):
        if name not in columns:
            raise missing_column_error(source.file, name, columns)
    names = tuple(features or (name for name in columns if name not in (*source.target, *own, *units)))
    if not names:
        raise InvalidInput(f"{source.file} must have features beside the target; its columns are {listed(columns)}.")
    if source.units in names:
        raise InvalidInput(f"The units of {source.file} must be no feature; {source.units!r} is among the features.")
    X, y = read_numbers(columns, names, source.file, gaps=gaps), _target(columns, source)
    return Rows(X, y, _own_predictions(columns, source), names, _units(columns, source.units, source.file))


def _load_by_schema(source: DataSource, schema: Schema) -> Rows:
    if schema.target is None:
        raise InvalidInput(f"{source.schema} must name a target, for rows with labels; it has none.")
    if source.target not in ((), (schema.target.name,)):
        raise InvalidInput(
            f"The target of {source.file} must be that of the schema, {schema.target.name!r}; got "
            f"{listed(source.target)}."
        )
    site = site_of(source, schema)
    units, own, target = source.units or schema.units, _own_columns(source), site.find_name(schema.target.name)
    _check_own_count(source, schema, own)
    text = (*names_read_as_text(schema, site), *(() if units is None else (units,)))
    columns = read_file_columns(source.file, text)
    for name in (target, *own, *(() if units is None else (units,))):
        if name not in columns:
            raise missing_column_error(source.file, name, columns)
    for name in schema.names:
        if name not in site.absent and site.find_name(name) not in columns:
            raise missing_feature_error(source.file, site.find_name(name), name, columns)
    where = str(source.file)
    X = encode_file(columns, schema, site, where)
    y = schema.encode_target(as_array(columns[target]), where, site)
    missing = np.flatnonzero(is_missing(y, empty=True))
    if len(missing):
        raise InvalidInput(f"{where}: row {missing[0] + 1}: the target {target!r} must not be empty; remove the row.")
    arrays = {name: as_array(columns[name], name == units) for name in (*own, *(() if units is None else (units,)))}
    lacks = schema.find_absent(columns, site)
    own_predictions = _own_predictions(arrays, source)
    return Rows(X, y, own_predictions, schema.names, _units(arrays, units, source.file), schema, lacks)


def site_of(source: DataSource, schema: Schema) -> Site:
    """How the file of a source writes the columns of the schema."""
    return open_site(source.site, schema, source.absent)


def open_site(path: Path | None, schema: Schema, absent: Sequence[str] = ()) -> Site:
    """The site in a file, or one that writes everything as the schema does; it does not have the `absent` columns."""
    site = AS_SHARED if path is None else read_site(path)
    site = replace(site, absent=tuple(dict.fromkeys((*site.absent, *absent))))
    schema.check_site(site)
    return site


def points(
    path: Path,
    names: Sequence[str],
    *,
    gaps: bool = False,
    most: Extent | None = None,
    schema: Schema | None = None,
    site: Site = AS_SHARED,
) -> Points:
    """The points in the file: the columns with these names, in this order. Others are ignored.

    With `gaps` features may be missing: NaN. A file that holds more than `most` is refused, and not read. With a
    `schema` the features are its columns, as the `site` writes them; those that the file does not have are absent.
    """
    if schema is not None:
        return _points_by_schema(path, schema, site, most)
    columns = read_columns(path, most=most)
    missing = [name for name in names if name not in columns]
    if missing:
        raise InvalidInput(
            f"{path} must have all features of the collective; missing: {listed(missing)}. "
            f"Its columns are {listed(columns)}."
        )
    return Points(read_numbers(columns, names, path, gaps=gaps), tuple(name for name in columns if name not in names))


def _points_by_schema(path: Path, schema: Schema, site: Site, most: Extent | None) -> Points:
    columns = read_file_columns(path, names_read_as_text(schema, site), most)
    absent = schema.find_absent(columns, site)
    note = describe_absent(path, schema, site, absent, columns)
    own = {site.find_name(name) for name in schema.names}
    ignored = tuple(name for name in columns if name not in own)
    numbers = encode_file(columns, schema, site, str(path))
    unlisted = describe_unlisted(find_unlisted(columns, schema, site, numbers))
    return Points(numbers, ignored, absent, " ".join(filter(None, (note, unlisted))))


def list_absent(schema: Schema, absent: NDArray[np.bool_] | None) -> tuple[str, ...]:
    """The names of features that are absent, (d,)."""
    marked = np.zeros(len(schema.names), np.bool_) if absent is None else absent
    return tuple(name for name, is_absent in zip(schema.names, marked, strict=True) if is_absent)


def describe_absent(
    path: Path | str, schema: Schema, site: Site, absent: NDArray[np.bool_], columns: Iterable[str]
) -> str:
    """Which features a file does not have, in a line, with what they may be called there; empty where it has all.

    A file that has none of them is refused.
    """
    known = list(columns)
    if absent.all():
        raise InvalidInput(
            f"{path} must have columns of the schema, such as {listed(schema.names)}; its columns are {listed(known)}."
        )
    lacking = list_absent(schema, absent)
    if not lacking:
        return ""
    taken = {site.find_name(name) for name in schema.names}
    free = [name for name in known if name not in taken]
    near = [(name, close[0]) for name in lacking if (close := find_similar(name, free))]
    hint = f" Is {near[0][1]!r} there what the schema calls {near[0][0]!r}? Then say so in a site file." if near else ""
    return f"{path} does not have {listed(lacking)}; models that need them abstain.{hint}"


def write_answers(path: Path, columns: Mapping[str, Any]) -> None:
    """Write the columns to a .csv or .parquet file: all of it or, if that fails, nothing."""
    writers: dict[str, Callable[[pa.Table, Any], None]] = {
        ".csv": pyarrow.csv.write_csv, ".parquet": pyarrow.parquet.write_table,
    }  # fmt: skip
    writer = writers.get(path.suffix.lower())
    if writer is None:
        raise InvalidInput(f"Answers must go to a .csv or .parquet file; got {path}.")
    content = pa.BufferOutputStream()
    writer(pa.table({name: pa.array(values) for name, values in columns.items()}), content)
    save(path, content.getvalue().to_pybytes())


def _target(columns: Columns, source: DataSource) -> NDArray[Any]:
    if source.classes is None:
        return _outputs(columns, source.target, source.file)
    labels = columns[source.target[0]]
    if isinstance(source.classes[0], str):
        return np.array([str(label) for label in labels.tolist()])
    values = _outputs(columns, source.target, source.file)
    if (values % 1 != 0).any():
        row = int(np.flatnonzero(values % 1)[0])
        raise InvalidInput(
            f"Column {source.target[0]!r} of {source.file} must hold whole numbers, as the classes are; "
            f"row {row + 1} is {values[row]}."
        )
    return values.astype(np.int64)


def _units(columns: Columns, units: str | None, path: Path) -> NDArray[Any] | None:
    if units is None:
        return None
    labels = np.array(as_texts(columns[units]))
    missing = np.flatnonzero(labels == "")
    if len(missing):
        raise InvalidInput(f"Column {units!r} of {path} must have no gaps; row {missing[0] + 1} is empty.")
    return labels


def _own_columns(source: DataSource) -> tuple[str, ...]:
    return source.own_predictions if isinstance(source.own_predictions, tuple) else ()


def _check_own_count(source: DataSource, schema: Schema, own: Sequence[str]) -> None:
    outputs = len(schema.classes or ("",))
    if own and len(own) != outputs:
        raise InvalidInput(
            f"`own_predictions` of {source.file} must be {outputs} column{'s' * (outputs > 1)}, one for each output; "
            f"got {listed(own)}."
        )


def _own_predictions(columns: Columns, source: DataSource) -> Array | str | None:
    own = source.own_predictions
    return _outputs(columns, own, source.file) if isinstance(own, tuple) else own


def _outputs(columns: Columns, names: Sequence[str], path: Path) -> Array:
    values = read_numbers(columns, names, path)
    return values[:, 0] if len(names) == 1 else values
