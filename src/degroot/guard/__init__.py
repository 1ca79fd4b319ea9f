"""A guard against faulty or adversarial members."""

from degroot.guard.checks import (
    consistent,
    objections,
    plausible,
    relative_distance,
    remaining,
    tolerated_liars,
    verified,
)

__all__ = ["consistent", "objections", "plausible", "relative_distance", "remaining", "tolerated_liars", "verified"]
