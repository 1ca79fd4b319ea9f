"""Flags: what an answer should be read with."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MISSING = "missing"  # how the reason of a flag begins where the agent did not take part
ABSTAINS = "abstains"  # where its model lacks an input of the point, and gave no answer
UNSCORED = "unscored"  # where some agent could not score its model, whose inputs its rows lack
FAR_FROM_ALL = "far from all"  # where it is not about one agent: the point is far outside the rows of everybody


@dataclass(frozen=True, slots=True)
class Flag:
    """Something about one agent, or about a point, that an answer should be read with.

    Examples
    --------
    >>> flag = Flag("north", "missing: it did not answer within 2 s", np.array([0, 1]))
    >>> flag.kind, flag.about
    ('missing', 'it did not answer within 2 s')
    """

    agent: str
    reason: str  # its kind, a colon, and the rest
    points: NDArray[np.intp]  # at which

    @property
    def kind(self) -> str:
        """What it is, in a word or two: the reason up to the colon."""
        return kind(self.reason)

    @property
    def about(self) -> str:
        """The rest of the reason."""
        return self.reason.partition(": ")[2] or self.reason


def kind(reason: str) -> str:
    """A reason up to the colon.

    Examples
    --------
    >>> kind("missing: it did not answer within 2 s")
    'missing'
    """
    return reason.partition(":")[0]
