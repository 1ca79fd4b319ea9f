"""Where rows are and what their columns mean, as a table of a TOML file says."""

from dataclasses import dataclass
from pathlib import Path

from degroot.exceptions import InvalidInput
from degroot.files.toml import Table


@dataclass(frozen=True, slots=True)
class DataSource:
    """Where the rows are, and what their columns mean."""

    file: Path
    target: tuple[str, ...]  # empty: that of the schema
    own_predictions: str | tuple[str, ...] | None = None  # "peers", or columns
    space: str | None = None
    classes: tuple[str, ...] | tuple[int, ...] | None = None
    units: str | None = None  # a column: whose row it is
    schema: Path | None = None  # what the members have agreed that columns hold
    site: Path | None = None  # how this file writes them
    absent: tuple[str, ...] = ()  # features that the file does not have


def data_source(table: Table, key: str = "file") -> DataSource:
    """The file, under this key, with its columns. With a schema, it says what the target and the classes are."""
    schema = table.given("schema", table.file, None)
    target = () if schema is not None and "target" not in table.entries else table.texts("target")
    classes = table.given("classes", table.labels, None)
    if classes is not None and len(target) > 1:
        raise table.refusal("target", f"be a single column where there are {table.where('classes')}")
    own: str | tuple[str, ...] | None = table.given("own_predictions", table.texts, None)
    if own == (PEERS,):
        own = PEERS
    elif own is not None and schema is None:
        _check_own(table, own, target, len(classes or target))
    space = table.given("space", lambda key: table.choice(key, (STANDARDISE,)), None)
    units = table.given("units", table.text, None)
    if units is not None and units in (*target, *(own if isinstance(own, tuple) else ())):
        raise table.refusal("units", f"be another column than {table.where('target')} and own predictions")
    site = table.given("site", table.file, None)
    absent = table.texts("absent") if table.entries.get("absent") else ()
    for name in ("site", "absent") if schema is None else ("classes", "space"):
        if table.entries.get(name):
            beside = "must come with" if schema is None else "must not stand beside"
            raise InvalidInput(f"{table.what(name)} {beside} {table.where('schema')}, which says what columns hold.")
    return DataSource(table.file(key), target, own, space, classes, units, schema, site, absent)


def _check_own(table: Table, own: tuple[str, ...] | str, target: tuple[str, ...], outputs: int) -> None:
    if len(own) != outputs:
        columns = "one column" if outputs == 1 else f"{outputs} columns, one for each output"
        raise table.refusal("own_predictions", f"be {PEERS!r} or {columns}")
    if set(own) & set(target):
        raise table.refusal("own_predictions", f"be other columns than {table.where('target')}")


PEERS = "peers"  # who score a model that its own agent does not


STANDARDISE = "standardise"  # the space of features of mean 0 and standard deviation 1
