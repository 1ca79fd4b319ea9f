"""An agent: a model, private rows, and its scores of every model. Imports answers and the layers below."""

from degroot.agents.agent import Agent, Scorer

__all__ = ["Agent", "Scorer"]
