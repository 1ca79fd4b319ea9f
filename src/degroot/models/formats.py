"""Model files, by how their names end."""

from collections.abc import Callable, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from degroot.exceptions import InvalidInput, describe_error
from degroot.models.labels import refuse_labels
from degroot.models.lightgbm import from_lightgbm
from degroot.models.onnx import from_onnx
from degroot.models.skops import from_pickle, from_skops
from degroot.models.xgboost import from_xgboost

VERSION_DIGITS = 16
SAFE: dict[str, Callable[..., Any]] = {".onnx": from_onnx, ".skops": from_skops}
NUMBERED: dict[str, Callable[..., Any]] = {  # of classifiers they know the number of each class, not its label
    ".ubj": from_xgboost, ".json": from_xgboost, ".xgb": from_xgboost, ".txt": from_lightgbm, ".lgb": from_lightgbm,
}  # fmt: skip
UNSAFE: dict[str, Callable[..., Any]] = dict.fromkeys((".pkl", ".pickle", ".joblib"), from_pickle)
KNOWN = "an .onnx, .skops, .ubj, .json, .xgb, .txt or .lgb file"


def open_file(file: Path, classes: Sequence[Any] | None = None, unsafe_pickle: bool = False) -> tuple[Any, str]:
    """The model in a file, and 16 hex digits of the file's SHA-256."""
    check_kind(file, unsafe_pickle)
    return open_content(file, content_of(file), classes)


def open_content(file: Path, content: bytes, classes: Sequence[Any] | None = None) -> tuple[Any, str]:
    """The same, of a file of a known kind that has been read."""
    suffix = file.suffix.lower()
    if suffix not in NUMBERED:
        refuse_labels(classes)
    opener = partial(NUMBERED[suffix], classes=classes) if suffix in NUMBERED else (SAFE | UNSAFE)[suffix]
    return open_content_with(file, content, opener), version_of(content)


def version_of(content: bytes) -> str:
    """The version of a model in a file: 16 hex digits of the file's SHA-256."""
    return sha256(content).hexdigest()[:VERSION_DIGITS]


def check_kind(file: Path, unsafe_pickle: bool = False) -> None:
    """Refuse files that hold no model, and those that can run any code, unless somebody insists."""
    suffix = file.suffix.lower()
    if suffix in UNSAFE and not unsafe_pickle:
        raise InvalidInput(
            f"A model must be {KNOWN}; got {file}, which can run any code when it is opened "
            "(--unsafe-pickle opens it all the same)."
        )
    if suffix not in SAFE | NUMBERED | UNSAFE:
        raise InvalidInput(f"A model must be {KNOWN}; got {file}.")


def content_of(file: Path) -> bytes:
    """What is in the file."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise InvalidInput(f"The model must be a file that can be read; {file}: {error.strerror}.") from error


def open_content_with(file: Path, content: bytes, opener: Callable[[bytes], Any]) -> Any:
    """What `opener` makes of the content; whatever is wrong is told of the file."""
    try:
        return opener(content)
    except InvalidInput as error:
        raise InvalidInput(f"{file}: {error}") from error
    except ImportError:
        raise
    except Exception as error:
        raise InvalidInput(
            f"The model must be a {file.suffix.lower()} file; {file} cannot be opened: {first_line(error)}."
        ) from error


def first_line(error: Exception) -> str:
    """What went wrong, without the library's own traces."""
    return describe_error(error).splitlines()[0].rstrip(".: ")
