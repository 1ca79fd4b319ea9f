"""Models from ONNX files."""

import os
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.exceptions import InvalidInput
from degroot.models.onnx_graph import check_no_external_data, find_labels

INPUTS = {
    "tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16,
    "tensor(int32)": np.int32, "tensor(int64)": np.int64,
}  # fmt: skip
FLOATS = ("tensor(float)", "tensor(double)", "tensor(float16)")
MAPS = "seq(map("
ZIP_MAPS = "Probabilities as maps (`zipmap`, the default of skl2onnx) come with their labels."
QUIET = 3  # errors only


class OnnxModel:
    """A model that gives numbers, or labels only."""

    suffix = ".onnx"

    def __init__(self, session: Any, content: bytes) -> None:
        self.session = session
        self.content = content  # the file
        self.inputs = session.get_inputs()
        self._fed = [(entry.name, INPUTS[entry.type]) for entry in self.inputs]
        self.outputs = [output.name for output in session.get_outputs()]

    def __reduce__(self) -> tuple[Callable[[bytes], "OnnxModel"], tuple[bytes]]:
        return from_onnx, (self.content,)

    @cached_property
    def n_features_in_(self) -> int | None:
        """How many features it takes, if it says so."""
        if len(self.inputs) > 1:
            return len(self.inputs)
        width = self.inputs[0].shape[-1] if self.inputs[0].shape else None
        return width if isinstance(width, int) else None

    @property
    def feature_names_in_(self) -> list[str] | None:
        """The names of the features, if each is an input of its own."""
        return [entry.name for entry in self.inputs] if len(self.inputs) > 1 else None

    def predict(self, X: Any) -> NDArray[Any]:
        """What the model says of each row: (n,), or (n, Q) for several outputs."""
        return _without_single_column(np.asarray(self.run(X, self.outputs[:1])[0]))

    def run(self, X: Any, outputs: list[str]) -> list[Any]:
        """These outputs for the rows `X`."""
        rows, takes = np.asarray(X), self.n_features_in_
        if takes is not None and rows.shape[1] != takes:
            raise InvalidInput(f"The model takes {takes} features; the rows have {rows.shape[1]}.")
        if len(self._fed) == 1:
            ((name, kind),) = self._fed
            fed = {name: np.ascontiguousarray(rows, dtype=kind)}
        else:
            fed = {name: np.ascontiguousarray(rows[:, [k]], dtype=kind) for k, (name, kind) in enumerate(self._fed)}
        answer: list[Any] = self.session.run(outputs, fed)
        return answer


class OnnxClassifier(OnnxModel):
    """A classifier: labels first, then probabilities, as an array, a column for each class or maps."""

    def __init__(self, session: Any, content: bytes, classes: NDArray[Any]) -> None:
        super().__init__(session, content)
        self.classes_ = classes

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """The probability of each of `classes_`, (n, Q)."""
        labels, *told = self.run(X, self.outputs)
        known: list[Any] = self.classes_.tolist()
        strange = set(np.asarray(labels).tolist()).difference(known)
        if strange:  # what stands in the file are the labels of one of its parts
            raise InvalidInput(f"A classifier must give labels among {known}; it gave {strange.pop()!r}. {ZIP_MAPS}")
        if isinstance(told[0], list):
            return np.array([[row[label] for label in known] for row in told[0]], dtype=np.float64)
        return np.column_stack(told)


def from_onnx(content: bytes) -> OnnxModel:
    """The model in an ONNX file; no code of its own runs, and no other file is read."""
    check_no_external_data(content)
    session = open_session(content)
    kinds = [output.type for output in session.get_outputs()]
    if kinds[0].startswith(MAPS):
        raise InvalidInput("the model must give numbers or labels first; its first output holds maps.")
    if kinds[0] in FLOATS or not kinds[1:] or not all(kind.startswith((*FLOATS, MAPS)) for kind in kinds[1:]):
        return OnnxModel(session, content)
    labels = str if kinds[0] == "tensor(string)" else int
    return OnnxClassifier(session, content, _classes(content, session.get_outputs()[1:], labels))


def open_session(content: bytes) -> Any:
    """A session of onnxruntime with this file, which takes numbers."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # from 1.29 on it would tell its maker of models
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = QUIET
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # threads that wait leave the cores alone
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    _check_inputs(session.get_inputs())
    return session


def _check_inputs(inputs: list[Any]) -> None:
    for entry in inputs:
        if entry.type not in INPUTS:
            raise InvalidInput(f"the model must take numbers; its input {entry.name!r} takes {entry.type}.")
    if len(inputs) != 1 and not all(len(entry.shape) == 2 and entry.shape[1] == 1 for entry in inputs):
        raise InvalidInput(
            f"the model must take one table of numbers or one column for each feature; it has {len(inputs)} inputs, "
            f"of shapes {', '.join(str(entry.shape) for entry in inputs)}."
        )


def _classes(content: bytes, outputs: list[Any], kind: type) -> NDArray[Any]:
    """The labels that the probabilities belong to."""
    width = len(outputs) if len(outputs) > 1 else outputs[0].shape[-1] if outputs[0].shape else None
    labels = find_labels(content, kind, width if isinstance(width, int) else None)
    if labels is None:
        raise InvalidInput(f"a classifier must tell its labels; none stand in the file. {ZIP_MAPS}")
    return np.array(labels)


def _without_single_column(answer: NDArray[Any]) -> NDArray[Any]:
    return answer[:, 0] if answer.ndim == 2 and answer.shape[1] == 1 else answer
