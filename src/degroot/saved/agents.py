"""Agents from files: their rows are arrays, and their features have names."""

from typing import Any

import numpy as np

from degroot.agents import Agent
from degroot.points import Array
from degroot.tables import is_frame


class FiledAgent(Agent):
    """An agent whose rows, labels and model came from files.

    Parameters are those of `Agent`, and the names of the features. Its model gets arrays, whatever is asked about.
    """

    def __init__(self, model: Any, X: Any, y: Any, name: str, features: tuple[str, ...], **about: Any) -> None:
        self.features = features
        super().__init__(model, X, y, name, **about)

    @property
    def feature_names(self) -> list[str]:
        """The names of its features."""
        return list(self.features)

    def predict(self, X: Any) -> Array:
        """This agent's own prediction for each row of `X`, (M,) or (M, Q)."""
        return super().predict(np.asarray(X) if is_frame(X) else X)
