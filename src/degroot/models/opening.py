"""How a model is opened, wherever it comes from."""

from pathlib import Path
from typing import Any

from degroot.exceptions import InvalidInput
from degroot.models.by_schema import bind_schema
from degroot.models.formats import content_of, open_content_with, open_file
from degroot.models.inference_client import RemoteModel
from degroot.models.mlflow_registry import from_folder, from_mlflow, version_of
from degroot.models.skops import transformer_from_skops
from degroot.models.source import ModelSource
from degroot.schema.schema import Schema

NEEDED = "The node needs extra packages: pip install 'degroot[node]'"  # and so do models at an address


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
