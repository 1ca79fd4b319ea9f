"""Agents that a file lists: where the model is, where the rows are, and what their columns mean."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from degroot import models
from degroot.exceptions import InvalidInput
from degroot.models import ModelSource
from degroot.saved.agents import FiledAgent
from degroot.saved.spaces import NEEDED, STANDARDISE, space_of
from degroot.tomlfile import Table

MODEL = ("file", "address", "name", "version", "ca", "certificate", "key")
ENTRY = ("name", "model", "data", "target", "own_predictions", "space")


def agent_of(entry: Table, top: Table, features: Sequence[str] | None, unsafe_pickle: bool) -> FiledAgent:
    """The agent with the rows in its data file; `features`: those of the first agent."""
    name, space = entry.text("name"), entry.given("space", lambda key: space_of(entry, key), None)
    rows, classes = _rows_of(entry, top, features, gaps=space is not None and entry.text("space") != STANDARDISE)
    model = model_of(entry, unsafe_pickle)
    models.check_features(model, rows.names)
    agent = FiledAgent(
        model, rows.X, rows.y, name, rows.names, space=space, own_predictions=rows.own, classes=classes
    )  # fmt: skip
    agent.predict(agent.X[:1])  # a model that does not fit the rows is found here
    return agent


def model_of(entry: Table, unsafe_pickle: bool) -> Any:
    """The model: a file, or a table with a file or an address."""
    if isinstance(entry.entries.get("model"), dict):
        source = models.model_source(entry.table("model", MODEL))
    else:
        source = ModelSource(file=entry.file("model"))
    return models.load(source, unsafe_pickle=unsafe_pickle, needed=NEEDED)[0]


def _rows_of(entry: Table, top: Table, features: Sequence[str] | None, gaps: bool) -> tuple[Any, Any]:
    """Rows, labels and own predictions in the data file, and the classes if labels are classes."""
    try:
        from degroot import datafiles
    except ImportError as error:
        raise InvalidInput(f"{NEEDED} ({error}).") from error
    shared = {key: top.entries[key] for key in ("target", "classes") if key in top.entries}
    described = {key: value for key, value in entry.entries.items() if key != "space"}
    source = datafiles.data_source(replace(entry, entries=shared | described), "data")
    rows = datafiles.load(source, top.given("features", top.texts, None), gaps=gaps)
    if features is not None:
        rows = _in_order(rows, features, entry)
    return rows, None if source.classes is None else np.array(source.classes)


def _in_order(rows: Any, features: Sequence[str], entry: Table) -> Any:
    """The same rows with the features in this order."""
    others = set(rows.names).symmetric_difference(features)
    if others:
        name = min(others)
        raise InvalidInput(
            f"{entry.what('data')} must have the features of the first agent, or `features` at the top must say which "
            f"count; only {'this one' if name in rows.names else 'the first'} has {name!r}."
        )
    order = [rows.names.index(name) for name in features]
    return replace(rows, X=np.ascontiguousarray(rows.X[:, order]), names=tuple(features))
