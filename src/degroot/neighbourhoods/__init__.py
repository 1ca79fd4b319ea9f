"""Neighbourhoods: exact means and second moments over the N nearest private rows."""

from degroot.neighbourhoods.distances import METRICS
from degroot.neighbourhoods.index import Neighbourhoods
from degroot.neighbourhoods.weights import KERNELS

__all__ = ["KERNELS", "METRICS", "Neighbourhoods"]
