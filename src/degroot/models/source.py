"""Where a model comes from."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from degroot.exceptions import InvalidInput
from degroot.files.addresses import split
from degroot.files.toml import Table
from degroot.models.forms import form_of, read_input
from degroot.schema.frames import FrameForm
from degroot.schema.schema import Schema


@dataclass(frozen=True, slots=True)
class ModelSource:
    """Where the model is: a file, an address in MLflow, or the name of a model that is served at an address."""

    file: Path | None = None  # or a folder that MLflow wrote
    address: str | None = None  # "host:port"
    name: str | None = None
    version: str | None = None
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    uri: str | None = None  # "models:/…" or "runs:/…"
    tracking: str | None = None  # where MLflow is; by default as MLflow is told
    classes: tuple[Any, ...] | None = None  # labels of classes 0, 1, …, where a file knows numbers only
    input: FrameForm | str | None = None  # what it takes: "frame", frames of a form, or None: numbers

    def find_form(self, schema: Schema | None) -> FrameForm | None:
        """The form of the frames that it takes; None: it takes numbers."""
        return form_of(self.input, schema)


SCHEME = "grpc://"
SCHEMES = ("models:/", "runs:/")  # of MLflow
PLACES = {
    "file": ("classes", "input"),
    "uri": ("tracking", "classes", "input"),
    "address": ("name", "version", "ca", "certificate", "key"),
}


def model_source(table: Table) -> ModelSource:
    """A file, a model in MLflow, or a model that is served at an address."""
    places = [place for place in PLACES if place in table.entries]
    if len(places) != 1:
        came = "all are missing" if not places else f"got both {' and '.join(f'`model.{each}`' for each in places)}"
        raise InvalidInput(f"{table.path}: `model.file`, `model.uri` or `model.address` must be given; {came}.")
    for key in table.entries:
        if key not in (places[0], *PLACES[places[0]]):
            fitting = " or ".join(f"`model.{place}`" for place, keys in PLACES.items() if key in keys)
            raise InvalidInput(f"{table.what(key)} must stand beside {fitting}; got it beside `model.{places[0]}`.")
    return _read_served(table) if places == ["address"] else _kept(table)


def _kept(table: Table) -> ModelSource:
    """A model in a file or in MLflow; `classes` are the labels of a classifier that knows numbers only."""
    classes = table.given("classes", lambda key: _labels(table, key), None)
    if "file" in table.entries:
        return ModelSource(file=table.file("file"), classes=classes, input=read_input(table))
    uri = table.text("uri")
    if not uri.startswith(SCHEMES):
        raise table.refusal("uri", 'be "models:/…" or "runs:/…"')
    tracking = table.given("tracking", table.text, None)
    return ModelSource(uri=uri, tracking=tracking, classes=classes, input=read_input(table))


def _labels(table: Table, key: str) -> tuple[Any, ...]:
    def fit(value: Any) -> bool:
        alike = isinstance(value, list) and len({type(label) for label in value}) == 1
        return alike and len(value) >= 2 and not isinstance(value[0], list | dict) and len(set(value)) == len(value)

    return tuple(table.take(key, fit, "be at least two distinct labels of one kind"))


def _read_served(table: Table) -> ModelSource:
    """A model at an address, over TLS if the CA of the server is given."""
    for key, other in (("certificate", "key"), ("key", "certificate"), ("certificate", "ca")):
        if key in table.entries and other not in table.entries:
            raise InvalidInput(f"{table.what(key)} must come with {table.where(other)}; it is missing.")
    address = table.text("address")
    if not address.startswith(SCHEME):
        raise table.refusal("address", f'be "{SCHEME}host:port"')
    split(address.removeprefix(SCHEME), table.what("address"))
    return ModelSource(
        address=address.removeprefix(SCHEME),
        name=table.text("name"),
        version=table.given("version", table.text, None),
        ca=table.given("ca", table.file, None),
        certificate=table.given("certificate", table.file, None),
        key=table.given("key", table.file, None),
    )
