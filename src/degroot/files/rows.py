"""Rows in data files: an organisation's, points to ask about, and the answers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
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
    take_row,
)
from degroot.files.encoding import FileColumn, encode_file, find_unlisted, names_read_as_text
from degroot.files.plain_csv import write_plain
from degroot.files.source import DataSource
from degroot.schema.columns import Column
from degroot.schema.matching import compare_names, find_likely_column
from degroot.schema.schema import Schema, describe_unlisted, read_schema
from degroot.schema.sites import AS_SHARED, Site, read_site, site_beside

if TYPE_CHECKING:
    from degroot.files.size_limits import Extent

FEW_RENAMED = 3  # columns in a message that the file may have by another name


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


def open_asked_site(path: Path, schema: Schema, site_file: Path | None = None) -> Site:
    """How a file that is asked about writes the columns of the schema: by the site file that is given or beside it.

    Columns that the site's own rows lack are read where the file has them.
    """
    beside = site_beside(path)
    return open_site(site_file or (beside if beside.exists() else None), schema).with_every_column()


def points(
    path: Path,
    names: Sequence[str],
    *,
    gaps: bool = False,
    most: "Extent | None" = None,
    row: int | None = None,
    schema: Schema | None = None,
    site: Site = AS_SHARED,
    site_file: Path | str | None = None,
) -> Points:
    """The points in the file: the columns with these names, in this order. Others are ignored.

    With `gaps` features may be missing: NaN. A file that holds more than `most` is refused, and not read. Of a `row`,
    from 1, only that one is read and checked. With a `schema` the features are its columns, as the `site` writes them;
    those that the file does not have are absent. `site_file`: where a user can write what the file calls them.
    """
    if schema is not None:
        return _points_by_schema(path, schema, site, most, row, site_file)
    columns = read_columns(path, most=most)
    missing = [name for name in names if name not in columns]
    if missing:
        raise InvalidInput(
            f"{path} must have all features of the collective; missing: {listed(missing)}. "
            f"Its columns are {listed(columns)}."
        )
    if row is not None:
        _check_row(path, row, columns)
        columns = take_row(columns, row)
    X = read_numbers(columns, names, path, gaps=gaps, first_row=row or 1)
    return Points(X, tuple(name for name in columns if name not in names))


def _points_by_schema(
    path: Path, schema: Schema, site: Site, most: "Extent | None", row: int | None, site_file: Path | str | None
) -> Points:
    columns = read_file_columns(path, names_read_as_text(schema, site), most)
    if row is not None:
        _check_row(path, row, columns)
    absent = schema.find_absent(columns, site)
    note = describe_absent(path, schema, site, absent, columns, site_file)
    own = {site.find_name(name) for name in schema.names}
    ignored = tuple(name for name in columns if name not in own)
    if row is not None:
        columns = {name: values[row - 1 : row] for name, values in columns.items()}
    numbers = encode_file(columns, schema, site, str(path), row or 1)
    unlisted = describe_unlisted(find_unlisted(columns, schema, site, numbers))
    return Points(numbers, ignored, absent, " ".join(filter(None, (note, unlisted))))


def _check_row(path: Path, row: int, columns: Mapping[str, FileColumn]) -> None:
    rows = len(next(iter(columns.values())))
    if not 1 <= row <= rows:
        raise InvalidInput(f"--row must be one of the {rows} rows of {path}; got {row}.")


def describe_absent(
    path: Path | str,
    schema: Schema,
    site: Site,
    absent: NDArray[np.bool_],
    columns: Mapping[str, FileColumn],
    site_file: Path | str | None = None,
) -> str:
    """Which features a file does not have, in a line, with what they may be called there; empty where it has all.

    `columns`: of the file, or of its first rows. `site_file`: where a user can write what the file calls a feature;
    None: only the file can be changed. A file that has none of the features is refused.
    """
    lacking = schema.list_marked(absent)
    if not lacking:
        return ""
    renamed = _find_renamed(schema, site, lacking, columns)
    hint = _describe_renamed(renamed, site, site_file) if renamed else ""
    if absent.all():
        raise InvalidInput(
            f"{path} must have columns of the schema, such as {listed(schema.names)}; its columns are "
            f"{listed(columns)}.{hint}"
        )
    told = [_name_absent(name, site) for name in lacking]
    return f"{path} does not have {listed(told, str)}; models that need them abstain.{hint}"


def _name_absent(name: str, site: Site) -> str:
    own = site.find_name(name)
    return repr(name) if own == name else f"{name!r} (called {own!r} by {site.path or 'the site'})"


def _find_renamed(
    schema: Schema, site: Site, lacking: Iterable[str], columns: Mapping[str, FileColumn]
) -> dict[str, str]:
    """What the file likely calls features that it lacks, by their names in the schema; each column once."""
    taken = {site.find_name(column.name) for column in schema.every_column if column.name not in lacking}
    taken |= {*schema.identifiers, *(() if schema.units is None else (schema.units,))}
    free = {name: as_array(values) for name, values in columns.items() if name not in taken}
    if schema.target is not None:
        free.pop(schema.target.name, None)
    renamed: dict[str, str] = {}
    for find in (_find_same_name, find_likely_column, _find_similar_name):
        for name in lacking:
            if name not in renamed and (likely := find(schema.column(name), free, list(free))) is not None:
                renamed[name] = likely
                del free[likely]
    return {name: renamed[name] for name in lacking if name in renamed}


def _find_same_name(column: Column, _: Columns, among: Iterable[str]) -> str | None:
    return next((name for name in among if compare_names(column.name, name) == 1.0), None)


def _find_similar_name(column: Column, _: Columns, among: Sequence[str]) -> str | None:
    return next(iter(find_similar(column.name, among)), None)


def _describe_renamed(renamed: Mapping[str, str], site: Site, site_file: Path | str | None) -> str:
    few = list(renamed.items())[:FEW_RENAMED]
    if site_file is None:
        return "".join(f" If {own!r} there is {name!r}, rename it in the file." for name, own in few)
    told = " and ".join(f"{own!r} there is {name!r}" for name, own in few)
    lines = "; ".join(site.change_line(name, name=own) for name, own in few)
    return f" If {told}, write in {site_file}: {lines}"


def write_answers(path: Path, columns: Mapping[str, Any]) -> None:
    """Write the columns to a .csv or .parquet file: all of it or, if that fails, nothing."""
    kind = path.suffix.lower()
    if kind not in (".csv", ".parquet"):
        raise InvalidInput(f"Answers must go to a .csv or .parquet file; got {path}.")
    plain = write_plain(columns) if kind == ".csv" else None
    if plain is None:
        from degroot.files.arrow_tables import write_columns

        plain = write_columns(columns, kind)
    save(path, plain)


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
