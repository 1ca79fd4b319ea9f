"""Where a model comes from, and how it is opened."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from degroot.exceptions import InvalidInput
from degroot.files.addresses import split
from degroot.files.toml import Table
from degroot.models.by_schema import bind_schema, form_of, read_input
from degroot.models.formats import content_of, open_content_with, open_file
from degroot.models.inference_client import RemoteModel
from degroot.models.mlflow_registry import SCHEMES, from_folder, from_mlflow, version_of
from degroot.models.skops import transformer_from_skops
from degroot.schema.frames import FrameForm
from degroot.schema.schema import Schema

NEEDED = "The node needs extra packages: pip install 'degroot[node]'"  # and so do models at an address


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


def load(
    source: ModelSource, unsafe_pickle: bool = False, needed: str = NEEDED, schema: Schema | None = None
) -> tuple[Any, str]:
    """The model and its version: 16 hex digits of the file's SHA-256, or what the server says.

    In MLflow it is the number of the version, or the run, and the digest. With a schema the model takes numbers by it,
    whatever it was trained on.
    """
    model, version = _open(source, unsafe_pickle, needed)
    form = source.find_form(schema)
    return model if schema is None else bind_schema(model, schema, form), version


def _open(source: ModelSource, unsafe_pickle: bool, needed: str) -> tuple[Any, str]:
    try:
        if source.uri is not None:
            return from_mlflow(source.uri, source.tracking, source.classes, unsafe_pickle)
        if source.file is None:
            return _served(source)
        if source.file.is_dir():
            return from_folder(source.file, source.classes, unsafe_pickle)
        return open_file(source.file, source.classes, unsafe_pickle)
    except ImportError as error:
        raise InvalidInput(f"{needed} ({error}).") from error


def is_still(source: ModelSource, version: str) -> bool:
    """Whether MLflow still leads to the version that was loaded; false where that has to be seen by loading."""
    return source.uri is not None and version.startswith(f"{version_of(source.uri, source.tracking)[0]}-")


def open_transformer(file: Path, needed: str = NEEDED) -> Any:
    """The transformer in a skops file."""
    if file.suffix.lower() != ".skops":
        raise InvalidInput(f"A transformer must be a .skops file; got {file}.")
    try:
        return open_content_with(file, content_of(file), transformer_from_skops)
    except ImportError as error:
        raise InvalidInput(f"{needed} ({error}).") from error


def _served(source: ModelSource) -> tuple[RemoteModel, str]:
    if source.address is None or source.name is None:
        raise InvalidInput("A model must have a file, or an address and a name; got neither.")
    model = RemoteModel(
        source.address, source.name, source.version, ca=source.ca, certificate=source.certificate, key=source.key
    )
    return model, model.describe().version


SCHEME = "grpc://"
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
