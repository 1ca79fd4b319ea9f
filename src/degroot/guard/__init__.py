"""The guard against faulty or adversarial members: checks, bounds and forecasts, on arrays.
Imports neighbourhoods, rules and compute only."""

from degroot.guard.checks import (
    FARTHEST,
    MARGIN,
    consistent,
    objections,
    plausible,
    relative_distance,
    remaining,
    tolerated_liars,
    verified,
)

__all__ = [
    "FARTHEST",
    "MARGIN",
    "consistent",
    "objections",
    "plausible",
    "relative_distance",
    "remaining",
    "tolerated_liars",
    "verified",
]
