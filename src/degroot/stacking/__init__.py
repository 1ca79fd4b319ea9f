"""Local stacking: the weights of least local squared error of the weighted mean.
Imports compute and exceptions only."""

from degroot.stacking.local import RIDGE, Pool, coverage, pool, values_without, weigh, weigh_pooled, weights

__all__ = ["RIDGE", "Pool", "coverage", "pool", "values_without", "weigh", "weigh_pooled", "weights"]
