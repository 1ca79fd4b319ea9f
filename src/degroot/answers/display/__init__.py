"""Reprs: how agents, collectives and answers look in terminals and notebooks."""

from degroot.answers.display.numbers import Digits, share
from degroot.answers.display.view import View, Viewed
from degroot.answers.display.words import aligned, counted, joined, label, one_line, quoted, some

__all__ = ["Digits", "View", "Viewed", "aligned", "counted", "joined", "label", "one_line", "quoted", "share", "some"]
