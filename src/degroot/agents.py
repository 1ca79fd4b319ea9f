"""Agents: a model and private rows."""

from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike

from degroot.classes import as_probabilities, known_classes, one_hot, probabilities
from degroot.exceptions import AgentError, InvalidInput
from degroot.judges import Judge, Predictor
from degroot.points import Array
from degroot.reprs import View, Viewed, counted, one_line, some
from degroot.settings import PEERS
from degroot.tables import answered, as_table, column_names, to_numbers, to_outputs


class Agent(Viewed):
    """One organisation: a trained model and the rows that it keeps to itself.

    Parameters
    ----------
    model : object with ``predict(X)``, or a callable
        Gives one number for each row, or as many as `y` has columns.
    X : (n, d) array, frame or sparse matrix
        Private rows, on which this agent scores every model. They need not be the model's training rows.
    y : (n,) or (n, Q)
        The labels of these rows.
    name : str
        What others call this agent.
    space : transformer or callable, optional
        Applied to rows before distances are taken: anything with ``transform(X)``, or a callable. A transformer of
        scikit-learn that is not fitted yet is cloned and fitted on this agent's rows.
    own_predictions : (n,) or (n, Q), or ``"peers"``, optional
        What its own model says of its own rows when it has not been trained on them: out-of-fold or held-out
        predictions. ``"peers"``: the agent does not score its own model, and what the others measured of it near the
        point stands in. Without either, its model is scored on these rows as all others are: right for rows that it
        has not seen, and flattering for its training rows (which is the paper's way).
    classes : labels, optional
        All the classes there are, for a classifier. Then `y` holds labels, and predictions are probabilities, (n, Q):
        of a model with ``predict_proba``, or 1 and 0 of one that gives labels only. A class that the model has not
        seen has probability 0.

    Examples
    --------
    >>> import numpy as np
    >>> north = Agent(lambda X: X[:, 0], X=[[0.0], [1.0]], y=[0.0, 2.0], name="north")
    >>> north.predict(np.array([[5.0]]))
    array([5.])
    >>> vet = Agent(lambda X: ["cat"] * len(X), [[0.0], [1.0]], ["cat", "dog"], "vet", classes=["cat", "cow", "dog"])
    >>> vet.predict(np.array([[5.0]]))
    array([[1., 0., 0.]])
    """

    remote = False  # whether another organisation answers for it, which may lie

    def __init__(
        self,
        model: Any,
        X: Any,
        y: ArrayLike,
        name: str,
        *,
        space: Any = None,
        own_predictions: Any = None,
        classes: Any = None,
    ) -> None:
        if not isinstance(name, str) or not name:
            raise InvalidInput(f"An agent's `name` must be a string that is not empty; got {name!r}.")
        self.name, self.model, self.space = name, model, space
        if not (hasattr(model, "predict") or callable(model)):
            raise self.error(f"its model must have predict(X) or be callable; it is a {type(model).__name__}.")
        self.X = as_table(X, self.error)
        if self.X.shape[0] == 0:
            raise self.error("it must hold at least one row; it has none.")
        if self.X.shape[1] == 0:
            raise self.error("its rows must have at least one feature; they have none.")
        if space is None:
            to_numbers(self.X, self.error)
        self.classes = None if classes is None else known_classes(classes, self.error)
        self.y = self._labels(y)
        self.scored_by_peers = isinstance(own_predictions, str) and own_predictions == PEERS
        self.own_predictions = self._own(own_predictions)

    def __repr__(self) -> str:
        return f"Agent({self.name!r}, {type(self.model).__name__}, {self.n_rows} rows x {self.n_features} features)"

    def _view(self) -> View:
        size = f"{counted(self.n_rows, 'row')} of {counted(self.n_features, 'feature')}"
        names = f": {some(self.feature_names, 8)}" if self.feature_names else ""
        lines = [f"model: {type(self.model).__name__}", f"rows: {size}{names}"]
        if self.classes is not None:
            lines.append(f"classes: {some(map(str, self.classes.tolist()), 8)}")
        elif self.outputs:
            lines.append(counted(self.outputs, "output"))
        return View(f"Agent {one_line(self.name)}", (*lines, f"own model scored on {self.own}"))

    @property
    def own(self) -> str:
        """On what its own model is scored, in words."""
        if self.scored_by_peers:
            return "the peers' rows"
        return "these rows" if self.own_predictions is None else "own predictions of these rows"

    @property
    def n_rows(self) -> int:
        """How many rows it holds."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """How many features its rows have."""
        return int(self.X.shape[1])

    @property
    def outputs(self) -> int | None:
        """How many numbers it predicts for each row; None: one, as (n,)."""
        return int(self.y.shape[1]) if self.y.ndim == 2 else None

    @property
    def feature_names(self) -> list[str] | None:
        """The names of its features, if its rows are a frame."""
        return column_names(self.X)

    def __sklearn_clone__(self) -> "Agent":
        """Itself: a copy of an estimator has the same agents, not others with the same rows."""
        return self

    def error(self, message: str) -> AgentError:
        """An error that names this agent.

        Examples
        --------
        >>> Agent(lambda X: 2 * X[:, 0], X=[[0.0], [1.0]], y=[0.0, 2.0], name="north").error("it must not fall asleep.")
        AgentError('north', 'it must not fall asleep.')
        """
        return AgentError(self.name, message)

    def predict(self, X: Any) -> Array:
        """This agent's own prediction for each row of `X`, (M,) or (M, Q).

        Examples
        --------
        >>> import numpy as np
        >>> Agent(lambda X: 2 * X[:, 0], X=[[0.0], [1.0]], y=[0.0, 2.0], name="north").predict(np.array([[5.0]]))
        array([10.])
        """
        if self.classes is not None:
            return probabilities(self.model, X, self.classes, self.error)
        answer = answered(self.model.predict if hasattr(self.model, "predict") else self.model, X, self.error)
        return to_outputs(answer, X.shape[0], self.error, "predict(X)", self.outputs)

    def judge(self, predictors: Sequence[Predictor], metric: str, space: Any) -> Judge:
        """This agent as the judge of all `predictors`, with `space` if it has none of its own.

        Examples
        --------
        >>> north = Agent(lambda X: 2 * X[:, 0], X=[[0.0], [1.0]], y=[0.0, 2.5], name="north")
        >>> north.judge([north], "euclidean", None).errors  # squared, of every model on each of its rows
        array([[0.  ],
               [0.25]])
        """
        return Judge.appoint(self, predictors, metric, space)

    def _labels(self, y: ArrayLike) -> Array:
        if self.classes is None:
            return to_outputs(y, self.n_rows, self.error)
        return one_hot(y, self.classes, self.n_rows, self.error)

    def _own(self, own: Any) -> Array | None:
        """Its own predictions in the form of its labels, if it has any."""
        if own is None or self.scored_by_peers:
            return None
        if isinstance(own, str):
            raise self.error(f"`own_predictions` must be numbers or {PEERS!r}; got {own!r}.")
        if self.classes is None:
            return to_outputs(own, self.n_rows, self.error, "own_predictions", self.outputs)
        return as_probabilities(own, self.n_rows, self.classes, self.error, "own_predictions")
