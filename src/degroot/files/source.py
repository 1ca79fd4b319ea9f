"""Where rows are and what their columns mean, as a table of a TOML file says."""

from dataclasses import dataclass
from pathlib import Path

from degroot.files.toml import Table


@dataclass(frozen=True, slots=True)
class DataSource:
    """Where the rows are, and what their columns mean."""

    file: Path
    target: tuple[str, ...]
    own_predictions: str | tuple[str, ...] | None = None  # "peers", or columns
    space: str | None = None
    classes: tuple[str, ...] | tuple[int, ...] | None = None
    units: str | None = None  # a column: whose row it is


def data_source(table: Table, key: str = "file") -> DataSource:
    """The file, under this key, with its columns."""
    target, classes = table.texts("target"), table.given("classes", table.labels, None)
    if classes is not None and len(target) > 1:
        raise table.refusal("target", f"be a single column where there are {table.where('classes')}")
    own: str | tuple[str, ...] | None = table.given("own_predictions", table.texts, None)
    if own == (PEERS,):
        own = PEERS
    elif own is not None:
        _check_own(table, own, target, len(classes or target))
    space = table.given("space", lambda key: table.choice(key, (STANDARDISE,)), None)
    units = table.given("units", table.text, None)
    if units is not None and units in (*target, *(own if isinstance(own, tuple) else ())):
        raise table.refusal("units", f"be another column than {table.where('target')} and own predictions")
    return DataSource(table.file(key), target, own, space, classes, units)


def _check_own(table: Table, own: tuple[str, ...] | str, target: tuple[str, ...], outputs: int) -> None:
    if len(own) != outputs:
        columns = "one column" if outputs == 1 else f"{outputs} columns, one for each output"
        raise table.refusal("own_predictions", f"be {PEERS!r} or {columns}")
    if set(own) & set(target):
        raise table.refusal("own_predictions", f"be other columns than {table.where('target')}")


PEERS = "peers"  # who score a model that its own agent does not


STANDARDISE = "standardise"  # the space of features of mean 0 and standard deviation 1
