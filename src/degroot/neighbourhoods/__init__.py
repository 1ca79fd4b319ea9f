"""Neighbourhoods: exact means over the N nearest private rows."""

from degroot.neighbourhoods.index import Neighbourhoods
from degroot.neighbourhoods.selection import KERNELS, METRICS

__all__ = ["KERNELS", "METRICS", "Neighbourhoods"]
