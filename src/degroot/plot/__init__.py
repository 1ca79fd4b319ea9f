"""Plots of answers: weights along a feature, trust, pooling in rounds, intervals and influence; and of gains.
Imports answers and the layers below only.

Every function takes the axes to draw on, or makes a figure of its own, and gives the axes: ``ax.figure.savefig(file)``
keeps the picture. pyplot is not touched, and no setting of matplotlib is changed."""

from degroot.plot.gains import gains
from degroot.plot.influence import influence
from degroot.plot.intervals import intervals
from degroot.plot.rounds import rounds
from degroot.plot.trust import trust
from degroot.plot.weights import weights

__all__ = ["gains", "influence", "intervals", "rounds", "trust", "weights"]
