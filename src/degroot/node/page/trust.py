"""Trust over the last questions: who trusts whom, who carries the answers, and who could be dropped."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array
from degroot.exceptions import InvalidInput
from degroot.node.page.encoding import number, numbers
from degroot.node.records.recent import SampledAnswers
from degroot.schema import NUMBER, Schema

CARRIED = 0.5  # above this weight an agent carries an answer
LITTLE = 0.01  # of the answers' spread: less is no change that anybody would notice
FEWEST = 20  # points below which nothing is said of who could be dropped


@dataclass(frozen=True, slots=True)
class Agents:
    """The answers of one roster, put together."""

    names: tuple[str, ...]
    questions: int
    points: Array  # (M, d)
    weights: Array  # (M, K)
    present: NDArray[np.bool_]  # (M, K) who took part
    trust: Array | None  # (K, K) the mean
    change: Array | None  # (K,) mean size of the change without each agent, over the spread of the answers
    influence: Array | None  # (K,) mean size of the change itself, of the first output

    @classmethod
    def of(cls, answers: Sequence[SampledAnswers]) -> "Agents":
        """What the answers come to."""
        points, weights = [each.points for each in answers], _all(answers, "weights")
        trust, influence = _all(answers, "trust"), _all(answers, "influence")
        known = [each for each in answers if "influence" in each.fields]
        return cls(
            answers[-1].names, len(answers), np.concatenate(points), np.concatenate(weights), _present(answers),
            _mean(np.concatenate(trust)) if trust else None,
            *(_changes(influence, _all(known, "value"), _present(known)) if known else (None, None)),
        )  # fmt: skip


def summary(agents: Agents | None, names: Sequence[str]) -> dict[str, Any]:
    """What there is to say of all agents; of `names` where nothing was asked yet."""
    if agents is None:
        return {"questions": 0, "points": 0, "names": list(names), "trust": None, "weights": [], "agents": []}
    weights = agents.weights.mean(axis=0)
    return {
        "questions": agents.questions, "points": len(agents.points), "names": list(agents.names),
        "trust": None if agents.trust is None else numbers(agents.trust), "weights": numbers(weights),
        "agents": [_agent(agents, k, float(weights[k])) for k in range(len(agents.names))],
    }  # fmt: skip


def _agent(agents: Agents, k: int, weight: float) -> dict[str, Any]:
    droppable, why = _droppable(agents, k)
    return {
        "name": agents.names[k], "weight": number(weight),
        "carries": float((agents.weights[:, k] > CARRIED).mean()),
        "influence": None if agents.influence is None else number(agents.influence[k]),
        "trusted_by": None if agents.trust is None else numbers(agents.trust[:, k]),
        "droppable": droppable, "why": why,
    }  # fmt: skip


def _droppable(agents: Agents, k: int) -> tuple[bool, str]:
    """Whether the answers would hardly be others without an agent, and why that is said."""
    count = int(agents.present[:, k].sum())
    if not count:
        return False, "it did not take part"
    if count < FEWEST:
        return False, f"too few points to say: {count} of {FEWEST}"
    if agents.change is None or not np.isfinite(agents.change[k]):
        return False, "what the answers would be without it is not known"
    size = f"{100.0 * agents.change[k]:.2g} % of how much they vary"
    if agents.change[k] <= LITTLE:
        return True, f"without it the answers would change by {size}, on average"
    return False, f"without it the answers would change by {size}"


def _all(answers: Sequence[SampledAnswers], name: str) -> list[Array]:
    """A field of all answers in which it is known."""
    return [each.fields[name] for each in answers if name in each.fields]


def _present(answers: Sequence[SampledAnswers]) -> NDArray[np.bool_]:
    """Who took part, at each point."""
    rows = [np.tile([name not in each.missing for name in each.names], (len(each.points), 1)) for each in answers]
    return np.concatenate(rows)


def _mean(known: Array) -> Array:
    """The mean over points of what is a number there; NaN where nothing is."""
    there = np.isfinite(known)
    counts = there.sum(axis=0)
    sums = np.where(there, known, 0.0).sum(axis=0)
    mean: Array = np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
    return mean


def _changes(influence: Sequence[Array], value: Sequence[Array], present: NDArray[np.bool_]) -> tuple[Array, Array]:
    """How much the answers change without each agent, (K,): over their spread, and of the first output as it is.

    Where an agent takes part; where it is alone there is no answer without it.
    """
    size = _mean(np.where(present[..., None], np.abs(np.concatenate(influence)), np.nan))  # (K, Q)
    spread = np.concatenate(value).std(axis=0)
    change = np.divide(size, spread, out=np.full(size.shape, np.nan), where=spread > 0.0)
    return change.max(axis=1), size[:, 0]


CELLS = (1, 20)


def regions(
    agents: Agents | None, features: Sequence[str], x: str, y: str, cells: int, schema: Schema | None = None
) -> dict[str, Any] | None:
    """Mean weights in cells between edges that have about equally many points between them, or in one for each value.

    Empty cells are left out. By the schema, edges of categories and dates have texts, and those of numbers a unit.
    """
    for what, name in (("x", x), ("y", y)):
        if name not in features:
            raise InvalidInput(f"`{what}` must be a feature of the collective; got {name[:100]!r}.")
    if agents is None:
        return None
    values = [agents.points[:, features.index(name)] for name in (x, y)]
    known = np.isfinite(values).all(axis=0)  # gaps have no place
    values, weights = [each[known] for each in values], agents.weights[known]
    if not len(weights):
        return None
    edges = [_edges(each, cells) for each in values]
    places = np.stack([_places(*each) for each in zip(values, edges, strict=True)], axis=1)
    pairs, cell = np.unique(places, axis=0, return_inverse=True)
    found = []
    for k, (ix, iy) in enumerate(pairs.tolist()):
        inside = weights[cell == k]
        mean = inside.mean(axis=0)
        top = agents.names[int(mean.argmax())]
        found.append({"ix": ix, "iy": iy, "points": len(inside), "weights": numbers(mean), "top": top})
    return {
        **_describe_axis("x", x, values[0], edges[0], schema), **_describe_axis("y", y, values[1], edges[1], schema),
        "cells": found,
    }  # fmt: skip


def _describe_axis(axis: str, name: str, values: Array, edges: Array, schema: Schema | None) -> dict[str, Any]:
    """One axis of the plane, its keys beginning with `axis`.

    `texts`: the first and the last value of each cell as people read them; None: they are numbers.
    """
    column = None if schema is None else schema.columns[schema.names.index(name)]
    texts = None
    if column is not None and column.kind != NUMBER:
        places = _places(values, edges)
        inside = [values[places == k] for k in range(len(edges) - 1)]
        texts = [[column.format(float(each.min())), column.format(float(each.max()))] for each in inside]
    return {
        axis: name, f"{axis}_edges": numbers(edges), f"{axis}_values": _single(values, edges),
        f"{axis}_texts": texts, f"{axis}_unit": "" if column is None else column.unit,
    }  # fmt: skip


def _edges(values: Array, cells: int) -> Array:
    """Where cells begin, and the largest value: a cell for each value if few; fewer cells where many are alike."""
    distinct, counts = np.unique(values, return_counts=True)
    starts: Array = distinct
    if len(distinct) > cells:
        below = np.cumsum(counts) - counts
        first = np.unique(np.searchsorted(below, np.arange(cells) * len(values) / cells))
        starts = distinct[first[first < len(distinct)]]
    return np.append(starts, distinct[-1])


def _places(values: Array, edges: Array) -> NDArray[np.intp]:
    """Between which edges each value is."""
    return np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)


def _single(values: Array, edges: Array) -> bool:
    """Whether each cell holds one value."""
    return len(np.unique(values)) == len(edges) - 1
