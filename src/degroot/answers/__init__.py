"""The result types of a question, and how they are displayed."""

from degroot.answers.answer import FIELDS, Consensus
from degroot.answers.choice import Choice
from degroot.answers.consultable import Consultable
from degroot.answers.flags import Flag

__all__ = ["FIELDS", "Choice", "Consensus", "Consultable", "Flag"]
