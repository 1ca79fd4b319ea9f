"""The jackknife over agents: the consensus without each agent in turn, standard error and influence.
Imports consensus, compute and exceptions only."""

from degroot.jackknife.delete_one import influence, solve_without, standard_error, values_without, weights_without

__all__ = ["influence", "solve_without", "standard_error", "values_without", "weights_without"]
