"""An explanation: a text to read and the facts behind it."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from degroot.answers.display import Digits, View, Viewed, aligned, one_line, share
from degroot.answers.explanation.facts import facts, present
from degroot.answers.explanation.sentences import sentences, trusted
from degroot.answers.flags import MISSING, kind
from degroot.schema import Column

LINES = 12  # of many agents, those with the largest weights
HEADER = ["agent", "says", "weight", "without it", "trusted", ""]


def cells(facts: dict[str, Any], digits: Digits) -> list[list[str]]:
    """What each agent says, its weight, the answer without it, the others' trust in it, and notes; columns with any.

    There is no table of names alone.
    """
    here = {each["name"] for each in present(facts)}
    rows = [_cells(each, here, digits) for each in _select_agents(facts["agents"])]
    told = [k for k in range(len(HEADER)) if k == 0 or any(row[k] not in ("-", "") for row in rows)]
    return [[row[k] for k in told] for row in [HEADER, *rows]] if len(told) > 1 else []


def rest(facts: dict[str, Any]) -> list[str]:
    """How many agents the table leaves out, if any."""
    left = len(facts["agents"]) - LINES
    return [f"and {left} more"] if left > 0 else []


def _select_agents(agents: list[dict[str, Any]]) -> list[dict[str, Any]]:
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


if TYPE_CHECKING:
    from degroot.answers.answer import Consensus


@dataclass(frozen=True, slots=True, repr=False)
class Explanation(Viewed):
    """Where the answer for one point came from. Print it, or take `facts` further.

    `facts` can be written as JSON: the value with its standard error and interval, and for every agent its belief,
    weight and influence, who trusts its model, whether it was missing and what it is flagged for. What was not asked
    for is None.

    Examples
    --------
    >>> import numpy as np
    >>> from degroot import Consensus
    >>> weights, beliefs = np.array([[0.75, 0.25]]), np.array([[2.0, 4.0]])
    >>> answer = Consensus(("north", "south"), value=np.array([2.5]), weights=weights, beliefs=beliefs)
    >>> print(answer.explain(0))
    The collective says 2.50 for point 0.
    <BLANKLINE>
    north carries it, with a weight of 0.750; next is south (0.250).
    On their own the agents would say from 2.00 (north) to 4.00 (south).
    <BLANKLINE>
    agent  says  weight
    north  2.00   0.750
    south  4.00   0.250
    >>> answer.explain(0).facts["agents"][0]["weight"]
    0.75
    """

    text: str
    facts: dict[str, Any] = field(hash=False)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def _view(self) -> View:
        digits = _digits(self.facts)
        lines = [line for paragraph in sentences(self.facts, digits) for line in paragraph.split("\n")]
        rows = tuple(map(tuple, cells(self.facts, digits)))
        return View(lines[0], tuple(lines[1:]), rows, tuple(rest(self.facts)) if rows else ())


def explain(
    answer: "Consensus", point: int, output: int | str | None = None, target: Column | None = None
) -> Explanation:
    """The answer for one point in words and as facts."""
    known = facts(answer, point, output, target)
    digits = _digits(known)
    paragraphs = sentences(known, digits)
    if table := cells(known, digits):
        paragraphs.append("\n".join([*aligned(table), *rest(known)]))
    return Explanation("\n\n".join(paragraphs), known)


def _digits(known: dict[str, Any]) -> Digits:
    """How values and beliefs are written: so that what sets the agents apart can be seen."""
    here = present(known)
    beliefs = [each["belief"] for each in here if each["belief"] is not None]
    values = [known["value"], known["lower"], known["upper"], *beliefs]
    apart = max(beliefs) - min(beliefs) if beliefs else 0.0
    error = 10.0 * (known["standard_error"] or 0.0)
    return Digits.of(values, [min(apart, max(error, apart / 10.0)) or error])
