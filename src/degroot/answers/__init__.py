"""The result types of a question: the consensus, its flags, its explanation, the chosen rule; and gains.
Imports plot and the layers below only."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from degroot.answers.answer import FIELDS, Consensus
    from degroot.answers.choice import Choice
    from degroot.answers.consultable import Consultable
    from degroot.answers.flags import Flag
    from degroot.answers.gains import Gains

__all__ = ["FIELDS", "Choice", "Consensus", "Consultable", "Flag", "Gains"]

HOMES = {
    "answer": ("FIELDS", "Consensus"),
    "choice": ("Choice",),
    "consultable": ("Consultable",),
    "flags": ("Flag",),
    "gains": ("Gains",),
}  # where each name comes from


def __getattr__(name: str) -> Any:
    """A name, imported on first use: an answer takes neither gains nor a protocol of who can be asked."""
    for home, names in HOMES.items():
        if name in names:
            return getattr(import_module(f"degroot.answers.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
