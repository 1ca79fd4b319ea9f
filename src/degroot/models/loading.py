"""A model by the name that a person types: a file, a folder, or an address."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from degroot.exceptions import InvalidInput
from degroot.files.addresses import split
from degroot.models.opening import load
from degroot.models.source import SCHEME, SCHEMES, ModelSource

NEEDED = "Models in files need extra packages: pip install 'degroot[batch]'"
NEEDED_AT_ADDRESS = "Models at an address need extra packages: pip install 'degroot[node]'"


def load_model(source: str | Path, *, classes: Sequence[Any] | None = None, unsafe_pickle: bool = False) -> Any:
    """A trained model from where it is kept: something with ``predict(X)``, and ``predict_proba(X)`` for classes.

    No code of the model's own runs when it is opened.

    Parameters
    ----------
    source : str or path
        A file of ONNX (``.onnx``), skops (``.skops``), XGBoost (``.ubj``, ``.json``, ``.xgb``) or LightGBM (``.txt``,
        ``.lgb``); a model in MLflow, ``"models:/name/3"``, ``"models:/name@alias"``, ``"runs:/id/name"``, or the folder
        that MLflow wrote; or a model that is served, ``"grpc://host:port/name"``.
    classes : labels, optional
        Of a classifier in a file of XGBoost or LightGBM, which knows its classes by number only: the labels in the
        order of the numbers. By default the numbers 0, 1, ….
    unsafe_pickle : bool
        Whether to open pickles too, which can run any code.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import skops.io
    >>> from sklearn.linear_model import LinearRegression
    >>> from degroot import Agent, load_model
    >>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array([0.0, 2.0, 4.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     skops.io.dump(LinearRegression().fit(X, y), f"{folder}/north.skops")
    ...     north = Agent(load_model(f"{folder}/north.skops"), X, y, "north")
    >>> north.predict(np.array([[5.0]])).round(6)
    array([10.])
    """
    where = locate_model(source)
    if classes is not None:
        where = replace(where, classes=tuple(classes))
    return load(where, unsafe_pickle, NEEDED if where.address is None else NEEDED_AT_ADDRESS)[0]


def is_address(text: str) -> bool:
    """Whether this is an address, not a file."""
    return text.startswith((SCHEME, *SCHEMES))


def locate_model(source: str | Path) -> ModelSource:
    """Where a model with this name is."""
    if not isinstance(source, str | Path) or not str(source):
        raise InvalidInput(f"A model must be a file, a folder or an address; got {source!r}.")
    text = str(source)
    if text.startswith(SCHEMES):
        return ModelSource(uri=text)
    if not text.startswith(SCHEME):
        return ModelSource(file=Path(source).expanduser())
    address, _, name = text.removeprefix(SCHEME).partition("/")
    if not name:
        raise InvalidInput(f'A served model must be "{SCHEME}host:port/name"; got {text!r}.')
    split(address, "The address of a served model")
    return ModelSource(address=address, name=name)
