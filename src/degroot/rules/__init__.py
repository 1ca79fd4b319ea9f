"""Rules: from evidence to weights."""

from degroot.rules.rules import RULES

__all__ = ["RULES"]
