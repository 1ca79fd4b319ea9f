"""Reprs: how agents, collectives and answers look in terminals and notebooks."""

from degroot.reprs.numbers import Digits, share
from degroot.reprs.view import View, Viewed
from degroot.reprs.words import aligned, counted, joined, label, one_line, quoted, some

__all__ = ["Digits", "View", "Viewed", "aligned", "counted", "joined", "label", "one_line", "quoted", "share", "some"]
