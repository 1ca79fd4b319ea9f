"""Agents that a file lists by hand: where the model is, where the rows are, and what their columns mean."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from degroot import models
from degroot.agents.agent import try_model
from degroot.exceptions import AgentError, InvalidInput
from degroot.files.npy import mapped
from degroot.files.source import PEERS, STANDARDISE, data_source
from degroot.files.toml import Table
from degroot.saved.agents import FiledAgent
from degroot.saved.document import Document

SHARED = ("target", "classes", "schema")  # which the top may say for all agents
COLUMNS = ("target", "own_predictions", "units", "site", "absent")


def listed_agent(document: Document, entry: Table, features: Sequence[str] | None) -> FiledAgent:
    """The agent with the rows in its files; `features`: those of the first agent."""
    name, space = entry.text("name"), document.space(entry)
    gaps = space is not None and entry.text("space") != STANDARDISE
    mapped_rows = "rows" in entry.entries
    X, y, own, names, units = _arrays(document, entry, features) if mapped_rows else _columns(document, entry, gaps)
    if features is not None and tuple(features) != names:
        X, names = _in_order(X, names, features, entry)
    try:
        model, form = document.model(entry)
        if form is None:
            models.check_features(model, names)
    except InvalidInput as error:
        raise AgentError(name, str(error)) from error
    agent = FiledAgent(
        model, X, y, name, names, form=form, space=space, own_predictions=own, classes=document.classes, units=units,
        schema=document.schema,
    )  # fmt: skip
    try_model(agent)
    return agent


def _columns(document: Document, entry: Table, gaps: bool) -> tuple[Any, Any, Any, tuple[str, ...], Any]:
    """Rows, labels, own predictions, the names of the features and the units in a data file."""
    from degroot.files.rows import load

    top = document.top.entries
    shared = {key: top[key] for key in SHARED if key in top}
    described = {key: value for key, value in entry.entries.items() if key in ("data", *COLUMNS)}
    source = data_source(replace(entry, entries=shared | described), "data")
    rows = load(source, document.features, gaps=gaps)
    return rows.X, rows.y, rows.own, rows.names, rows.units


def _arrays(
    document: Document, entry: Table, features: Sequence[str] | None
) -> tuple[Any, Any, Any, tuple[str, ...], Any]:
    """The same, from .npy files, which are mapped into memory. Their columns are the features of the first agent."""
    for key in ("data", "target", "site"):
        if key in entry.entries:
            raise InvalidInput(f"{entry.what(key)} must not stand beside `rows`, which come with `labels`; it does.")
    X, y = mapped(entry.file("rows")), mapped(entry.file("labels"))
    own: Any = entry.given("own_predictions", entry.text, None)
    if own is not None and own != PEERS:
        own = mapped(entry.file("own_predictions"))
    width = X.shape[1] if X.ndim == 2 else 0
    names = document.features or tuple(features or (f"x{k}" for k in range(width)))
    if len(names) != width:
        raise InvalidInput(
            f"{entry.what('rows')} must have {len(names)} columns, one a feature; its shape is {X.shape}."
        )
    units = entry.given("units", lambda key: mapped(entry.file(key)), None)
    return X, y, own, names, units


def _in_order(X: Any, names: Sequence[str], features: Sequence[str], entry: Table) -> tuple[Any, tuple[str, ...]]:
    """The rows with these features in this order."""
    others = set(names).symmetric_difference(features)
    if others:
        name = min(others)
        raise InvalidInput(
            f"{entry.what('data')} must have the features of the first agent, or `features` at the top must say which "
            f"count; only {'this agent' if name in names else 'the first'} has {name!r}."
        )
    return np.ascontiguousarray(X[:, [names.index(name) for name in features]]), tuple(features)
