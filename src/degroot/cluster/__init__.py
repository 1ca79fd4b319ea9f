"""The engine for Ray: processes that answer points, each with all agents, or with one and its rows.
Imports the layers below only."""

from degroot.cluster.ray import Assembly, Ray

__all__ = ["Assembly", "Ray"]
