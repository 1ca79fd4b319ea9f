"""Agents: a model and private rows."""

from typing import Any

from numpy.typing import ArrayLike

from degroot.exceptions import AgentError, InvalidInput
from degroot.points import Array
from degroot.tables import as_table, column_names, to_numbers, to_vector, told


class Agent:
    """One organisation: a trained model and the rows that it keeps to itself.

    Parameters
    ----------
    model : object with ``predict(X)``, or a callable
        Gives one number for each row.
    X : (n, d) array, frame or sparse matrix
        Private rows, on which this agent scores every model. They need not be the model's training rows.
    y : (n,)
        The labels of these rows.
    name : str
        What others call this agent.
    space : transformer or callable, optional
        Applied to rows before distances are taken: anything with ``transform(X)``, or a callable. A transformer of
        scikit-learn that is not fitted yet is cloned and fitted on this agent's rows.

    Examples
    --------
    >>> import numpy as np
    >>> north = Agent(lambda X: X[:, 0], X=[[0.0], [1.0]], y=[0.0, 2.0], name="north")
    >>> north.predict(np.array([[5.0]]))
    array([5.])
    """

    def __init__(self, model: Any, X: Any, y: ArrayLike, name: str, *, space: Any = None) -> None:
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
        self.y = to_vector(y, self.X.shape[0], self.error)

    def __repr__(self) -> str:
        return f"Agent({self.name!r}, {type(self.model).__name__}, {self.n_rows} rows x {self.n_features} features)"

    @property
    def n_rows(self) -> int:
        """How many rows it holds."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """How many features its rows have."""
        return int(self.X.shape[1])

    @property
    def feature_names(self) -> list[str] | None:
        """The names of its features, if its rows are a frame."""
        return column_names(self.X)

    def __sklearn_clone__(self) -> "Agent":
        """Itself: a copy of an estimator has the same agents, not others with the same rows."""
        return self

    def error(self, message: str) -> AgentError:
        """An error that names this agent."""
        return AgentError(self.name, message)

    def predict(self, X: Any) -> Array:
        """This agent's own prediction for each row of `X`, (M,)."""
        try:
            answer = self.model.predict(X) if hasattr(self.model, "predict") else self.model(X)
        except Exception as error:
            raise self.error(f"its model must predict; it raised {told(error)}.") from error
        return to_vector(answer, X.shape[0], self.error, name="predict(X)")
