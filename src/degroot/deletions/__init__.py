"""Deletions: the consensus without each agent in turn, fast."""

from degroot.deletions.elimination import delete_each

__all__ = ["delete_each"]
