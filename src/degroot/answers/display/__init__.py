"""How agents, collectives and answers are displayed in terminals and notebooks. Imports answers and compute only."""

from degroot.answers.display.numbers import Digits, share
from degroot.answers.display.view import View, Viewed
from degroot.answers.display.words import aligned, counted, joined, label, one_line, quoted, some

__all__ = ["Digits", "View", "Viewed", "aligned", "counted", "joined", "label", "one_line", "quoted", "share", "some"]
