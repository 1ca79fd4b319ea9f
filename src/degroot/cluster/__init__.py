"""Clusters: agents as actors of Ray, each in a process of its own with its own rows."""

from degroot.cluster.assembly import Assembly
from degroot.cluster.engine import Ray

__all__ = ["Assembly", "Ray"]
