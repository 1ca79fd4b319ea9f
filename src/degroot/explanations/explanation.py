"""An explanation: a text to read and the facts behind it."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from degroot.explanations.facts import facts, present
from degroot.explanations.sentences import sentences
from degroot.explanations.table import cells, rest
from degroot.reprs import Digits, View, Viewed, aligned

if TYPE_CHECKING:
    from degroot.answers import Consensus


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


def explain(answer: "Consensus", point: int, output: int | str | None = None) -> Explanation:
    """The answer for one point in words and as facts."""
    known = facts(answer, point, output)
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
