"""Neighbourhoods: exact means and second moments over the N nearest private rows."""

from degroot.neighbourhoods.distances import METRICS
from degroot.neighbourhoods.kernels import KERNELS
from degroot.neighbourhoods.neighbourhoods import Neighbourhoods

__all__ = ["KERNELS", "METRICS", "Neighbourhoods"]
