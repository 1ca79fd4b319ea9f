"""Explanations: where the answer for one point came from, in words and as plain facts."""

from degroot.explanations.explanation import Explanation, explain
from degroot.explanations.overview import overview

__all__ = ["Explanation", "explain", "overview"]
