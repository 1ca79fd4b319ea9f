"""Rows of an answer: a page of them in some order, and one with all that lies behind it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.answers import MISSING
from degroot.exceptions import InvalidInput
from degroot.node.page.answer import Answer
from degroot.node.page.encoding import numbers
from degroot.points import Array

ROUNDS = 100
AGREED = 1e-6  # how far apart beliefs may be in the end, over how far apart they were at first
POOLED = "degroot"  # the rule whose answer is what pooling in rounds comes to
OF_ROWS = ("value", "standard_error", "lower", "upper")
SHOWN = 20_000  # numbers of points at once
SORTS = ("i", "value", "standard_error", "width", "flags")


def page(answer: Answer, offset: int, limit: int, sort: str) -> dict[str, Any]:
    """So many rows from a place on, by `sort`; with a minus the other way round."""
    places = _order(answer, sort)
    limit = min(limit, max(1, SHOWN // answer.points.shape[1]))
    chosen = places[offset : offset + limit].tolist()
    marks = _marks(answer, chosen)
    return {"total": len(places), "rows": [_row(answer, i, marks) | {"point": _point(answer, i)} for i in chosen]}


def one(answer: Answer, i: int) -> dict[str, Any]:
    """One row: the value, everybody's part in it, who trusts whom, and how the agents would come to agree."""
    if not 0 <= i < len(answer.points):
        raise InvalidInput(f"The row must be one of {len(answer.points)}; got {i}.")
    explained = answer.consensus.explain(i)
    trust = None if answer.consensus.trust is None else answer.consensus.trust[i]
    return _row(answer, i, _marks(answer, [i])) | {
        "point": dict(zip(answer.features, _point(answer, i), strict=True)),
        "coverage": answer.terms.coverage,
        "agents": [_agent(answer, i, k, told) for k, told in enumerate(explained.facts["agents"])],
        "trust": None if trust is None else numbers(trust),
        "rounds": _rounds(answer, i, [_takes_part(told) for told in explained.facts["agents"]]),
        "text": explained.text,
    }


def _row(answer: Answer, i: int, marks: dict[int, list[tuple[str, str]]]) -> dict[str, Any]:
    consensus = answer.consensus
    fields = {name: getattr(consensus, name) for name in OF_ROWS}
    told = {name: None if values is None else numbers(values[i]) for name, values in fields.items()}
    sets = None if consensus.sets is None else np.flatnonzero(consensus.sets[i]).tolist()
    here = marks.get(i, [])
    return {
        "i": i, **told, "set": None if sets is None else [answer.classes[q] for q in sets],
        "missing": sorted({agent for agent, kind in here if kind == MISSING}),
        "flags": [{"agent": agent, "kind": kind} for agent, kind in here if kind != MISSING],
    }  # fmt: skip


def _point(answer: Answer, i: int) -> Any:
    return numbers(answer.points[i])


def _marks(answer: Answer, rows: list[int]) -> dict[int, list[tuple[str, str]]]:
    """Who is flagged at which of these rows."""
    marks: dict[int, list[tuple[str, str]]] = {}
    for flag in answer.consensus.flags:
        for i in np.intersect1d(flag.points, rows).tolist():
            marks.setdefault(i, []).append((flag.agent, flag.kind))
    return marks


def _order(answer: Answer, sort: str) -> NDArray[np.intp]:
    """Places of the rows; those without a number come last."""
    name = sort.removeprefix("-")
    if name not in SORTS:
        raise InvalidInput(f"`sort` must be one of {', '.join(SORTS)}, with a minus or without; got {sort[:100]!r}.")
    keys = _keys(answer, name)
    return np.argsort(-keys if sort.startswith("-") else keys, kind="stable")


def _keys(answer: Answer, name: str) -> Array:
    consensus, M = answer.consensus, len(answer.points)
    if name == "i":
        return np.arange(M, dtype=np.float64)
    if name == "flags":  # those with most come first
        counts = np.zeros(M)
        for flag in consensus.flags:
            np.subtract.at(counts, flag.points, 1.0)
        return counts
    if name == "width" and consensus.sets is not None:
        return np.asarray(consensus.sets.sum(axis=1), np.float64)
    known = {
        "value": consensus.value,
        "standard_error": consensus.standard_error,
        "width": None if consensus.lower is None or consensus.upper is None else consensus.upper - consensus.lower,
    }[name]
    if known is None:
        return np.zeros(M)
    largest = name == "value" and bool(consensus.classes)
    keys: Array = known if known.ndim == 1 else known.max(axis=1) if largest else known[:, 0]
    return keys


def _agent(answer: Answer, i: int, k: int, told: dict[str, Any]) -> dict[str, Any]:
    """One agent's part. Beliefs and influence are those of all outputs."""
    consensus = answer.consensus
    reasons = [reason.partition(": ") for reason in told["flags"]]
    return {
        "name": told["name"],
        "belief": None if consensus.beliefs is None else numbers(consensus.beliefs[i, k]),
        "weight": told["weight"],
        "influence": None if consensus.influence is None else numbers(consensus.influence[i, k]),
        "missing": told["missing"],
        "flags": [{"kind": kind, "reason": reason or kind} for kind, _, reason in reasons],
    }


def _takes_part(told: dict[str, Any]) -> bool:
    return told["missing"] is None and not told["left_out"]


def _rounds(answer: Answer, i: int, here: list[bool]) -> list[list[Any]] | None:
    r"""What every agent believes, round by round, :math:`p \leftarrow T p`, until all agree; None where nobody knows.

    Those who do not take part believe nothing.
    """
    trust, beliefs = answer.consensus.trust, answer.consensus.beliefs
    members = np.flatnonzero(here)
    if trust is None or beliefs is None or answer.rule != POOLED or not len(members):
        return None
    shares = trust[i][np.ix_(members, members)]
    told = beliefs[i, members].reshape(len(members), -1)
    if not (np.isfinite(shares).all() and np.isfinite(told).all()):
        return None
    shares = shares / shares.sum(axis=1, keepdims=True)
    enough = AGREED * np.ptp(told, axis=0)
    rounds = [told]
    while len(rounds) <= ROUNDS and (np.ptp(rounds[-1], axis=0) > enough).any():
        rounds.append(shares @ rounds[-1])
    return [_spread(each, members, len(here), beliefs.ndim == 2) for each in rounds]


def _spread(beliefs: Array, members: NDArray[np.intp], K: int, single: bool) -> list[Any]:
    """A place for everybody."""
    told: list[Any] = [None] * K
    for k, belief in zip(members.tolist(), beliefs, strict=True):
        told[k] = numbers(belief[0] if single else belief)
    return told
