"""Agents from files: their rows are arrays, their features have names, and what they once scored is at hand."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.agents.agent import Agent, Predictor, Scorer
from degroot.compute.compiled import Array
from degroot.compute.tables import is_frame
from degroot.files.source import PEERS
from degroot.schema import FrameForm, Schema


class FiledAgent(Agent):
    """An agent whose rows, labels and model came from files.

    Parameters are those of `Agent`, the names of the features, and the form of the frames that its model takes. Without
    one it gets arrays, whatever is asked about.
    """

    def __init__(
        self,
        model: Any,
        X: Any,
        y: Any,
        name: str,
        features: tuple[str, ...],
        *,
        form: FrameForm | None = None,
        **about: Any,
    ) -> None:
        self.features = features
        super().__init__(model, X, y, name, **about)
        self.form = form

    @property
    def feature_names(self) -> list[str]:
        """The names of its features."""
        return list(self.features)

    def predict(self, X: Any) -> Array:
        """This agent's own prediction for each row of `X`, (M,) or (M, Q)."""
        return super().predict(np.asarray(X) if self.schema is None and is_frame(X) else X)


@dataclass(frozen=True, slots=True)
class StoredScores:
    """What an agent once found of models on its rows, mapped from files; see `Scorer`."""

    space: Any
    rows: Any
    metric: str
    residuals: Array
    errors: Array
    kept: Mapping[str, NDArray[Any]]
    source: Callable[[], Any]
    unscored: NDArray[np.bool_] | None = None

    def score_models(self, agent: Agent) -> Scorer:
        """The scorer that found it."""
        return Scorer(
            agent, self.space, self.rows, self.metric, self.residuals, self.errors,
            kept=dict(self.kept), source=self.source, unscored=self.unscored,
        )  # fmt: skip


class SavedAgent(FiledAgent):
    """An agent that was saved with its scores. What was checked then is not looked at again."""

    def __init__(
        self,
        model: Any,
        X: Any,
        y: Array,
        name: str,
        features: tuple[str, ...],
        *,
        space: Any,
        own_predictions: Array | str | None,
        classes: NDArray[Any] | None,
        units: NDArray[Any] | None,
        scores: StoredScores,
        schema: Schema | None = None,
        has_agreed_schema: bool = False,
        form: FrameForm | None = None,
        lacks: NDArray[np.bool_] | None = None,
    ) -> None:
        self.name, self.model, self.space, self.features = name, model, space, features
        self.X, self.y, self.classes, self.units, self.scores = X, y, classes, units, scores
        self.schema, self.has_agreed_schema, self.form, self.lacks = schema, has_agreed_schema, form, lacks
        self.scored_by_peers = isinstance(own_predictions, str) and own_predictions == PEERS
        self.own_predictions = None if isinstance(own_predictions, str) else own_predictions
        self.met: Sequence[Agent] = ()  # whose models it has scored
        self.shared_space: Any = None  # of the collective
        self.source = scores.source

    def score_models(self, predictors: Sequence[Predictor], metric: str, space: Any) -> Scorer:
        """This agent as the scorer of all `predictors`: those with which it was saved need not be asked again."""
        same = len(predictors) == len(self.met) and all(a is b for a, b in zip(predictors, self.met, strict=True))
        if same and metric == self.scores.metric and (self.space is not None or space is self.shared_space):
            return self.scores.score_models(self)
        return super().score_models(predictors, metric, space)
