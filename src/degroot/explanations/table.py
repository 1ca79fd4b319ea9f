"""The table below an explanation: an agent a line."""

from typing import Any

from degroot.explanations.facts import present
from degroot.explanations.trusting import trusted
from degroot.flags import MISSING, kind
from degroot.reprs import Digits, one_line, share

LINES = 12  # of many agents, those with the largest weights
HEADER = ["agent", "says", "weight", "without it", "trusted", ""]


def cells(facts: dict[str, Any], digits: Digits) -> list[list[str]]:
    """What each agent says, its weight, the answer without it, the others' trust in it, and notes; columns with any.

    There is no table of names alone.
    """
    here = {each["name"] for each in present(facts)}
    rows = [_cells(each, here, digits) for each in _shown(facts["agents"])]
    told = [k for k in range(len(HEADER)) if k == 0 or any(row[k] not in ("-", "") for row in rows)]
    return [[row[k] for k in told] for row in [HEADER, *rows]] if len(told) > 1 else []


def rest(facts: dict[str, Any]) -> list[str]:
    """How many agents the table leaves out, if any."""
    left = len(facts["agents"]) - LINES
    return [f"and {left} more"] if left > 0 else []


def _shown(agents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if len(agents) <= LINES:
        return agents
    return sorted(agents, key=lambda each: -(each["weight"] or 0.0))[:LINES]


def _cells(agent: dict[str, Any], here: set[str], digits: Digits) -> list[str]:
    took_part = agent["name"] in here
    return [
        one_line(agent["name"]),
        digits.write(agent["belief"]),
        share(agent["weight"]),
        digits.write(agent["without"]) if took_part else "-",
        share(trusted(agent, here)) if took_part else "-",
        ", ".join([MISSING] * (agent["missing"] is not None) + [one_line(kind(reason)) for reason in agent["flags"]]),
    ]
