"""Sampled trust: every agent scores a sample of the models only, so that thousands of agents can take part.

Trust is (M, K, q): agent i's trust in the q models ``peers[i]``, one of them its own; peers are (K, q).
"""

from degroot.sampled.acquaintances import acquaintances
from degroot.sampled.consensus import solve
from degroot.sampled.jackknife import solve_without

__all__ = ["acquaintances", "solve", "solve_without"]
