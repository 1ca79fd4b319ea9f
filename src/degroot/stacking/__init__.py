"""Local stacking."""

from degroot.stacking.local import RIDGE, Pool, coverage, pool, values_without, weigh, weigh_pooled, weights

__all__ = ["RIDGE", "Pool", "coverage", "pool", "values_without", "weigh", "weigh_pooled", "weights"]
