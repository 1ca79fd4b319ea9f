"""The result types of a question: the consensus, its flags, its explanation, the chosen rule; and gains.
Imports plot and the layers below only."""

from degroot.answers.answer import FIELDS, Consensus
from degroot.answers.choice import Choice
from degroot.answers.consultable import Consultable
from degroot.answers.flags import Flag
from degroot.answers.gains import Gains

__all__ = ["FIELDS", "Choice", "Consensus", "Consultable", "Flag", "Gains"]
