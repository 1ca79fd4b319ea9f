"""Rows of an answer: a page of them in some order, and one with all that lies behind it."""

from typing import Any

import numpy as np

from degroot.answers import MISSING, Flag
from degroot.exceptions import InvalidInput
from degroot.node.page.answer import Answer
from degroot.node.page.encoding import numbers
from degroot.node.page.orders import ordered
from degroot.node.page.rounds import rounds_of

OF_ROWS = ("value", "standard_error", "lower", "upper")
SHOWN = 20_000  # numbers of points at once


def page(answer: Answer, offset: int, limit: int, sort: str) -> dict[str, Any]:
    """So many rows from a place on, by `sort`; with a minus the other way round."""
    places = ordered(answer, sort)
    limit = min(limit, max(1, SHOWN // answer.points.shape[1]))
    chosen = places[offset : offset + limit].tolist()
    flags = _flags(answer, chosen)
    rows = [_row(answer, i, flags[i]) | {"point": numbers(answer.points[i])} for i in chosen]
    return {"total": len(places), "rows": rows}


def one(answer: Answer, i: int) -> dict[str, Any]:
    """One row: the value, everybody's part in it, who trusts whom, and how the agents would come to agree."""
    if not 0 <= i < len(answer.points):
        raise InvalidInput(f"The row must be one of {len(answer.points)}; got {i}.")
    explained, trust, flags = answer.consensus.explain(i), answer.consensus.trust, _flags(answer, [i])[i]
    agents = explained.facts["agents"]
    return _row(answer, i, flags) | {
        "point": dict(zip(answer.features, numbers(answer.points[i]), strict=True)),
        "coverage": answer.terms.coverage,
        "agents": [_agent(answer, i, k, told, flags) for k, told in enumerate(agents)],
        "trust": None if trust is None else numbers(trust[i]),
        "rounds": rounds_of(answer, i, [told["missing"] is None and not told["left_out"] for told in agents]),
        "text": explained.text,
    }


def _row(answer: Answer, i: int, flags: list[Flag]) -> dict[str, Any]:
    consensus = answer.consensus
    fields = {name: getattr(consensus, name) for name in OF_ROWS}
    told = {name: None if values is None else numbers(values[i]) for name, values in fields.items()}
    sets = None if consensus.sets is None else np.flatnonzero(consensus.sets[i]).tolist()
    return {
        "i": i, **told, "set": None if sets is None else [answer.classes[q] for q in sets],
        "missing": sorted({flag.agent for flag in flags if flag.kind == MISSING}),
        "flags": [{"agent": flag.agent, "kind": flag.kind} for flag in flags if flag.kind != MISSING],
    }  # fmt: skip


def _flags(answer: Answer, rows: list[int]) -> dict[int, list[Flag]]:
    """The flags at each of these rows."""
    flags: dict[int, list[Flag]] = {i: [] for i in rows}
    for flag in answer.consensus.flags:
        for i in np.intersect1d(flag.points, rows).tolist():
            flags[i].append(flag)
    return flags


def _agent(answer: Answer, i: int, k: int, told: dict[str, Any], flags: list[Flag]) -> dict[str, Any]:
    """One agent's part. Beliefs and influence are those of all outputs."""
    consensus = answer.consensus
    own = [flag for flag in flags if flag.agent == told["name"] and flag.kind != MISSING]
    return {
        "name": told["name"],
        "belief": None if consensus.beliefs is None else numbers(consensus.beliefs[i, k]),
        "weight": told["weight"],
        "influence": None if consensus.influence is None else numbers(consensus.influence[i, k]),
        "missing": told["missing"],
        "flags": [{"kind": flag.kind, "reason": flag.about} for flag in own],
    }
