"""The schema: which columns the members of a collective have agreed on, and tables as numbers by it."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array
from degroot.exceptions import InvalidInput
from degroot.files.toml import Table, toml_text
from degroot.schema.columns import (
    BOOLEAN,
    CATEGORY,
    CYCLES,
    DATE,
    FALSE_TRUE,
    GAP,
    KINDS,
    NUMBER,
    ORDERED,
    REFUSE,
    UNLISTED,
    Column,
    SiteColumn,
    check_column,
    describe_some,
    find_not_admitted,
    normalise_text,
)
from degroot.schema.sites import AS_SHARED, Site

FILE = "schema.toml"
FORMAT = 1  # of the file
KEYS = ("format", "version", "target", "units", "identifiers", "columns")
COLUMN_KEYS = ("kind", "categories", "unit", "range", "missing", "unlisted", "cycle")
DIGEST_DIGITS = 16

Columns = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Schema:
    """Columns that members have agreed on: features, a target, units of observation and identifiers.

    Parameters
    ----------
    columns : the features, in the order in which rows are numbers
    target : what is predicted, optional
    units : str, optional
        The column that says of which person, farm or country a row is.
    identifiers : names of columns that number or name rows, which are no features
    version : whole number, raised by the members when they change the schema

    Examples
    --------
    >>> schema = Schema((Column("age"), Column("sex", "category", ("female", "male"))))
    >>> schema.encode({"sex": np.array(["male", ""], object), "age": np.array([31, 40])}, "north.csv")
    array([[31.,  1.],
           [40., nan]])
    >>> schema.encode({"sex": np.array(["x"], object), "age": np.array([31])}, "north.csv")
    Traceback (most recent call last):
    degroot.exceptions.InvalidInput: north.csv: row 1: column 'sex' must be one of 'female', 'male'; got 'x'. To go \
on: add it to `categories` in the schema, set `unlisted = "gap"` there, or map it in the site file.
    """

    columns: tuple[Column, ...]
    target: Column | None = None
    units: str | None = None
    identifiers: tuple[str, ...] = ()
    version: int = 1

    def __post_init__(self) -> None:
        for column in self.every_column:
            check_column(column, f"Column {column.name!r} of the schema")
        roles = [column.name for column in self.every_column] + [
            *self.identifiers,
            *([self.units] if self.units else []),
        ]
        for name, count in Counter(roles).items():
            if count > 1:
                raise InvalidInput(f"A column of the schema must have one role; {name!r} has two.")
        if not self.columns:
            raise InvalidInput("A schema must have a feature; it has none.")

    @property
    def every_column(self) -> tuple[Column, ...]:
        """The features and then the target, if there is one."""
        return self.columns if self.target is None else (*self.columns, self.target)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the features."""
        return tuple(column.name for column in self.columns)

    @property
    def classes(self) -> tuple[str, ...] | None:
        """The classes of the target; None: it is a number, or there is none."""
        return self.target.categories if self.target is not None and self.target.is_listed else None

    @cached_property
    def digest(self) -> str:
        """16 hex digits by which members see that they have agreed on the same."""
        about = {
            "columns": [_describe_exactly(column) for column in self.columns],
            "target": None if self.target is None else _describe_exactly(self.target),
            "units": self.units,
            "identifiers": sorted(self.identifiers),
            "version": self.version,
        }
        text = json.dumps(about, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return sha256(text.encode()).hexdigest()[:DIGEST_DIGITS]

    def column(self, name: str) -> Column:
        """The feature or target called `name`."""
        for column in self.every_column:
            if column.name == name:
                return column
        raise InvalidInput(f"The schema must have the column {name!r}; it has none.")

    def check_site(self, site: Site) -> None:
        """Refuse a site that describes columns which are not in the schema, or in a way that cannot be."""
        site.check(tuple(column.name for column in self.every_column), "" if self.target is None else self.target.name)
        site.check_kinds(self.every_column)
        site.check_values(self.every_column)

    def mark_features(self, names: Iterable[str], what: str) -> NDArray[np.bool_]:
        """Which features are among `names`, (d,); a name that is none of them is refused, as one of `what`."""
        named = list(names)
        for name in named:
            if name not in self.names:
                raise InvalidInput(f"{what} must name columns of the schema; got {name!r}.")
        return np.isin(self.names, named)

    def list_marked(self, marked: NDArray[np.bool_] | None) -> tuple[str, ...]:
        """The names of the features that are `marked`, (d,); None: no feature is."""
        if marked is None:
            return ()
        return tuple(name for name, is_marked in zip(self.names, marked, strict=True) if is_marked)

    def find_absent(self, present: Iterable[str], site: Site = AS_SHARED) -> NDArray[np.bool_]:
        """Which features a table with the columns `present` does not have, (d,)."""
        names = set(present)
        return np.array(
            [column.name in site.absent or site.find_name(column.name) not in names for column in self.columns]
        )

    def encode(self, table: Columns, where: str = "The table", site: Site = AS_SHARED, first_row: int = 1) -> Array:
        """The features of a table as numbers, (n, d); a value that is not admitted is refused, with its row.

        Columns that the table does not have are gaps. `first_row`: the number of the first row.
        """
        numbers = self.encode_marking(table, site)
        self.check_admitted(numbers, lambda name, row: table[site.find_name(name)][row], where, first_row.__add__)
        return numbers

    def encode_marking(
        self,
        table: Mapping[str, Any],
        site: Site = AS_SHARED,
        encode: Callable[[Column, Any, SiteColumn], Array] = Column.encode,
    ) -> Array:
        """The same with infinity where a value is not admitted; `encode` encodes one column of the table."""
        rows = len(next(iter(table.values()))) if table else 0
        numbers = np.full((rows, len(self.columns)), np.nan)
        for place, column in enumerate(self.columns):
            own = site.find_name(column.name)
            if own in table and column.name not in site.absent:
                numbers[:, place] = encode(column, table[own], site.column(column.name))
        return numbers

    def find_unlisted(self, table: Columns, site: Site = AS_SHARED) -> dict[str, list[str]]:
        """Categories of a table that are not listed and so count as gaps: distinct texts, by the name of the column."""
        found: dict[str, list[str]] = {}
        for column in self.columns:
            own = site.find_name(column.name)
            if own in table and column.name not in site.absent:
                texts = column.count_unlisted(table[own], site.column(column.name))
                if texts:
                    found[column.name] = list(texts)
        return found

    def check_admitted(
        self,
        numbers: Array,
        value_at: Callable[[str, int], Any],
        where: str,
        number_row: Callable[[int], int] = (1).__add__,
    ) -> None:
        """Refuse numbers that stand for values that are not admitted.

        `value_at` gives a column's value in a row as it is in the file; `number_row` the number of a row.
        """
        if not np.isinf(numbers).any():
            return
        row, place = (int(each) for each in np.argwhere(np.isinf(numbers))[0])
        column = self.columns[place]
        value = value_at(column.name, row)
        raise InvalidInput(column.describe_refusal(where, number_row(row), value))

    def check_numbers(self, numbers: Array, name: str = "X") -> None:
        """Refuse numbers (n, d) that stand for no value: infinite, beyond the range, or places without a category."""
        for place, column in enumerate(self.columns):
            values = numbers[:, place]
            wrong = column.find_meaningless(values)
            if wrong.any():
                row = int(np.flatnonzero(wrong)[0])
                allowed = f"0 to {len(column.categories) - 1}" if column.is_listed else "finite"
                allowed = "days from 0001-01-01 to 9999-12-31" if column.kind == DATE else allowed
                allowed = allowed if column.range is None else f"from {column.range[0]:g} to {column.range[1]:g}"
                raise InvalidInput(
                    f"`{name}` must hold numbers by the schema; row {row}, column {column.name!r} must be {allowed} or "
                    f"NaN; got {values[row]}."
                )

    def encode_target(
        self,
        values: NDArray[Any],
        where: str,
        site: Site = AS_SHARED,
        number_row: Callable[[int], int] = (1).__add__,
    ) -> NDArray[Any]:
        """The target: numbers (n,), or the texts of classes; NaN or empty where it is missing."""
        if self.target is None:
            raise InvalidInput("The schema must name a target; it has none.")
        numbers = self.target.encode(values, site.column(self.target.name))
        wrong = find_not_admitted(numbers)
        if len(wrong):
            raise InvalidInput(self.target.describe_refusal(where, number_row(int(wrong[0])), values[wrong[0]]))
        if self.classes is None:
            return numbers
        texts = np.array([*self.classes, ""])
        return texts[np.where(np.isnan(numbers), len(self.classes), numbers).astype(np.intp)]

    def decode(self, numbers: Array) -> dict[str, NDArray[Any]]:
        """The columns that these numbers (n, d) stand for, by name."""
        return {column.name: column.decode(numbers[:, place]) for place, column in enumerate(self.columns)}

    def recode(self, numbers: Array, into: "Schema") -> Array:
        """Numbers by this schema as numbers by another, (n, d'); NaN for columns and categories that this one lacks."""
        recoded = np.full((len(numbers), len(into.columns)), np.nan)
        places = {name: place for place, name in enumerate(self.names)}
        for place, column in enumerate(into.columns):
            if column.name in places:
                own = self.columns[places[column.name]]
                recoded[:, place] = _recode(numbers[:, places[column.name]], own, column)
        return recoded

    def list_differences(self, other: "Schema") -> list[str]:
        """What differs between this schema and another, a phrase each; none where both are the same.

        Examples
        --------
        >>> kilos, pounds = Schema((Column("weight", unit="kg"),)), Schema((Column("weight", unit="lb"), Column("age")))
        >>> kilos.list_differences(pounds)
        ["column 'age' is only there", "column 'weight': unit 'kg' here, 'lb' there"]
        """
        mine = {column.name: column for column in self.every_column}
        theirs = {column.name: column for column in other.every_column}
        found = [f"column {name!r} is only here" for name in mine if name not in theirs]
        found += [f"column {name!r} is only there" for name in theirs if name not in mine]
        for name in (name for name in mine if name in theirs):
            for key in COLUMN_KEYS:
                here, there = getattr(mine[name], key), getattr(theirs[name], key)
                if here != there:
                    found.append(f"column {name!r}: {_describe_difference(key, here, there)}")
        for key in ("version", "units", "identifiers"):
            here, there = getattr(self, key), getattr(other, key)
            if here != there:
                found.append(f"{key}: {here!r} here, {there!r} there")
        here, there = (None if each.target is None else each.target.name for each in (self, other))
        if here != there:
            found.append(f"target: {here!r} here, {there!r} there")
        if not found and self.names != other.names:
            found.append("the columns are in another order")
        return found

    # ---- files ------------------------------------------------------------------------------------------------------

    def to_toml(self) -> str:
        """The text of its file."""
        entries = {
            "format": FORMAT,
            "version": self.version,
            "target": None if self.target is None else self.target.name,
            "units": self.units,
            "identifiers": list(self.identifiers) or None,
            "columns": {column.name: _column_entries(column) for column in self.every_column},
        }
        return toml_text(entries)


def read_schema(path: Path) -> Schema:
    """The schema in a TOML file."""
    return schema_from(Table.read(path, KEYS, "schema"))


def schema_from_text(text: str, where: str) -> Schema:
    """The schema in the text of a TOML file; `where` is how messages call it."""
    import tomllib

    try:
        entries = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{where} must be the text of a schema; {error}.") from error
    return schema_from(Table(entries, Path(where)).only(KEYS))


def schema_from(top: Table) -> Schema:
    """The schema that a table of a TOML file describes."""
    if "format" in top.entries and top.entries["format"] != FORMAT:
        raise top.refusal("format", f"be {FORMAT}, which this version of degroot reads")
    target = top.given("target", top.text, None)
    entries = top.take("columns", lambda value: isinstance(value, dict) and bool(value), "be tables, [columns.NAME]")
    tables = top.table("columns", list(entries))
    columns = {name: _read_column(name, tables.table(name, COLUMN_KEYS)) for name in entries}
    if target is not None and target not in columns:
        raise top.refusal("target", "be one of the columns")
    version = top.given("version", top.whole, 1)
    identifiers = top.texts("identifiers") if top.entries.get("identifiers") else ()
    try:
        return Schema(
            tuple(column for name, column in columns.items() if name != target),
            None if target is None else columns[target],
            top.given("units", top.text, None), identifiers, version,
        )  # fmt: skip
    except InvalidInput as error:
        raise InvalidInput(f"{top.path}: {error}") from error


def _read_column(name: str, table: Table) -> Column:
    kind = table.choice("kind", KINDS)
    categories = table.texts("categories") if "categories" in table.entries else ()
    if kind == BOOLEAN and not categories:
        categories = FALSE_TRUE
    column = Column(
        name, kind, categories, table.given("unit", table.text, ""),
        table.given("range", lambda key: _read_range(table, key), None),
        table.given("missing", table.text, ""),
        table.given("unlisted", lambda key: table.choice(key, UNLISTED), REFUSE),
        table.given("cycle", lambda key: table.choice(key, CYCLES), None),
    )  # fmt: skip
    check_column(column, f"{table.path}: `{table.place}`")
    return column


def _read_range(table: Table, key: str) -> tuple[float, float]:
    def fits(value: Any) -> bool:
        plain = isinstance(value, list) and len(value) == 2
        return plain and all(isinstance(each, int | float) and not isinstance(each, bool) for each in value)

    low, high = table.take(key, fits, "be two numbers, low first")
    return float(low), float(high)


def _column_entries(column: Column) -> dict[str, Any]:
    words = list(column.categories) if column.categories != FALSE_TRUE or column.kind != BOOLEAN else None
    return {
        "kind": column.kind,
        "categories": words or None,
        "unit": column.unit or None,
        "range": None if column.range is None else [_plain_number(each) for each in column.range],
        "missing": column.missing or None,
        "unlisted": None if column.unlisted == REFUSE else column.unlisted,
        "cycle": column.cycle,
    }


def _describe_exactly(column: Column) -> dict[str, Any]:
    """What a digest covers of a column: 0, 0.0 and -0.0 are one number."""
    return asdict(column) | {"range": None if column.range is None else [float(each) + 0.0 for each in column.range]}


def _plain_number(value: float) -> int | float:
    return int(value) if float(value).is_integer() and abs(value) < 1e15 else float(value)


def _describe_difference(key: str, here: Any, there: Any) -> str:
    if key != "categories":
        return f"{key} {here!r} here, {there!r} there"
    only_here = [text for text in here if text not in there]
    only_there = [text for text in there if text not in here]
    parts = [f"categories only here: {only_here}"] * bool(only_here) + [f"only there: {only_there}"] * bool(only_there)
    return ", ".join(parts) or "its categories are in another order"


def _recode(numbers: Array, own: Column, other: Column) -> Array:
    if own.kind == other.kind and own.categories == other.categories:
        return numbers
    if own.is_listed and other.is_listed:
        table = np.array([other.places.get(text, np.nan) for text in own.categories] + [np.nan])
        return table[np.where(np.isnan(numbers), len(own.categories), numbers).astype(np.intp)]
    if own.kind == NUMBER and other.is_listed:
        return np.array([other.places.get(normalise_text(value), np.nan) for value in numbers.tolist()])
    return np.full(len(numbers), np.nan)


def describe_unlisted(found: Mapping[str, Sequence[str]]) -> str:
    """Categories that count as gaps, as `Schema.find_unlisted` gives them, in a line; empty where there are none.

    Examples
    --------
    >>> describe_unlisted({"town": ["Aarau", "Zug"]})
    "Taken as gaps, since the schema does not list them: 'Aarau', 'Zug' of 'town'."
    """
    if not found:
        return ""
    told = "; ".join(f"{describe_some(texts, 3)} of {name!r}" for name, texts in list(found.items())[:3])
    rest = f"; and of {len(found) - 3} more columns" if len(found) > 3 else ""
    return f"Taken as gaps, since the schema does not list them: {told}{rest}."


def merge_schemas(
    schemas: Sequence[Schema], names: Sequence[str], empty: Sequence[NDArray[np.bool_]] | None = None
) -> Schema:
    """One schema for agents whose own were inferred: the same columns, with everybody's categories.

    `names` are those of the agents, for messages; `empty` says which columns hold nothing but gaps at each: these are
    of any kind.

    Examples
    --------
    >>> north = Schema((Column("sex", "category", ("female",)),))
    >>> south = Schema((Column("sex", "category", ("male",)),))
    >>> merge_schemas([north, south], ["north", "south"]).columns[0].categories
    ('female', 'male')
    """
    merged: dict[str, tuple[Column, str]] = {}
    for k, (schema, name) in enumerate(zip(schemas, names, strict=True)):
        for place, column in enumerate(schema.columns):
            if empty is not None and empty[k][place]:
                continue
            known = merged.get(column.name)
            merged[column.name] = (column, name) if known is None else (_merge_columns(*known, column, name), known[1])
    first = schemas[0]
    return replace(
        first, columns=tuple(merged[each.name][0] if each.name in merged else each for each in first.columns)
    )


def _merge_columns(one: Column, first: str, two: Column, second: str) -> Column:
    kinds = {one.kind, two.kind}
    if one.is_listed and two.is_listed:
        kind = one.kind if len(kinds) == 1 else CATEGORY
        if kind == BOOLEAN:
            return one
        if kind == ORDERED and one.categories != two.categories:
            return replace(one, categories=_merge_ordered(one, two, first, second))
        together = tuple(dict.fromkeys((*one.categories, *two.categories)))
        unlisted = GAP if GAP in (one.unlisted, two.unlisted) else REFUSE
        return replace(one, kind=kind, categories=together, unlisted=unlisted)
    if len(kinds) > 1:
        raise InvalidInput(
            f"A column must be of one kind; {one.name!r} is a {one.kind} of {first!r} and a {two.kind} of {second!r}."
        )
    return one


def _merge_ordered(one: Column, two: Column, first: str, second: str) -> tuple[str, ...]:
    """The longer of two lists, if the other is a part of it in the same order."""
    long, short = sorted((one.categories, two.categories), key=len, reverse=True)
    if tuple(text for text in long if text in short) != short:
        raise InvalidInput(
            f"An ordered category must have one order; {one.name!r} is {list(one.categories)} of {first!r} and "
            f"{list(two.categories)} of {second!r}. Give both the same categories."
        )
    return long
