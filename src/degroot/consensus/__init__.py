"""DeGroot consensus."""

from degroot.consensus.dense import Pooling, checked, pool, solve, stationary, together

__all__ = ["Pooling", "checked", "pool", "solve", "stationary", "together"]
