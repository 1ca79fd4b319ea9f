"""Explanations: where the answer for one point came from, in words and as plain facts."""

from degroot.answers.display.overview import overview
from degroot.answers.explanation.explanation import Explanation, explain

__all__ = ["Explanation", "explain", "overview"]
