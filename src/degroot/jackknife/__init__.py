"""The jackknife over agents."""

from degroot.jackknife.delete_one import influence, solve_without, standard_error, values_without, weights_without

__all__ = ["influence", "solve_without", "standard_error", "values_without", "weights_without"]
