"""Plans: which files, which shards of them, and what is to be done with each. All that can be wrong is found here."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa

from degroot.answers.columns import BOUNDS, Columns, check_fields
from degroot.batch import inputs
from degroot.batch.encoding import SchemaEncoding
from degroot.batch.formats import Source, opened, readable
from degroot.batch.numbers import is_number
from degroot.batch.outputs import check_output, check_suffix
from degroot.batch.shards import BYTES, ROWS, Shard
from degroot.batch.task import NULL, REFUSE, Task
from degroot.compute.progress import progress
from degroot.exceptions import InvalidInput
from degroot.files.columns import duplicate_column_error, missing_column_error
from degroot.files.rows import describe_absent
from degroot.schema import AS_SHARED, Schema, Site
from degroot.schema.matching import KNOWN_VALUES


@dataclass(frozen=True, slots=True)
class Plan:
    """What is read, what is done with it, and where it goes."""

    files: tuple[Path, ...]
    shards: tuple[Shard, ...]
    task: Task
    output: Path
    identity: dict[str, Any]  # what has to be the same when an interrupted run goes on
    note: str = ""  # what is to be said of features that the input does not have

    @property
    def rows(self) -> int:
        """How many there are in all."""
        return sum(shard.rows for shard in self.shards)


def make_plan(
    given: Sequence[str],
    output: Path,
    features: Sequence[str],
    columns: Columns,
    *,
    keep: Sequence[str] = (),
    asker_column: str | None = None,
    gaps: bool = False,
    on_bad_row: str = REFUSE,
    rows: int | None = None,
    identity: dict[str, Any] | None = None,
    schema: Schema | None = None,
    site: Site = AS_SHARED,
    site_file: Path | str | None = None,
) -> Plan:
    """Look at all files, and refuse what cannot be done.

    Parameters
    ----------
    given : files, folders and patterns of files
    output : a .parquet or .csv file
    features : names of the columns that are the features, in order
    columns : what is asked
    keep : columns of the input that are written too
    asker_column : a column of the input that says for whom each row is answered
    gaps : whether features may be missing where there is no schema; by a schema they may
    on_bad_row : ``"refuse"``, or ``"null"``: a row with a bad value gets no answer
    rows : of a shard, at most; by default 65536, or fewer where rows are wide
    identity : what else has to be the same when an interrupted run goes on
    schema : by which the features become numbers, where there is one
    site : how the files write the columns of that schema
    site_file : where a user can write what the files call a column of the schema
    """
    files = check(given, output, [field for field in columns.fields if field not in BOUNDS], on_bad_row)
    encoding, note = (None, "") if schema is None else _find_encoding(given[0], files[0], schema, site, site_file)
    read = features if encoding is None else encoding.names
    askers = () if asker_column is None else (asker_column,)
    arrow_schema = _find_common_columns(files, read, keep, askers, is_raw=encoding is not None)
    kept = pa.schema([_plain(arrow_schema.field(name)) for name in keep])
    _check_clash(kept, columns.schema)
    task = Task(
        tuple(features), tuple(keep), columns, pa.schema([*kept, *columns.schema]), gaps or schema is not None,
        on_bad_row, asker_column, encoding,
    )  # fmt: skip
    rows = rows or max(1, min(ROWS, BYTES // (8 * (len(task.names) + len(task.schema) + len(columns.agents)))))
    shards = tuple(_cut(files, rows, task.names))
    check_output(output, task.schema)
    return Plan(tuple(files), shards, task, output, _identify(files, rows, task) | (identity or {}), note)


def _find_encoding(
    given: str, file: Path, schema: Schema, site: Site, site_file: Path | str | None
) -> tuple[SchemaEncoding, str]:
    """How the files become numbers by the schema, and what is to be said of features that the first does not have."""
    source = opened(file)
    absent = schema.find_absent(source.schema.names, site)
    columns = _read_first_rows(file, source) if absent.any() else {}
    note = describe_absent(given, schema, site, absent, columns, site_file)
    return SchemaEncoding(schema, site, schema.list_marked(absent)), note


def _read_first_rows(file: Path, source: Source) -> dict[str, pa.ChunkedArray]:
    """The columns of the first rows, as they are written, by which one is recognised under another name."""
    names = list(dict.fromkeys(source.schema.names))
    with readable(file):
        for count, start, stop in source.spans(KNOWN_VALUES, names):
            table = source.read(Shard(0, str(file), 0, count, start, stop), names, names)
            return {name: table.column(name) for name in names}
    return {}


def _identify(files: Sequence[Path], rows: int, task: Task) -> dict[str, Any]:
    """What has to be the same when an interrupted run goes on."""
    told = {
        "version": version("degroot"), "rows": rows, "inputs": [_state(file) for file in files],
        "features": list(task.features), "keep": list(task.keep), "fields": list(task.columns.fields),
        "gaps": task.gaps, "on_bad_row": task.on_bad_row, "asker_column": task.asker_column,
    }  # fmt: skip
    if task.encoding is not None:
        told |= {"schema": task.encoding.schema.digest, "site": task.encoding.site.to_toml()}
    return told


def check(given: Sequence[str], output: Path, fields: Sequence[str], on_bad_row: str = REFUSE) -> list[Path]:
    """The input files, if there are any and what is wanted can be had; all that can be said without opening them."""
    if on_bad_row not in (REFUSE, NULL):
        raise InvalidInput(f"What is done with bad rows must be {REFUSE!r} or {NULL!r}; got {on_bad_row!r}.")
    check_fields(fields)
    check_suffix(output)
    files = inputs.find(given)
    inputs.check_apart(given, files, output)
    return files


def _find_common_columns(
    files: Sequence[Path], features: Sequence[str], keep: Sequence[str], other: Sequence[str], *, is_raw: bool = False
) -> pa.Schema:
    """The columns, if all files have the same, and the features are numbers. It is the first file's schema.

    Raw columns, which become numbers by a schema, may be of any type.
    """
    first: pa.Schema | None = None
    for file in files:
        arrow_schema = opened(file).schema
        _check_columns(file, arrow_schema, features, (*keep, *other), is_raw)
        if first is None:
            first = arrow_schema
        _check_same(file, arrow_schema, files[0], first, keep)
    return first


def _check_columns(
    file: Path, arrow_schema: pa.Schema, features: Sequence[str], keep: Sequence[str], is_raw: bool
) -> None:
    names = arrow_schema.names
    for name in (*features, *keep):
        if name not in names:
            raise missing_column_error(file, name, names)
        if names.count(name) > 1:
            raise duplicate_column_error(file, name)
    for name in features:
        kind = arrow_schema.field(name).type
        if not (is_raw or is_number(kind) or file.suffix.lower() == ".csv"):
            raise InvalidInput(f"Column {name!r} of {file} must hold numbers; it holds {kind}.")


def _check_same(file: Path, arrow_schema: pa.Schema, other: Path, expected: pa.Schema, keep: Sequence[str]) -> None:
    """Refuse files with different columns, or different types of those that are kept."""
    strange = sorted(set(arrow_schema.names) ^ set(expected.names))
    if strange:
        has, lacks = (file, other) if strange[0] in arrow_schema.names else (other, file)
        raise InvalidInput(f"All input files must have the same columns; {has} has {strange[0]!r}, {lacks} has not.")
    for name in keep:
        here, there = _plain(arrow_schema.field(name)).type, _plain(expected.field(name)).type
        if here != there:
            raise InvalidInput(
                f"A column that is kept must be of one type; {name!r} is {here} in {file} and {there} in {other}."
            )


def _plain(field: pa.Field) -> pa.Field:
    """As it is written: without a dictionary."""
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    return pa.field(field.name, kind)


def _check_clash(kept: pa.Schema, answers: pa.Schema) -> None:
    seen: set[str] = set()
    for name in (*kept.names, *answers.names):
        if name in seen:
            raise duplicate_column_error("the output", name, "would be")
        seen.add(name)


def _cut(files: Sequence[Path], rows: int, names: Sequence[str]) -> Iterator[Shard]:
    number, size = 0, sum(file.stat().st_size for file in files)
    with progress("Counting rows", size, lines=True) as advance:  # text has to be read for that
        for file in files:
            first = 0
            with readable(file):
                for count, start, stop in opened(file).spans(rows, names):
                    yield Shard(number, str(file), first, count, start, stop)
                    number, first = number + 1, first + count
                    advance(stop - start)
            if not first:
                raise InvalidInput(f"{file} must hold at least one row; it has none.")


def _state(file: Path) -> list[Any]:
    """By which a file is known again."""
    with readable(file):
        found = file.stat()
    return [str(file.resolve()), found.st_size, found.st_mtime_ns]


def check_unchanged(plan: Plan) -> None:
    """Refuse answers of files that were not the same all the time."""
    for file, before in zip(plan.files, plan.identity["inputs"], strict=True):
        if _state(file) != before:
            raise InvalidInput(f"The input must stay the same while it is read; {file} has changed.")
