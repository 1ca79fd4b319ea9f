"""A torch module as an ONNX model."""

import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import numpy as np

from degroot.exceptions import InvalidInput
from degroot.models.formats import first_line
from degroot.models.onnx import OnnxModel, from_onnx

NEEDED = "A torch module needs extra packages: pip install torch onnxscript"
TRIED = (1, 2, 7)  # rows about which both are asked
ROUNDING = 1e-3  # relative to the largest answer: float32 keeps seven digits, and sums lose some


def from_torch(module: Any, n_features: int) -> OnnxModel:
    """A torch module as a model with ``predict(X)``: exported to ONNX, and run by ONNX Runtime from then on.

    The module takes rows (n, `n_features`) and gives (n,), (n, 1) or (n, Q). For classes it gives the probabilities of
    all classes of the agent, in their order: let it end with a softmax. What it was trained with (dropout and the like)
    is switched off. A collective with such a model can be saved, and the model's file, `content`, can be a node's.

    Examples
    --------
    >>> import torch  # doctest: +SKIP
    >>> model = from_torch(torch.nn.Linear(2, 1), n_features=2)  # doctest: +SKIP
    >>> model.predict([[1.0, 2.0], [3.0, 4.0]]).shape  # doctest: +SKIP
    (2,)
    """
    try:
        import onnxscript  # noqa: F401 - the exporter's own need
        import torch
    except ImportError as error:
        raise InvalidInput(f"{NEEDED} ({error}).") from error
    if not isinstance(module, torch.nn.Module):
        raise InvalidInput(f"The model must be a torch module; got a {type(module).__name__}.")
    if not isinstance(n_features, int) or n_features < 1:
        raise InvalidInput(f"`n_features` must be a whole number of at least 1; got {n_features!r}.")
    try:
        resting = deepcopy(module).cpu().eval()
        kind = next((part.dtype for part in resting.parameters()), torch.float32)
        _check_rows(torch, resting, n_features, kind)
        model = from_onnx(_exported(torch, resting, n_features, kind))
        _check_same(torch, resting, model, n_features, kind)
    except InvalidInput:
        raise
    except Exception as error:
        raise InvalidInput(f"A torch module must be one that torch can export to ONNX; {_cause(error)}.") from error
    return model


def _cause(error: Exception) -> str:
    """What torch's exporter met; its own words are coloured, and about its steps."""
    met = error.__cause__ if isinstance(error.__cause__, Exception) else error
    return re.sub(r"\x1b\[[\d;]*m", "", first_line(met))


def _check_rows(torch: Any, module: Any, n_features: int, kind: Any) -> None:
    """Refuse a module that does not take such rows, or whose answer for a row depends on the rows beside it."""
    X = torch.tensor(np.random.default_rng(0).normal(size=(3, n_features)), dtype=kind)
    try:
        with torch.no_grad():
            together, alone = (module(rows).numpy() for rows in (X, X[:1]))
    except Exception as error:
        raise InvalidInput(f"A torch module must take rows of {n_features} features; {first_line(error)}.") from error
    if together.ndim and alone.shape == together[:1].shape and not _alike(alone, together[:1]):
        raise InvalidInput("A torch module must answer a row alone as among others; it answers otherwise.")


def _exported(torch: Any, module: Any, n_features: int, kind: Any) -> bytes:
    """The module as an ONNX file, for any number of rows."""
    rows = torch.zeros(2, n_features, dtype=kind)
    with _quiet():
        program = torch.onnx.export(module, (rows,), dynamo=True, dynamic_shapes=({0: "rows"},), verbose=False)
    return bytes(program.model_proto.SerializeToString())


def _check_same(torch: Any, module: Any, model: OnnxModel, n_features: int, kind: Any) -> None:
    """Refuse a model that answers otherwise than the module, for one row or several."""
    for count in TRIED:
        X = np.random.default_rng(count).normal(size=(count, n_features))
        with torch.no_grad():
            expected = module(torch.tensor(X, dtype=kind)).numpy()
        if expected.ndim not in (1, 2) or expected.shape[0] != count:
            raise InvalidInput(
                f"A torch module must give (n,) or (n, Q) for n rows; for {count} it gave {expected.shape}."
            )
        answer = model.predict(X).reshape(expected.shape)
        if not _alike(answer, expected):
            raise InvalidInput("A torch module must answer the same as ONNX; it answers otherwise.")


def _alike(answer: Any, expected: Any) -> bool:
    return np.allclose(answer, expected, rtol=ROUNDING, atol=ROUNDING * float(np.abs(expected).max(initial=0.0)))


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what the exporter has to say of itself."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        log.setLevel(level)
