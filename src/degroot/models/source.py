"""Where a model comes from, and how it is opened."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from degroot.exceptions import InvalidInput
from degroot.models.estimators import from_pickle, from_skops, transformer_from_skops
from degroot.models.onnxfile import from_onnx
from degroot.models.remote import RemoteModel
from degroot.tables import told

VERSION_DIGITS = 16
SAFE: dict[str, Callable[[bytes], Any]] = {".onnx": from_onnx, ".skops": from_skops}
NEEDED = "The node needs extra packages: pip install 'degroot[node]'"  # and so do models at an address
UNSAFE: dict[str, Callable[[bytes], Any]] = dict.fromkeys((".pkl", ".pickle", ".joblib"), from_pickle)


@dataclass(frozen=True, slots=True)
class ModelSource:
    """Where the model is: a file, or the name of a model that is served at an address."""

    file: Path | None = None
    address: str | None = None  # "host:port"
    name: str | None = None
    version: str | None = None
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None


def load(source: ModelSource, unsafe_pickle: bool = False, needed: str = NEEDED) -> tuple[Any, str]:
    """The model and its version: 16 hex digits of the file's SHA-256, or what the server says."""
    try:
        if source.file is None:
            return _served(source)
        return _from_file(source.file, unsafe_pickle)
    except ImportError as error:
        raise InvalidInput(f"{needed} ({error}).") from error


def check_features(model: Any, names: Sequence[str]) -> None:
    """Refuse rows with these features if the model says that it takes others."""
    takes = getattr(model, "n_features_in_", None)
    if takes is not None and takes != len(names):
        raise InvalidInput(f"The model takes {takes} features, so the rows must have as many; they have {len(names)}.")
    expected = getattr(model, "feature_names_in_", None)
    if expected is not None and list(expected) != list(names):
        k = next(k for k, pair in enumerate(zip(expected, names, strict=True)) if pair[0] != pair[1])
        raise InvalidInput(
            "The rows must have the model's features in the model's order; "
            f"feature {k} is {names[k]!r}, and {str(expected[k])!r} in the model."
        )


def open_transformer(file: Path, needed: str = NEEDED) -> Any:
    """The transformer in a skops file."""
    if file.suffix.lower() != ".skops":
        raise InvalidInput(f"A transformer must be a .skops file; got {file}.")
    try:
        return _opened(file, _content(file), transformer_from_skops)
    except ImportError as error:
        raise InvalidInput(f"{needed} ({error}).") from error


def _from_file(file: Path, unsafe_pickle: bool) -> tuple[Any, str]:
    suffix = file.suffix.lower()
    if suffix in UNSAFE and not unsafe_pickle:
        raise InvalidInput(
            f"A model must be an .onnx or .skops file; got {file}, which can run any code when it is opened "
            "(--unsafe-pickle opens it all the same)."
        )
    if suffix not in SAFE | UNSAFE:
        raise InvalidInput(f"A model must be an .onnx or .skops file; got {file}.")
    content = _content(file)
    return _opened(file, content, (SAFE | UNSAFE)[suffix]), sha256(content).hexdigest()[:VERSION_DIGITS]


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InvalidInput(f"The model must be a file that can be read; {file}: {error.strerror}.") from error


def _opened(file: Path, content: bytes, opener: Callable[[bytes], Any]) -> Any:
    try:
        return opener(content)
    except (InvalidInput, ImportError) as error:
        raise _about(error, file) from error
    except Exception as error:
        raise InvalidInput(
            f"The model must be a {file.suffix.lower()} file; {file} cannot be opened: {told(error)}."
        ) from error


def _about(error: Exception, file: Path) -> Exception:
    return InvalidInput(f"{file}: {error}") if isinstance(error, InvalidInput) else error


def _served(source: ModelSource) -> tuple[RemoteModel, str]:
    if source.address is None or source.name is None:
        raise InvalidInput("A model must have a file, or an address and a name; got neither.")
    model = RemoteModel(
        source.address, source.name, source.version, ca=source.ca, certificate=source.certificate, key=source.key
    )
    return model, model.describe().version
