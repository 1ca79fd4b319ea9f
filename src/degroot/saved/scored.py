"""Agents of a saved collective, with what they have scored: mapped, not read."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array
from degroot.consensus.sparse.sample_peers import sample_peers
from degroot.exceptions import InvalidInput
from degroot.files.npy import check_shape, mapped, mapped_table
from degroot.files.source import PEERS
from degroot.files.toml import Table
from degroot.saved.agents import SavedAgent, StoredScores
from degroot.saved.document import LABELS, Document

NUMBERS, FLOATS = "fiub", "f"
METRIC = "euclidean"  # where the file names none


def scored_agent(document: Document, place: int, source: Callable[[], Any]) -> SavedAgent:
    """The agent at this place as it was saved; `source` gives it again, with its scorer, in another process."""
    entry, features = document.agents[place], document.features
    if features is None:
        raise document.top.refusal("features", "be there, where agents have scored models")
    X = _table(entry, "rows", len(features), NUMBERS)
    y = _matching(entry, "labels", X.shape[0])
    space = document.space(entry)
    own = entry.given("own_predictions", entry.text, None)
    model, form = document.model(entry)
    return SavedAgent(
        model, X, y, entry.text("name"), features, space=space,
        own_predictions=own if own in (None, PEERS) else _matching(entry, "own_predictions", X.shape[0]),
        classes=document.classes, units=_units(entry, X.shape[0]), scores=_scores(document, place, X, y, source, space),
        schema=document.schema, has_agreed_schema=document.has_agreed_schema, form=form, lacks=_lacks(entry, features),
    )  # fmt: skip


def places_scored(document: Document, place: int) -> list[int]:
    """The places of the agents whose models it has scored."""
    K, entry = len(document.agents), document.agents[place]

    def fits(value: Any) -> bool:
        return isinstance(value, list) and all(isinstance(each, int) and 0 <= each < K for each in value)

    return list(entry.given("scored", lambda key: entry.take(key, fits, f"be places of {K} agents"), range(K)))


def check_scored(document: Document, degree: int | None) -> None:
    """Refuse scores of other models than a collective with this degree will ask for: all would be scored again."""
    K = len(document.agents)
    expected = np.tile(np.arange(K), (K, 1)) if degree is None else sample_peers(K, degree)
    for place, entry in enumerate(document.agents):
        if places_scored(document, place) != expected[place].tolist():
            drawn = "all" if degree is None else f"those that this version of degroot and numpy draws for {degree=}"
            raise InvalidInput(
                f"{entry.what('scored')} must be {drawn}; they are others: make the collective anew, and save it."
            )


def _scores(document: Document, place: int, X: Any, y: Array, source: Callable[[], Any], space: Any) -> StoredScores:
    n, outputs = X.shape[0], y.shape[1] if y.ndim == 2 else 1
    entry, scored = document.agents[place], len(places_scored(document, place))
    residuals, errors = mapped(entry.file("residuals")), mapped(entry.file("errors"))
    check_shape(entry.file("residuals"), residuals, (n, outputs, scored))
    check_shape(entry.file("errors"), errors, (n, scored))
    rows = X
    if "located" in entry.entries:
        rows = _table(entry, "located", entry.whole("located_features"), FLOATS, n)
    shared = document.space(entry, "shared_space")
    metric = document.top.entries.get("metric", METRIC)
    return StoredScores(
        space if shared is None else shared, rows, metric, residuals, errors, _kept(entry), source,
        _unscored(entry, scored),
    )  # fmt: skip


def _lacks(entry: Table, features: Sequence[str]) -> NDArray[np.bool_] | None:
    """The columns that the agent does not have, (d,)."""
    return entry.given("absent", lambda key: np.isin(features, entry.texts(key, features)), None)


def _unscored(entry: Table, scored: int) -> NDArray[np.bool_] | None:
    """The models that it could not score, among those that it was asked to."""

    def fits(value: Any) -> bool:
        return isinstance(value, list) and all(isinstance(each, int) and 0 <= each < scored for each in value)

    if "unscored" not in entry.entries:
        return None
    return np.isin(np.arange(scored), entry.take("unscored", fits, f"be places among {scored} models"))


def _kept(entry: Table) -> dict[str, NDArray[Any]]:
    """What neighbourhoods need not make anew."""
    if "kept" not in entry.entries:
        return {}
    told = entry.take("kept", lambda value: isinstance(value, dict), "be a table of files")
    files = replace(entry, entries=told, place=f"{entry.place}.kept")
    return {name: mapped(files.file(name)) for name in told}


def _matching(entry: Table, key: str, n: int) -> Array:
    """One number, or several, for each of n rows."""
    values = mapped(entry.file(key))
    check_shape(entry.file(key), values, (n, None) if values.ndim == 2 else (n,))
    return values


def _units(entry: Table, n: int) -> NDArray[Any] | None:
    """A label for each of n rows, where there are any."""
    if "units" not in entry.entries:
        return None
    units = mapped(entry.file("units"))
    check_shape(entry.file("units"), units, (n,), LABELS)
    return units


def _table(entry: Table, key: str, width: int, kinds: str, n: int | None = None) -> Any:
    paths = [entry.path.absolute().parent / name for name in entry.texts(key)]
    table = mapped_table(paths, width)
    check_shape(paths[0], table, (n, width), kinds)
    return table
