"""Rows of an answer: a page of them in some order, and one with all that lies behind it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.answers.answer import Consensus
from degroot.answers.flags import MISSING, Flag
from degroot.compute.compiled import Array
from degroot.consensus.dense import trace_pooling
from degroot.exceptions import InvalidInput
from degroot.node.page.answers import Answer
from degroot.node.page.encoding import numbers
from degroot.node.page.fields import format_points

SORTS = ("i", "value", "standard_error", "width", "flags")


def order_rows(answer: Answer, sort: str) -> NDArray[np.intp]:
    """The numbers of the rows by `sort`, with a minus the other way round; those without a value come last."""
    name = sort.removeprefix("-")
    if name not in SORTS:
        raise InvalidInput(f"`sort` must be one of {', '.join(SORTS)}, with a minus or without; got {sort[:100]!r}.")
    keys = _keys(answer, name)
    return np.argsort(-keys if sort.startswith("-") else keys, kind="stable")


def _keys(answer: Answer, name: str) -> Array:
    """What rows are sorted by, (M,); the same for all where it is not known."""
    if name == "i":
        return np.arange(len(answer.points), dtype=np.float64)
    if name == "flags":
        return _order_flags(answer)
    known = _width(answer) if name == "width" else getattr(answer.front, name)
    if known is None:
        return np.zeros(len(answer.points))
    largest = name == "value" and bool(answer.classes)
    keys: Array = known if known.ndim == 1 else known.max(axis=1) if largest else known[:, 0]
    return keys


def _order_flags(answer: Answer) -> Array:
    """Minus how many flags there are: rows with most come first."""
    counts = np.zeros(len(answer.points))
    for flag in answer.front.flags:
        np.subtract.at(counts, flag.points, 1.0)
    return counts


def _width(answer: Answer) -> Array | None:
    """Of intervals, or how many classes sets have."""
    front = answer.front
    if front.sets is not None:
        return np.asarray(front.sets.sum(axis=1), np.float64)
    return None if front.lower is None or front.upper is None else front.upper - front.lower


AGREED = 1e-6  # how far apart beliefs may be in the end, over how far apart they were at first
POOLED = "degroot"  # the rule whose answer is what pooling in rounds comes to


def rounds_of(answer: Answer, i: int, here: Sequence[bool]) -> list[list[Any]] | None:
    r"""What every agent believes, round by round, :math:`p \leftarrow T p`, until all agree; None where nobody knows.

    `here`: which agents take part; the others believe nothing.
    """
    consensus, members = answer.consensus, np.flatnonzero(here)
    if consensus is None or consensus.trust is None or consensus.beliefs is None:
        return None
    trust, beliefs = consensus.trust, consensus.beliefs
    if answer.rule != POOLED or not len(members):
        return None
    shares, told = trust[i][np.ix_(members, members)], beliefs[i, members]
    with np.errstate(invalid="ignore"):  # who trusts no member
        shares = shares / shares.sum(axis=1, keepdims=True)
    if not (np.isfinite(shares).all() and np.isfinite(told).all()):
        return None
    path = trace_pooling(shares, told.T, AGREED)
    return [_spread(each.T, members, len(here)) for each in path]


def _spread(beliefs: Array, members: NDArray[np.intp], K: int) -> list[Any]:
    """A place for everybody."""
    told: list[Any] = [None] * K
    for k, belief in zip(members.tolist(), beliefs, strict=True):
        told[k] = numbers(belief)
    return told


OF_ROWS = ("value", "standard_error", "lower", "upper")
SHOWN = 20_000  # numbers of points at once


def page(answer: Answer, offset: int, limit: int, sort: str) -> dict[str, Any]:
    """So many rows from a place on, by `sort`; with a minus the other way round."""
    places = order_rows(answer, sort)
    limit = min(limit, max(1, SHOWN // answer.points.shape[1]))
    chosen = places[offset : offset + limit].tolist()
    flags = _flags(answer, chosen)
    points = format_points(answer.points[chosen], answer.schema)
    rows = [_row(answer, i, flags[i]) | {"point": point} for i, point in zip(chosen, points, strict=True)]
    return {"total": len(places), "rows": rows}


def describe_row(answer: Answer, i: int) -> dict[str, Any]:
    """One row: the value and what else is said, everybody's part in it, who trusts whom, and pooling in rounds."""
    if not 0 <= i < len(answer.points):
        raise InvalidInput(f"The row must be one of {len(answer.points)}; got {i}.")
    target = None if answer.schema is None else answer.schema.target
    explained, flags = answer.front.explain(i, target=target), _flags(answer, [i])[i]
    return _row(answer, i, flags) | {
        "point": dict(zip(answer.features, format_points(answer.points[[i]], answer.schema)[0], strict=True)),
        "coverage": answer.terms.coverage,
        "views": {
            "own": _describe_row(answer, answer.view, i),
            "consensus": _describe_row(answer, answer.consensus, i),
        },
        "agents": [_agent(answer.front, i, k, told, flags) for k, told in enumerate(explained.facts["agents"])],
        **_pooling(answer, i),
        "text": explained.text,
    }


def _pooling(answer: Answer, i: int) -> dict[str, Any]:
    """Who trusts whom in the consensus, and how the agents come to agree; None where that is not known."""
    consensus = answer.consensus
    if consensus is None or consensus.trust is None or consensus.names != answer.front.names:
        return {"trust": None, "rounds": None}
    here = [told["missing"] is None and not told["left_out"] for told in consensus.explain(i).facts["agents"]]
    return {"trust": numbers(consensus.trust[i]), "rounds": rounds_of(answer, i, here)}


def _describe_row(answer: Answer, consensus: Consensus | None, i: int) -> dict[str, Any] | None:
    """What one answer says of a row."""
    if consensus is None:
        return None
    fields = {name: getattr(consensus, name) for name in OF_ROWS}
    sets = None if consensus.sets is None else np.flatnonzero(consensus.sets[i]).tolist()
    known = {name: None if values is None else numbers(values[i]) for name, values in fields.items()}
    return known | {"set": None if sets is None else [answer.classes[q] for q in sets]}


def _row(answer: Answer, i: int, flags: list[Flag]) -> dict[str, Any]:
    return {
        "i": i, **(_describe_row(answer, answer.front, i) or {}),
        "missing": sorted({flag.agent for flag in flags if flag.kind == MISSING}),
        "flags": [{"agent": flag.agent, "kind": flag.kind} for flag in flags if flag.kind != MISSING],
    }  # fmt: skip


def _flags(answer: Answer, rows: list[int]) -> dict[int, list[Flag]]:
    """The flags at each of these rows."""
    flags: dict[int, list[Flag]] = {i: [] for i in rows}
    for flag in answer.front.flags:
        for i in np.intersect1d(flag.points, rows).tolist():
            flags[i].append(flag)
    return flags


def _agent(consensus: Consensus, i: int, k: int, told: dict[str, Any], flags: list[Flag]) -> dict[str, Any]:
    """One agent's part. Beliefs and influence are those of all outputs."""
    own = [flag for flag in flags if flag.agent == told["name"] and flag.kind != MISSING]
    return {
        "name": told["name"],
        "belief": None if consensus.beliefs is None else numbers(consensus.beliefs[i, k]),
        "weight": told["weight"],
        "influence": None if consensus.influence is None else numbers(consensus.influence[i, k]),
        "missing": told["missing"],
        "flags": [{"kind": flag.kind, "reason": flag.about} for flag in own],
    }
