"""Plots of answers: who is trusted where, who trusts whom, how beliefs meet, where outcomes are, and who matters.

Every function takes the axes to draw on, or makes a figure of its own, and gives the axes: ``ax.figure.savefig(file)``
keeps the picture. pyplot is not touched, and no setting of matplotlib is changed.
"""

from degroot.plot.along import weights
from degroot.plot.bars import influence
from degroot.plot.fan import intervals
from degroot.plot.heatmap import trust
from degroot.plot.pooling import rounds

__all__ = ["influence", "intervals", "rounds", "trust", "weights"]
