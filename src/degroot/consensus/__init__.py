"""DeGroot consensus: the stationary weights of a trust matrix, and pooling in rounds.
Imports compute, exceptions and trust only."""

from degroot.consensus.dense import Pooling, check_beliefs, check_trust, pool, solve, stationary

__all__ = ["Pooling", "check_beliefs", "check_trust", "pool", "solve", "stationary"]
