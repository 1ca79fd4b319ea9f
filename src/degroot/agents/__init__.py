"""An agent: a model, private rows, and its scores of every model."""

from degroot.agents.agent import Agent, Scorer

__all__ = ["Agent", "Scorer"]
