"""Agents, a model and private rows each, and scorers: an agent's errors of every model on these rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Integral
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from degroot.agents.classification import as_probabilities, known_classes, one_hot, probabilities
from degroot.agents.units import as_units, code_units
from degroot.answers.display import View, Viewed, counted, one_line, some
from degroot.compute.compiled import Array, as_kernel_array
from degroot.compute.tables import (
    ErrorFactory,
    as_table,
    call_model,
    column_names,
    is_frame,
    take,
    to_numbers,
    to_outputs,
)
from degroot.exceptions import AgentError, InvalidInput, describe_error
from degroot.files.source import PEERS
from degroot.guard.forecast import AnswerForecaster, GuardStandards
from degroot.neighbourhoods import Neighbourhoods
from degroot.rules.evidence import Evidence, NeighbourhoodSpec
from degroot.rules.rules import STACKING_NEIGHBOURHOOD

ASKED_BYTES = 1 << 26  # of rows, put to a model at once: agents may hold more rows than fit into memory


class Predictor(Protocol):
    """Whoever has a model."""

    def predict(self, X: Any) -> Array:
        """One prediction for each row."""


@dataclass(frozen=True)
class Scorer:
    """An agent's view of all models: how they do on its rows, and where those rows lie."""

    agent: "Agent"
    space: Any  # what takes rows to where distances are taken; None: they stay where they are
    rows: Any  # (n, d) where distances are taken
    metric: str
    residuals: Array  # (n, Q, K) of every model on the agent's rows, for each output
    errors: Array  # (n, K) their squares, summed over the outputs
    near: dict[NeighbourhoodSpec, Neighbourhoods] = field(default_factory=dict)
    kept: dict[str, NDArray[Any]] = field(default_factory=dict)  # what neighbourhoods of any reach need not make anew
    source: Callable[[], Any] | None = None  # gives agent and scorer again, in another process, where they are in files
    least_rows: int = 1  # behind each end of the range of labels that the guard is told

    @classmethod
    def build(cls, agent: "Agent", predictors: Sequence[Predictor], metric: str, space: Any = None) -> "Scorer":
        """Make `agent` the scorer of all `predictors`. Its own space goes before `space`."""
        space = _fitted_space(agent.space if agent.space is not None else space, agent)
        rows = _transform(agent.X, space, agent.error)
        residuals = residuals_of(agent, predictors)
        return cls(agent, space, rows, metric, residuals, _squared(residuals))

    def with_residuals(self, residuals: Array) -> "Scorer":
        """The same scorer of models with these residuals (n, Q, K) on its rows."""
        together = as_kernel_array(residuals)
        return replace(self, residuals=together, errors=_squared(together), source=None)

    def size(self, reach: NeighbourhoodSpec) -> int:
        """How many of its rows are a neighbourhood."""
        return neighbourhood_size(reach, self.agent.n_rows, self.agent.error)

    def ready(self, reach: NeighbourhoodSpec) -> None:
        """Make neighbourhoods of that reach."""
        if reach not in self.near:
            near = Neighbourhoods(self.rows, self.size(reach), self.metric, reach.kernel, kept=self.kept)
            self.kept.update(near.kept())
            self.near[reach] = near

    def transform(self, X: Any) -> Any:
        """`X` where distances are taken."""
        if is_frame(X) and not is_frame(self.agent.X):
            X = np.asarray(X)  # a space that was fitted without names takes none
        transformed = _transform(X, self.space, self.agent.error if self.space is not None else InvalidInput)
        if transformed.shape[1] != self.rows.shape[1]:
            raise self.agent.error(
                f"its `space` must give points {self.rows.shape[1]} features, as it gave its rows; "
                f"got {transformed.shape[1]}."
            )
        return transformed

    def measure(
        self,
        into: Evidence,
        place: int,
        transformed: Any,
        reach: NeighbourhoodSpec,
        exclude_row: NDArray[np.intp] | None = None,
    ) -> None:
        """Measure every model near the `transformed` points, into slot `place`; `exclude_row`: a row for each point."""
        near = self.near[reach]
        if into.moments is None:
            near.means_into(into.errors, place, transformed, self.errors, exclude_row, into.spread, into.effective)
        else:
            near.moments_into(
                into.moments, place, transformed, self.residuals, exclude_row, into.spread, into.effective
            )

    @cached_property
    def forecaster(self) -> AnswerForecaster:
        """What this scorer expects every model to say near its rows."""
        self.ready(STACKING_NEIGHBOURHOOD)
        answers = self.residuals + self.agent.y.reshape(len(self.errors), -1, 1)
        return AnswerForecaster(self.rows, answers, self.errors, self.near[STACKING_NEIGHBOURHOOD])

    @cached_property
    def standards(self) -> GuardStandards:
        """What is usual at its own rows, for the guard."""
        return GuardStandards(self.forecaster.usual_distance, *self.label_range())

    def label_range(self) -> tuple[Array, Array]:
        r"""Where its labels lie, for each output, in round numbers.

        Each end is extrapolated from its r = `least_rows` outermost labels, :math:`2 \bar y - y_{(r)}`: with equal
        steps between them, the outermost one. With r = 1 that label is told where it is a round number itself, and
        where all labels are the same.
        """
        labels, least = np.sort(self.agent.y.reshape(len(self.errors), -1), axis=0), self.least_rows
        low, high = labels[:least], labels[-least:]
        return round_range(2.0 * low.mean(axis=0) - low[-1], 2.0 * high.mean(axis=0) - high[0])

    def with_model(self, place: int, predictor: Predictor) -> "Scorer":
        """The same scorer, with `predictor` in the place of the model at `place`, or after the last."""
        return self._with_model(place, residuals_of(self.agent, [predictor]))

    def without_model(self, place: int) -> "Scorer":
        """The same scorer, without the model at `place`."""
        return self._with_model(place, self.residuals[..., :0])

    def _with_model(self, place: int, residuals: Array) -> "Scorer":
        parts = [self.residuals[..., :place], residuals, self.residuals[..., place + 1 :]]
        return self.with_residuals(np.concatenate(parts, axis=-1))


def round_range(low: Array, high: Array) -> tuple[Array, Array]:
    """A range, each end at the next multiple outside of a power of ten that is 1 to 10 % of its width.

    Examples
    --------
    >>> round_range(np.array([-0.123, 7.0]), np.array([3.21, 7.0]))
    (array([-0.2,  7. ]), array([3.3, 7. ]))
    """
    width = high - low
    step = 10.0 ** (np.floor(np.log10(width, out=np.zeros_like(width), where=width > 0.0)) - 1.0)
    wide = width > 0.0
    return np.where(wide, np.floor(low / step) * step, low), np.where(wide, np.ceil(high / step) * step, high)


def squared_errors(agent: "Agent", predictors: Sequence[Predictor]) -> Array:
    """Squared error of each of `predictors` on the rows of `agent`, (n, len(predictors)), summed over outputs."""
    return _squared(residuals_of(agent, predictors))


def residuals_of(agent: "Agent", predictors: Sequence[Predictor]) -> Array:
    """Residuals (n, Q, K); of its own model by its own predictions, where it has any."""
    n, own = agent.n_rows, agent.own_predictions
    labels = agent.y.reshape(n, -1)
    residuals = np.empty((*labels.shape, len(predictors)))
    step = max(1, ASKED_BYTES // (8 * agent.X.shape[1]))
    for k, each in enumerate(predictors):
        if own is not None and each is agent:
            residuals[..., k] = own.reshape(n, -1) - labels
            continue
        for start in range(0, n, step):
            part = slice(start, min(start + step, n))
            rows = agent.X if step >= n else take(agent.X, part)
            residuals[part, :, k] = each.predict(rows).reshape(rows.shape[0], -1) - labels[part]
    return residuals


def _squared(residuals: Array) -> Array:
    return as_kernel_array(np.einsum("nqk,nqk->nk", residuals, residuals))


def neighbourhood_size(reach: NeighbourhoodSpec, n_rows: int, complaint: ErrorFactory) -> int:
    """How many of n rows are a neighbourhood; a number that is larger is refused."""
    if isinstance(reach.neighbours, Integral) and reach.neighbours > n_rows:
        raise complaint(f"`neighbours` must be at most the number of rows, {n_rows}; got {reach.neighbours}.")
    return reach.size(n_rows)


def _fitted_space(space: Any, agent: "Agent") -> Any:
    """`space`, fitted on the agent's rows where it needs that and has not been."""
    if space is None or not hasattr(space, "transform"):
        if space is None or callable(space):
            return space
        raise agent.error(f"`space` must have transform(X) or be callable; it is a {type(space).__name__}.")
    from sklearn.base import BaseEstimator, clone
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    if not isinstance(space, BaseEstimator):
        return space
    try:
        check_is_fitted(space)
    except NotFittedError:
        space = clone(space)
        try:
            space.fit(agent.X, agent.y)
        except Exception as error:
            raise agent.error(f"its `space` must fit its rows; it raised {describe_error(error)}.") from error
    return space


def _transform(X: Any, space: Any, complaint: ErrorFactory) -> Any:
    if space is None:
        return to_numbers(X, complaint)
    try:
        transformed = space.transform(X) if hasattr(space, "transform") else space(X)
    except Exception as error:
        raise complaint(f"its `space` must transform rows; it raised {describe_error(error)}.") from error
    transformed = to_numbers(transformed, complaint, name="space.transform(X)")
    if transformed.shape[0] != X.shape[0] or transformed.shape[1] == 0:
        raise complaint(
            f"its `space` must give each of {X.shape[0]} rows at least one feature; its shape is {transformed.shape}."
        )
    return transformed


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
    units : (n,) labels, optional
        Which person, farm or country each row is of: numbers or strings. No other agent may hold rows of the same
        unit, and `own_predictions` should come from folds of whole units. None: each row is its own unit.

    Examples
    --------
    >>> import numpy as np
    >>> north = Agent(lambda X: X[:, 0], X=[[0.0], [1.0]], y=[0.0, 2.0], name="north")
    >>> north.predict(np.array([[5.0]]))
    array([5.])
    >>> vet = Agent(lambda X: ["cat"] * len(X), [[0.0], [1.0]], ["cat", "dog"], "vet", classes=["cat", "cow", "dog"])
    >>> vet.predict(np.array([[5.0]]))
    array([[1., 0., 0.]])
    >>> clinic = Agent(lambda X: X[:, 0], [[0.0], [1.0], [2.0]], [0.0, 2.0, 1.0], "clinic", units=["bob", "ann", "bob"])
    >>> clinic.unit_codes
    array([0, 1, 0])
    """

    remote = False  # whether another organisation answers for it, which may lie
    units: NDArray[Any] | None = None  # (n,) the label of each row's unit, as given

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
        units: Any = None,
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
        self.units = None if units is None else as_units(units, self.n_rows, self.error)

    def __repr__(self) -> str:
        size = f"{self.n_rows} rows x {self.n_features} features"
        units = "" if self.units is None else f", {self.n_units} units"
        return f"Agent({self.name!r}, {type(self.model).__name__}, {size}{units})"

    def _view(self) -> View:
        size = f"{counted(self.n_rows, 'row')} of {counted(self.n_features, 'feature')}"
        names = f": {some(self.feature_names, 8)}" if self.feature_names else ""
        lines = [f"model: {type(self.model).__name__}", f"rows: {size}{names}"]
        if self.units is not None:
            lines.append(f"units: {self.n_units}")
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
    def n_units(self) -> int:
        """How many units its rows are of; without units, as many as rows."""
        return len(self.unit_labels)

    @property
    def unit_labels(self) -> NDArray[Any]:
        """The distinct labels of its units, (U,), in the order in which they first appear."""
        return self._coded_units[0]

    @property
    def unit_codes(self) -> NDArray[np.intp]:
        """The place among `unit_labels` of each row's unit, (n,); without units 0, 1, 2, …"""
        return self._coded_units[1]

    @cached_property
    def _coded_units(self) -> tuple[NDArray[Any], NDArray[np.intp]]:
        return (np.arange(self.n_rows),) * 2 if self.units is None else code_units(self.units)

    @property
    def n_features(self) -> int:
        """How many features its rows have."""
        return int(self.X.shape[1])

    @property
    def outputs(self) -> int | None:
        """How many numbers it predicts for each row; None: one, as (n,)."""
        return int(self.y.shape[1]) if self.y.ndim == 2 else None

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes as Python writes them; none where there are no classes."""
        return () if self.classes is None else tuple(repr(each) for each in self.classes.tolist())

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
        answer = call_model(self.model.predict if hasattr(self.model, "predict") else self.model, X, self.error)
        return to_outputs(answer, X.shape[0], self.error, "predict(X)", self.outputs)

    def score_models(self, predictors: Sequence[Predictor], metric: str, space: Any) -> Scorer:
        """This agent as the scorer of all `predictors`, with `space` if it has none of its own.

        Examples
        --------
        >>> north = Agent(lambda X: 2 * X[:, 0], X=[[0.0], [1.0]], y=[0.0, 2.5], name="north")
        >>> north.score_models([north], "euclidean", None).errors  # squared, of every model on each of its rows
        array([[0.  ],
               [0.25]])
        """
        return Scorer.build(self, predictors, metric, space)

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
