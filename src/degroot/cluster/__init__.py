"""The engine for Ray: each agent is an actor, in a process of its own with its own rows.
Imports the layers below only."""

from degroot.cluster.ray import Assembly, Ray

__all__ = ["Assembly", "Ray"]
