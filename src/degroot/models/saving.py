"""Models and transformers as files that run no code when they are opened: skops, or the file they came from."""

import json
from collections.abc import Callable
from contextlib import suppress
from io import BytesIO
from pathlib import PurePosixPath
from typing import Any
from zipfile import ZipFile, ZipInfo

import numpy as np

from degroot.compute.tables import is_frame, is_sparse
from degroot.exceptions import InvalidInput, describe_error
from degroot.files.npy import one_at_a_time
from degroot.models.by_schema import SchemaModel
from degroot.models.formats import first_line
from degroot.models.lightgbm import LightGBMModel
from degroot.models.onnx import OnnxModel
from degroot.models.skops import Framed, from_skops, opened, transformer_from_skops
from degroot.models.xgboost import XGBoostModel
from degroot.schema.frames import is_mixed
from degroot.schema.space import SchemaSpace

SCHEMA, ID, FILE = "schema.json", "__id__", "file"
TREES, COUNTS = ("KDTree", "BallTree"), range(7, 11)  # which count what they were asked and met, there in their state
SKOPS = ".skops"
MODELS = "its model must be an estimator of scikit-learn, from a file, or at an address, to be saved"
SPACES = "its `space` must be a transformer of scikit-learn, to be saved"


def model_file(model: Any, rows: Any) -> tuple[bytes, str]:
    """The file of a model, and how its name ends. Opened again, it says the same of `rows`, bit by bit.

    `rows` are in the form that the model takes; a `SchemaModel` is asked with numbers, and what it asks is in the file.
    """
    if isinstance(model, SchemaModel):
        return model_file(model.model, model.rows.restore(rows))
    if isinstance(model, OnnxModel | LightGBMModel | XGBoostModel):
        return model.content, model.suffix
    content = _dump(model, MODELS)
    again = from_skops(content)
    for name in ("predict_proba", "predict"):
        if hasattr(model, name):
            _check_same(getattr(model, name), getattr(again, name), rows, MODELS)
    return content, SKOPS


def file_labels(model: Any) -> list[Any] | None:
    """The labels that have to be told beside the model's file, which knows its classes by number only."""
    file = model.model if isinstance(model, SchemaModel) else model
    given = getattr(file, "classes", None) if isinstance(file, LightGBMModel | XGBoostModel) else None
    return None if given is None else np.asarray(given).tolist()


def transformer_file(space: Any, rows: Any) -> bytes:
    """The skops file of a transformer. Opened again, it takes `rows` to the same place, if it has been fitted."""
    from sklearn.exceptions import NotFittedError

    content = _dump(space, SPACES)
    if isinstance(space, SchemaSpace) and not space.is_fitted:
        return content
    with suppress(NotFittedError):  # it will be, on its agent's rows
        _check_same(space.transform, transformer_from_skops(content).transform, rows, SPACES)
    return content


def steady(content: bytes) -> bytes:
    """A skops file with the same things, whenever and wherever in memory it was written.

    skops names things by their place in memory, and the archive has dates. Here they are numbered as they come.
    """
    numbers: dict[Any, int] = {}
    files: dict[str, str] = {}

    def renamed(node: Any) -> Any:
        if isinstance(node, list):
            return [renamed(each) for each in node]
        if not isinstance(node, dict):
            return node
        known = _uncounted(node) if node.get("__class__") in TREES else dict(node)
        if ID in known:  # equal numbers and texts may be one in memory, or several
            alone = known.get("is_json") or known.get("__loader__") == "TypeNode"
            known[ID] = numbers.setdefault((len(numbers),) if alone else known[ID], len(numbers))
        if isinstance(known.get(FILE), str):
            file = known[FILE]
            known[FILE] = files.setdefault(file, f"{len(files)}{PurePosixPath(file).suffix}")
        return {key: renamed(value) for key, value in known.items()}

    archive, out = ZipFile(BytesIO(content)), BytesIO()
    schema = renamed(json.loads(archive.read(SCHEMA)))
    with ZipFile(out, "w") as kept:
        for old, new in files.items():
            kept.writestr(ZipInfo(new), _without_gaps(archive.read(old), new))
        kept.writestr(ZipInfo(SCHEMA), json.dumps(schema))
    return out.getvalue()


def _uncounted(tree: dict[str, Any]) -> dict[str, Any]:
    state = tree["content"]
    parts = [part | {"content": "0"} if k in COUNTS else part for k, part in enumerate(state["content"])]
    return tree | {"content": state | {"content": parts}}


def _without_gaps(content: bytes, name: str) -> bytes:
    """The same file; if it is an array of records, with zeros in the bytes between their fields."""
    with one_at_a_time:
        array = np.load(BytesIO(content), allow_pickle=False) if name.endswith(".npy") else np.empty(0)
    if array.dtype.names is None:
        return content
    covered = np.zeros(array.dtype.itemsize, bool)
    for kind, start in (entry[:2] for entry in (array.dtype.fields or {}).values()):
        covered[start : start + kind.itemsize] = True
    header = len(content) - array.nbytes
    records = np.frombuffer(content, np.uint8, offset=header).reshape(array.size, -1)
    return content[:header] + np.where(covered, records, np.uint8(0)).tobytes()


def _dump(thing: Any, requirement: str) -> bytes:
    from sklearn.base import BaseEstimator
    from skops.io import dumps

    inner = thing.model if isinstance(thing, Framed) else thing
    if not isinstance(inner, BaseEstimator | SchemaSpace):
        raise InvalidInput(f"{requirement}; it is {_kind(inner)}.")
    try:
        return steady(dumps(opened(steady(dumps(inner)))))  # what was read once is written alike ever after
    except InvalidInput as error:
        raise InvalidInput(f"{requirement}; of {_kind(inner)}{_name_part(inner)}, {error}") from error
    except Exception as error:
        what = f"{_kind(inner)}{_name_part(inner)} cannot be written"
        raise InvalidInput(f"{requirement}; {what}: {describe_error(error)}.") from error


def _name_part(thing: Any) -> str:
    """The step of a pipeline, or of what has steps inside, that cannot be written, in words; empty for others."""
    for kind in ("steps", "transformers_", "transformers", "estimators"):
        for name, part, *_ in getattr(thing, kind, None) or ():
            if hasattr(part, "get_params") and not _can_be_written(part):
                return _name_part(part) or f", in its step {name!r} ({_kind(part)})"
    return ""


def _can_be_written(part: Any) -> bool:
    from skops.io import dumps

    try:
        opened(dumps(part))
    except Exception:  # whatever it is, the whole has it too
        return False
    return True


def _check_same(before: Callable[[Any], Any], after: Callable[[Any], Any], rows: Any, requirement: str) -> None:
    plain = is_frame(rows) and not is_mixed(rows)  # which models from files get as arrays
    expected = before(rows)
    try:
        again = after(np.asarray(rows) if plain else rows)
    except Exception as error:
        raise InvalidInput(f"{requirement}; once saved and opened again, it raised {first_line(error)}.") from error
    if not _are_same(expected, again):
        raise InvalidInput(f"{requirement}; once saved and opened again, it answers otherwise.")


def _are_same(answer: Any, other: Any) -> bool:
    if is_sparse(answer):
        return is_sparse(other) and _are_same(answer.toarray(), other.toarray())
    one, two = np.asarray(answer), np.asarray(other)
    return one.dtype == two.dtype and np.array_equal(one, two, equal_nan=one.dtype.kind == "f")


def _kind(thing: Any) -> str:
    return "a function" if callable(thing) and hasattr(thing, "__name__") else f"a {type(thing).__name__}"
