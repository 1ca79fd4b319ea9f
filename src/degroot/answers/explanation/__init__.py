"""Where the answer for one point came from, as text and as plain facts. Imports answers, asker, schema and
exceptions only."""

from degroot.answers.display.overview import overview
from degroot.answers.explanation.explanation import Explanation, explain

__all__ = ["Explanation", "explain", "overview"]
