"""Clusters: agents as actors of Ray, each in a process of its own with its own rows."""

from degroot.cluster.ray import Assembly, Ray

__all__ = ["Assembly", "Ray"]
