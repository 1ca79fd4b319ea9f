"""Exact means and second moments over the N nearest private rows. Imports compute only."""

from degroot.neighbourhoods.distances import METRICS
from degroot.neighbourhoods.kernels import KERNELS
from degroot.neighbourhoods.neighbourhoods import Neighbourhoods

__all__ = ["KERNELS", "METRICS", "Neighbourhoods"]
