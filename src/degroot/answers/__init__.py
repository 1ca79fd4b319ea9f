"""The result types of a question: the consensus, its flags, its explanation, the chosen rule.
Imports the layers below only."""

from degroot.answers.answer import FIELDS, Consensus
from degroot.answers.choice import Choice
from degroot.answers.consultable import Consultable
from degroot.answers.flags import Flag

__all__ = ["FIELDS", "Choice", "Consensus", "Consultable", "Flag"]
