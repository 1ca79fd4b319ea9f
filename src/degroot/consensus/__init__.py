"""DeGroot consensus: the stationary weights of a trust matrix, and pooling in rounds.

Imports compute and exceptions only.
"""

from degroot.consensus.dense import Pooling, checked, pool, solve, stationary, together

__all__ = ["Pooling", "checked", "pool", "solve", "stationary", "together"]
