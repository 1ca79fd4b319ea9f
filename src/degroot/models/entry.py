"""Where a model is, as a table of a TOML file says."""

from typing import Any

from degroot.addresses import split
from degroot.exceptions import InvalidInput
from degroot.models.registered import SCHEMES
from degroot.models.source import ModelSource
from degroot.tomlfile import Table

SCHEME = "grpc://"
PLACES = {
    "file": ("classes",),
    "uri": ("tracking", "classes"),
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
    return _served(table) if places == ["address"] else _kept(table)


def _kept(table: Table) -> ModelSource:
    """A model in a file or in MLflow; `classes` are the labels of a classifier that knows numbers only."""
    classes = table.given("classes", lambda key: _labels(table, key), None)
    if "file" in table.entries:
        return ModelSource(file=table.file("file"), classes=classes)
    uri = table.text("uri")
    if not uri.startswith(SCHEMES):
        raise table.refusal("uri", 'be "models:/…" or "runs:/…"')
    return ModelSource(uri=uri, tracking=table.given("tracking", table.text, None), classes=classes)


def _labels(table: Table, key: str) -> tuple[Any, ...]:
    def fit(value: Any) -> bool:
        alike = isinstance(value, list) and len({type(label) for label in value}) == 1
        return alike and len(value) >= 2 and not isinstance(value[0], list | dict) and len(set(value)) == len(value)

    return tuple(table.take(key, fit, "be at least two distinct labels of one kind"))


def _served(table: Table) -> ModelSource:
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
