"""Where a model comes from, and how it is opened."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from degroot.exceptions import InvalidInput
from degroot.models.estimators import transformer_from_skops
from degroot.models.formats import content_of, open_file, opened
from degroot.models.registered import from_folder, from_mlflow, version_of
from degroot.models.remote import RemoteModel

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


def load(source: ModelSource, unsafe_pickle: bool = False, needed: str = NEEDED) -> tuple[Any, str]:
    """The model and its version: 16 hex digits of the file's SHA-256, or what the server says.

    In MLflow it is the number of the version, or the run, and the digest.
    """
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
        return opened(file, content_of(file), transformer_from_skops)
    except ImportError as error:
        raise InvalidInput(f"{needed} ({error}).") from error


def _served(source: ModelSource) -> tuple[RemoteModel, str]:
    if source.address is None or source.name is None:
        raise InvalidInput("A model must have a file, or an address and a name; got neither.")
    model = RemoteModel(
        source.address, source.name, source.version, ca=source.ca, certificate=source.certificate, key=source.key
    )
    return model, model.describe().version
