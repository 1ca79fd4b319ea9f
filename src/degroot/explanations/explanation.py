"""An explanation: a text to read and the facts behind it."""

from dataclasses import dataclass, field
from typing import Any

from degroot.explanations.answered import Answered
from degroot.explanations.facts import facts
from degroot.explanations.sentences import present, sentences
from degroot.explanations.table import table
from degroot.reprs import Digits


@dataclass(frozen=True, slots=True, repr=False)
class Explanation:
    """Where the answer for one point came from. Print it, or take `facts` further.

    `facts` can be written as JSON: the value with its standard error and interval, and for every agent its belief,
    weight and influence, who trusts its model, whether it was missing and what it is flagged for. What was not asked
    for is None.
    """

    text: str
    facts: dict[str, Any] = field(hash=False)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text


def explain(answer: Answered, point: int, output: int | str | None = None) -> Explanation:
    """The answer for one point in words and as facts."""
    known = facts(answer, point, output)
    digits = _digits(known)
    paragraphs = [*sentences(known, digits), "\n".join(table(known, digits))]
    return Explanation("\n\n".join(paragraphs), known)


def _digits(known: dict[str, Any]) -> Digits:
    """How values and beliefs are written: so that what sets the agents apart can be seen."""
    here = present(known)
    beliefs = [each["belief"] for each in here if each["belief"] is not None]
    values = [known["value"], known["lower"], known["upper"], *beliefs]
    apart = max(beliefs) - min(beliefs) if beliefs else 0.0
    error = 10.0 * (known["standard_error"] or 0.0)
    return Digits.of(values, [min(apart, max(error, apart / 10.0)) or error])
