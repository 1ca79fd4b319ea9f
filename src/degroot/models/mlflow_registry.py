"""Models that MLflow keeps: registered, logged in a run, or in a folder that it wrote."""

import re
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from degroot.exceptions import InvalidInput, describe_error
from degroot.models.formats import VERSION_DIGITS, check_kind, content_of, first_line, open_content
from degroot.models.labels import refuse_labels
from degroot.models.skops import predicting
from degroot.models.source import SCHEMES

NEEDED = "Models in MLflow need extra packages: pip install 'degroot[mlflow]'"
FILE = "MLmodel"
FLAVOURS = {"onnx": "data", "lightgbm": "data", "xgboost": "data", "sklearn": "pickled_model"}  # where files are named
REGISTERED = re.compile(r"models:/([^/@]+)(?:/([^/@]+)|@([^/@]+))")
LATEST = "latest"


def from_mlflow(
    uri: str, tracking: str | None = None, classes: Sequence[Any] | None = None, unsafe_pickle: bool = False
) -> tuple[Any, str]:
    """The model at ``models:/…`` or ``runs:/…``, and its version: what MLflow calls it, and a digest of its file."""
    number, settled = version_of(uri, tracking)
    try:
        from mlflow.artifacts import download_artifacts
    except ImportError as error:
        raise InvalidInput(f"{NEEDED} ({error}).") from error
    with TemporaryDirectory() as place:
        try:
            folder = download_artifacts(artifact_uri=settled, dst_path=place, tracking_uri=tracking)
        except Exception as error:
            raise _refused(uri, error) from error
        model, digest = from_folder(Path(folder), classes, unsafe_pickle, settled, tracking)
    return model, f"{number}-{digest}"


def version_of(uri: str, tracking: str | None = None) -> tuple[str, str]:
    """What MLflow calls this version of the model now, and an address that goes on leading to it."""
    if not uri.startswith(SCHEMES):
        raise InvalidInput(f"A model in MLflow must be at models:/… or runs:/…; got {uri!r}.")
    found = REGISTERED.fullmatch(uri)
    if found is None:
        return uri.split("/")[1], uri
    name, version, alias = found.groups()
    if alias is not None or version == LATEST:
        version = _find_version(uri, name, alias, tracking)
    if not version.isdigit():
        raise InvalidInput(f"A model in MLflow must have a number, an alias or be the latest; got {uri!r}.")
    return version, f"models:/{name}/{version}"


def from_folder(
    folder: Path,
    classes: Sequence[Any] | None = None,
    unsafe_pickle: bool = False,
    uri: str | None = None,
    tracking: str | None = None,
) -> tuple[Any, str]:
    """The model in a folder that MLflow wrote, and a digest of its file.

    MLflow itself opens nothing, unless the model has none of the flavours that are known here and somebody insists.
    """
    whose, flavours = uri or str(folder), _flavours(folder)
    known = [flavour for flavour in FLAVOURS if flavour in flavours]
    if known:
        return _open_model(folder, flavours[known[0]].get(FLAVOURS[known[0]]), known[0], classes, unsafe_pickle)
    if not unsafe_pickle:
        raise InvalidInput(
            f"A model in MLflow must have one of the flavours {', '.join(FLAVOURS)}; {whose} has "
            f"{', '.join(flavours) or 'none'}, which can run any code when it is opened (--unsafe-pickle opens it all "
            "the same)."
        )
    refuse_labels(classes)
    return _any(whose, tracking), sha256(content_of(folder / FILE)).hexdigest()[:VERSION_DIGITS]


def _flavours(folder: Path) -> dict[str, Any]:
    try:
        from yaml import YAMLError, safe_load
    except ImportError as error:
        raise InvalidInput(f"{NEEDED} ({error}).") from error
    if not (folder / FILE).is_file():
        raise InvalidInput(f"A model must be a file, or a folder that MLflow wrote; {folder} has no {FILE} in it.")
    try:
        flavours = safe_load(content_of(folder / FILE))["flavors"]
        return {str(name): dict(about) for name, about in flavours.items()}
    except (YAMLError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidInput(f"{folder / FILE} must list the flavours of a model; it does not.") from error


def _open_model(
    folder: Path, name: Any, flavour: str, classes: Sequence[Any] | None, unsafe_pickle: bool
) -> tuple[Any, str]:
    file = (folder / str(name)).resolve()
    if name is None or not file.is_relative_to(folder.resolve()):
        raise InvalidInput(f"{folder / FILE} must name the model's file in that folder; it names {name!r}.")
    check_kind(file, unsafe_pickle)
    content = content_of(file)
    try:
        return open_content(file, content, classes)
    except InvalidInput:
        if flavour != "onnx":
            raise
        return open_content(file, _in_one(file), classes)


def _in_one(file: Path) -> bytes:
    """An ONNX file together with the numbers that MLflow has put into files beside it."""
    try:
        import onnx
    except ImportError as error:
        raise InvalidInput(f"{file} has its numbers in other files, which needs onnx: pip install onnx.") from error
    try:
        return bytes(onnx.load(file).SerializeToString())
    except Exception as error:
        raise InvalidInput(
            f"The model must be an .onnx file; {file} cannot be opened: {describe_error(error)}."
        ) from error


def _any(uri: str, tracking: str | None) -> Any:
    """A model of any flavour, opened by MLflow. Whatever code it holds runs."""
    import mlflow

    try:
        if tracking is not None:
            mlflow.set_tracking_uri(tracking)
        model = mlflow.pyfunc.load_model(uri)
    except Exception as error:
        raise _refused(uri, error) from error
    takes = model.metadata.get_input_schema()
    if takes is not None and takes.has_input_names():
        model.feature_names_in_ = takes.input_names()
    return predicting(model)


def _find_version(uri: str, name: str, alias: str | None, tracking: str | None) -> str:
    """The number of the version that has this alias now, or of the latest."""
    try:
        from mlflow import MlflowClient
    except ImportError as error:
        raise InvalidInput(f"{NEEDED} ({error}).") from error
    try:
        client = MlflowClient(tracking)
        if alias is not None:
            return str(client.get_model_version_by_alias(name, alias).version)
        known = [int(each.version) for each in client.search_model_versions(f"name='{name}'")]
    except Exception as error:
        raise _refused(uri, error) from error
    if not known:
        raise InvalidInput(f"The model must be one that MLflow has; it has no version of {name!r}.")
    return str(max(known))


def _refused(uri: str, error: Exception) -> InvalidInput:
    return InvalidInput(f"The model must be one that MLflow has; {uri}: {first_line(error)}.")
