"""Sites: how one organisation writes the columns that the members have agreed on. Its file stays with it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from degroot.exceptions import InvalidInput
from degroot.files.toml import Table, toml_line, toml_text
from degroot.schema.columns import AS_AGREED, COMMA, DATE, NUMBER, POINT, REFUSE, Column, SiteColumn

SITE_SUFFIX = ".site.toml"  # of the file beside NAME.csv that says how NAME writes its columns
FACTOR_DIGITS = 12  # of factors and offsets in lines to type: answers stay the same to that precision
SITE_KEYS = ("absent", "columns")
SITE_COLUMN_KEYS = ("name", "factor", "offset", "values", "format", "decimal", "strip")


@dataclass(frozen=True, slots=True)
class Site:
    """An organisation's own names, units and words, and the columns that it does not have.

    Examples
    --------
    >>> north = Site({"bmi": SiteColumn(name="BMI_KG")}, absent=("inventory",))
    >>> north.find_name("bmi"), north.find_name("age")
    ('BMI_KG', 'age')
    """

    columns: Mapping[str, SiteColumn] = field(default_factory=dict)  # by the name in the schema
    absent: tuple[str, ...] = ()  # columns that it does not collect
    path: Path | None = None

    def column(self, name: str) -> SiteColumn:
        """How it writes the column that the schema calls `name`."""
        return self.columns.get(name, AS_AGREED)

    def find_name(self, name: str) -> str:
        """What it calls that column."""
        return self.column(name).name or name

    def share_names(self, table: Mapping[str, Any]) -> dict[str, Any]:
        """The columns of its table by their names in the schema, without those that it does not have."""
        shared = {self.find_name(name): name for name in self.columns}
        named = {shared.get(own, own): values for own, values in table.items()}
        return {name: values for name, values in named.items() if name not in self.absent}

    def with_every_column(self) -> "Site":
        """The same for rows that are asked about: what their file has is read, though its own rows lack it.

        A column stays absent whose name is what the site calls another one.

        Examples
        --------
        >>> Site({"area": SiteColumn(name="lot")}, absent=("lot", "city")).with_every_column().absent
        ('lot',)
        """
        taken = {self.find_name(name) for name in self.columns}
        return replace(self, absent=tuple(name for name in self.absent if name in taken))

    def check(self, names: tuple[str, ...], target: str) -> None:
        """Refuse a site that speaks of columns that the schema, with these `names`, does not have."""
        where = self.path or "The site"
        for name in (*self.columns, *self.absent):
            if name not in names:
                raise InvalidInput(f"{where} must name columns of the schema; {name!r} is none of them.")
        if target in self.absent:
            raise InvalidInput(f"{where}: `absent` must not name the target; got {target!r}.")
        for name in self.absent:
            if name in self.columns:
                raise InvalidInput(f"{where}: {name!r} must be absent or described; it is both.")
        own = [self.find_name(name) for name in names if name not in self.absent]
        for name in own:
            if own.count(name) > 1:
                raise InvalidInput(f"{where}: every column must have a name of its own; {name!r} is there twice.")

    def check_kinds(self, columns: Iterable[Column]) -> None:
        """Refuse what cannot be said of a column of its kind."""
        for column in columns:
            own = self.column(column.name)
            of_numbers = own.factor != 1.0 or own.offset != 0.0 or own.parses_numbers
            for is_said, kind, what in (
                (of_numbers, NUMBER, "have `factor`, `offset`, `decimal` or `strip`"),
                (own.format is not None, DATE, "have `format`"),
            ):
                if is_said and column.kind != kind:
                    raise InvalidInput(
                        f"{self.path or 'The site'}: {column.name!r} must be a {kind} to {what}; it is a {column.kind}."
                    )

    def check_values(self, columns: Iterable[Column]) -> None:
        """Refuse a value that is mapped to what a column does not admit."""
        for column in columns:
            strict, own = replace(column, unlisted=REFUSE), self.column(column.name)
            shared = np.array([text for _, text in own.values], object)
            for place in np.flatnonzero(np.isinf(strict.encode(shared, replace(own, values=())))).tolist():
                where, mapped = f"{self.path or 'The site'}: `values` of {column.name!r}", own.values[place][0]
                raise InvalidInput(
                    f"{where}: {mapped!r} must be mapped to what the schema admits, and that must "
                    f"{column.describe_requirement()}; got {shared[place]!r}."
                )

    def change_line(self, name: str, /, **changed: Any) -> str:
        """The line of its file that says of the column `name` what it says now, with these changes.

        Examples
        --------
        >>> Site({"weight": SiteColumn(name="LB", factor=0.5)}).change_line("weight", factor=0.45359237)
        'columns.weight = { name = "LB", factor = 0.45359237 }'
        """
        entries = _list_entries(self.column(name)) | changed
        return write_line(name, **{key: entry for key, entry in entries.items() if entry is not None})

    def to_toml(self) -> str:
        """The text of its file."""
        tables = {name: _list_entries(column) for name, column in self.columns.items()}
        return toml_text({"absent": list(self.absent) or None, "columns": tables or None})


def _list_entries(column: SiteColumn) -> dict[str, Any]:
    """What a site file says of a column; None: nothing."""
    return {
        "name": column.name,
        "factor": None if column.factor == 1.0 and not column.gives_unit else column.factor,
        "offset": column.offset or None,
        "format": column.format,
        "decimal": None if column.decimal == POINT else column.decimal,
        "strip": column.strip or None,
        "values": dict(column.values) or None,
    }


AS_SHARED = Site()  # a site that writes everything as the schema does


def write_line(name: str, /, **entries: Any) -> str:
    """The line of a site file that says this of the column that the schema calls `name`.

    Examples
    --------
    >>> write_line("price", factor=1000.0), write_line("hours", factor=1 / 60)
    ('columns.price = { factor = 1000 }', 'columns.hours = { factor = 0.0166666666667 }')
    """
    plain = {key: _shorten(value) if isinstance(value, float) else value for key, value in entries.items()}
    return toml_line(("columns", name), plain)


def write_absent(*names: str) -> str:
    """The line of a site file that says that these columns are not collected.

    Examples
    --------
    >>> write_absent("ward")
    'absent = ["ward"]'
    """
    return toml_text({"absent": list(names)}).strip()


def _shorten(value: float) -> int | float:
    rounded = float(f"{value:.{FACTOR_DIGITS}g}")
    return int(rounded) if rounded.is_integer() else rounded


def site_beside(path: Path) -> Path:
    """Where the site file of a data file is looked for."""
    return path.with_name(f"{path.stem}{SITE_SUFFIX}")


def read_site(path: Path) -> Site:
    """The site in a TOML file."""
    top = Table.read(path, SITE_KEYS, "site file")
    absent = top.texts("absent") if top.entries.get("absent") else ()
    if "columns" not in top.entries:
        return Site({}, absent, path)
    tables = top.table("columns", top.entries["columns"] if isinstance(top.entries["columns"], dict) else ())
    columns = {name: _read_column(tables.table(name, SITE_COLUMN_KEYS)) for name in tables.entries}
    return Site(columns, absent, path)


def _read_column(table: Table) -> SiteColumn:
    values = _read_values(table, "values") if "values" in table.entries else ()
    factor = table.given("factor", table.number, 1.0)
    offset = table.given("offset", lambda key: _read_offset(table, key), 0.0)
    decimal = table.given("decimal", lambda key: table.choice(key, (POINT, COMMA)), POINT)
    strip = table.given("strip", lambda key: _read_strip(table, key, decimal), "")
    return SiteColumn(
        table.given("name", table.text, None), factor, offset, values, table.given("format", table.text, None),
        decimal, strip, gives_unit="factor" in table.entries or "offset" in table.entries,
    )  # fmt: skip


def _read_offset(table: Table, key: str) -> float:
    def is_finite(value: object) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < float("inf")

    return float(table.take(key, is_finite, "be a finite number"))


def _read_strip(table: Table, key: str, decimal: str) -> str:
    def fits(value: object) -> bool:
        return isinstance(value, str) and bool(value) and not any(each.isdigit() or each == decimal for each in value)

    return str(table.take(key, fits, 'be characters that are no digits and not the decimal mark, such as "$,"'))


def _read_values(table: Table, key: str) -> tuple[tuple[str, str], ...]:
    def fits(value: object) -> bool:
        return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())

    given = table.take(key, fits, 'be a table of texts, such as { "M" = "male" }')
    return tuple((str(own).strip(), shared) for own, shared in given.items())
