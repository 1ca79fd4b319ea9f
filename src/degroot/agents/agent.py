"""Agents, a model and private rows each, and scorers: an agent's errors of every model on these rows."""

import warnings
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Integral
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from degroot.agents.abstention import (
    ColumnMask,
    Mask,
    blank_columns,
    complete_predictions,
    find_gap_rows,
    find_needed,
    has_gaps,
)
from degroot.agents.classification import (
    as_probabilities,
    is_sklearn_classifier,
    known_classes,
    one_hot,
    probabilities,
)
from degroot.agents.units import as_units, code_units
from degroot.answers.display import View, Viewed, counted, one_line, some
from degroot.compute.compiled import Array, as_kernel_array
from degroot.compute.tables import (
    ErrorFactory,
    as_floats,
    as_table,
    call_model,
    column_names,
    is_frame,
    take,
    to_numbers,
    to_outputs,
)
from degroot.exceptions import AgentError, HardLabelsWarning, InvalidInput, NumberedLabelsWarning, describe_error
from degroot.files.source import PEERS
from degroot.guard.forecast import AnswerForecaster, GuardStandards
from degroot.neighbourhoods import Neighbourhoods
from degroot.rules.evidence import Evidence, NeighbourhoodSpec
from degroot.rules.rules import STACKING_NEIGHBOURHOOD
from degroot.schema import FrameForm, Schema, SchemaSpace, encode_frame, infer_form, is_mixed
from degroot.schema.frames import check_zones

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
    unscored: Mask | None = None  # (K,) models that abstain on all rows, whose residuals are stand-ins; None: none

    @classmethod
    def build(cls, agent: "Agent", predictors: Sequence[Predictor], metric: str, space: Any = None) -> "Scorer":
        """Make `agent` the scorer of all `predictors`. Its own space goes before `space`, its schema's after that."""
        space = _fitted_space(agent.space if agent.space is not None else space, agent)
        rows = _transform(agent.X, space, agent)
        residuals, unscored = score_rows(agent, predictors)
        return cls(agent, space, rows, metric, residuals, _squared(residuals), unscored=unscored)

    def with_residuals(self, residuals: Array, unscored: Mask | None = None) -> "Scorer":
        """The same scorer of models with these residuals (n, Q, K) on its rows; those `unscored` (K,) are stand-ins."""
        together = as_kernel_array(residuals)
        if unscored is not None and not unscored.any():
            unscored = None
        return replace(self, residuals=together, errors=_squared(together), source=None, unscored=unscored)

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
        X = self.agent.encode_rows(X)
        if is_frame(X) and not is_frame(self.agent.X):
            X = np.asarray(X)  # a space that was fitted without names takes none
        X = blank_columns(X, self.agent.lacks)
        transformed = _transform(X, self.space, self.agent)
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
        return self._with_model(place, *score_rows(self.agent, [predictor]))

    def without_model(self, place: int) -> "Scorer":
        """The same scorer, without the model at `place`."""
        return self._with_model(place, self.residuals[..., :0], None)

    def _with_model(self, place: int, residuals: Array, unscored: Mask | None) -> "Scorer":
        """With these residuals (n, Q, 0 or 1) in the place of those of the model there."""
        parts = [self.residuals[..., :place], residuals, self.residuals[..., place + 1 :]]
        known = np.zeros(self.residuals.shape[2], np.bool_) if self.unscored is None else self.unscored
        new = np.zeros(residuals.shape[2], np.bool_) if unscored is None else unscored
        marks = np.concatenate([known[:place], new, known[place + 1 :]])
        return self.with_residuals(np.concatenate(parts, axis=-1), marks)


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
    """Residuals (n, Q, K); of its own model by its own predictions, where it has any. See `score_rows`."""
    return score_rows(agent, predictors)[0]


def score_rows(agent: "Agent", predictors: Sequence[Predictor]) -> tuple[Array, Mask | None]:
    """Residuals (n, Q, K) of all models on the rows of `agent`, and which of these models abstain on all of them, (K,).

    Where a model abstains, its residual is a stand-in (`degroot.agents.abstention.complete_predictions`); None in the
    place of the marks: every model answers some row.
    """
    labels = agent.y.reshape(agent.n_rows, -1)
    residuals, unscored = np.empty((*labels.shape, len(predictors))), np.zeros(len(predictors), np.bool_)
    own: Array | None = None
    for k, each in enumerate(predictors):
        said = predict_rows(agent, each)
        silent = np.isnan(said[:, 0])
        if silent.any():
            unscored[k] = silent.all()
            own = predict_rows(agent, agent) if own is None else own
            said = complete_predictions(said, own, labels)
        residuals[..., k] = said - labels
    return residuals, unscored if unscored.any() else None


def predict_rows(agent: "Agent", predictor: Predictor) -> Array:
    """What a model says of the rows of `agent`, (n, Q): NaN where it abstains, honest predictions of its own model."""
    n = agent.n_rows
    if agent.own_predictions is not None and predictor is agent:
        return agent.own_predictions.reshape(n, -1)
    step = max(1, ASKED_BYTES // (8 * agent.X.shape[1]))
    if step >= n:
        return predict_where_able(predictor, agent.X, agent.lacks)
    said = np.empty(agent.y.reshape(n, -1).shape)
    for start in range(0, n, step):
        part = slice(start, min(start + step, n))
        said[part] = predict_where_able(predictor, take(agent.X, part), agent.lacks)
    return said


def predict_where_able(predictor: Predictor, X: Any, absent: ColumnMask = None) -> Array:
    """One prediction for each row of `X`, (M, Q); NaN where the model abstains: it is not called for these rows.

    `absent`: columns (d,) that these rows do not have.
    """
    M = X.shape[0]
    abstains = predictor.find_abstentions(X, absent) if isinstance(predictor, Agent) else None
    if abstains is None:
        return predictor.predict(X).reshape(M, -1)
    said = np.full((M, getattr(predictor, "outputs", None) or 1), np.nan)
    rows = np.flatnonzero(~abstains)
    if len(rows):
        said[rows] = predictor.predict(take(X, rows)).reshape(len(rows), -1)
    return said


def find_able_rows(agent: "Agent") -> NDArray[np.intp]:
    """The numbers of an agent's rows for which its own model does not abstain."""
    abstains = agent.find_abstentions(agent.X)
    return np.arange(agent.n_rows) if abstains is None else np.flatnonzero(~abstains)


def try_model(agent: "Agent") -> None:
    """Ask an agent's model about one of its rows: a model that does not fit them is found here."""
    able = find_able_rows(agent)
    if not len(able):
        raise agent.error("its model must answer some of its rows; it takes no gaps, and all of them have some.")
    agent.predict(take(agent.X, able[:1]))


def _squared(residuals: Array) -> Array:
    return as_kernel_array(np.einsum("nqk,nqk->nk", residuals, residuals))


def neighbourhood_size(reach: NeighbourhoodSpec, n_rows: int, complaint: ErrorFactory) -> int:
    """How many of n rows are a neighbourhood; a number that is larger is refused."""
    if isinstance(reach.neighbours, Integral) and reach.neighbours > n_rows:
        raise complaint(f"`neighbours` must be at most the number of rows, {n_rows}; got {reach.neighbours}.")
    return reach.size(n_rows)


def _fitted_space(space: Any, agent: "Agent") -> Any:
    """`space`, fitted on the agent's rows where it needs that and has not been; by default that of its schema."""
    if space is None and agent.schema is not None:
        return SchemaSpace.of(agent.schema).fit(agent.X)
    if isinstance(space, SchemaSpace):
        return space if space.is_fitted else space.fit(agent.X)
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
        space, rows = clone(space), agent.restore_rows(agent.X)
        try:
            space.fit(rows, agent.y)
        except Exception as error:
            hint = " Without `space`, distances are taken by the schema." if is_mixed(rows) else ""
            raise agent.error(f"its `space` must fit its rows; it raised {describe_error(error)}.{hint}") from error
    return space


def _transform(X: Any, space: Any, agent: "Agent") -> Any:
    """`X` where distances are taken; a space of the user's own gets the rows as the agent's model gets them."""
    if space is None:
        return to_numbers(X, agent.error if X is agent.X else InvalidInput)
    complaint = agent.error
    rows = X if isinstance(space, SchemaSpace) else agent.restore_rows(X)
    try:
        transformed = space.transform(rows) if hasattr(space, "transform") else space(rows)
    except Exception as error:
        raise complaint(f"its `space` must transform rows; it raised {describe_error(error)}.") from error
    transformed = to_numbers(transformed, complaint, name="space.transform(X)")
    if transformed.shape[0] != X.shape[0] or transformed.shape[1] == 0:
        raise complaint(
            f"its `space` must give each of {X.shape[0]} rows at least one feature; its shape is {transformed.shape}."
        )
    return transformed


def _find_lacking(numbers: Array) -> NDArray[np.bool_] | None:
    """Which columns hold nothing but gaps, (d,); None: none."""
    lacking = np.asarray(np.isnan(numbers).all(axis=0))
    return lacking if len(numbers) and lacking.any() else None


class Agent(Viewed):
    """One organisation: a trained model and the rows that it keeps to itself.

    Parameters
    ----------
    model : object with ``predict(X)``, or a callable
        Gives one number for each row, or as many as `y` has columns.
    X : (n, d) array, frame or sparse matrix
        Private rows, on which this agent scores every model. They need not be the model's training rows. A frame may
        have categories, texts, booleans, dates and gaps: its model gets such frames, of the same types (where integers
        cannot hold what is asked, such as 1.5 or a gap, and of decimals, floating-point numbers).
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
        of a model with ``predict_proba``, or 1 and 0, with a `HardLabelsWarning`, of one that gives labels only. A
        class that the model has not seen has probability 0. Without `classes` the labels of a classifier are averaged
        as numbers, with a `HardLabelsWarning` too.
    units : (n,) labels, optional
        Which person, farm or country each row is of: numbers or strings. No other agent may hold rows of the same
        unit, and `own_predictions` should come from folds of whole units. None: each row is its own unit.
    schema : Schema, optional
        What the columns are, as the members have agreed. A frame need not have all of them: those that it lacks are not
        collected here. An array holds numbers by the schema. By default the schema follows from the frame's types,
        where it is not all numbers.

    Attributes
    ----------
    X : where there is a schema, the rows as numbers by it, (n, d), NaN for gaps; otherwise as given
    schema : what the columns are; None where rows are plain numbers
    lacks : (d,) which columns of the schema it does not have; None: it has all

    Examples
    --------
    >>> import numpy as np
    >>> north = Agent(lambda X: X[:, 0], X=[[0.0], [1.0]], y=[0.0, 2.0], name="north")
    >>> north.predict(np.array([[5.0]]))
    array([5.])
    >>> vet = Agent(lambda X: [[0.9, 0.1]] * len(X), [[0.0], [1.0]], ["cat", "dog"], "vet", classes=["cat", "dog"])
    >>> vet.predict(np.array([[5.0]]))
    array([[0.9, 0.1]])
    >>> clinic = Agent(lambda X: X[:, 0], [[0.0], [1.0], [2.0]], [0.0, 2.0, 1.0], "clinic", units=["bob", "ann", "bob"])
    >>> clinic.unit_codes
    array([0, 1, 0])
    """

    remote = False  # whether another organisation answers for it, which may lie
    units: NDArray[Any] | None = None  # (n,) the label of each row's unit, as given
    schema: Schema | None = None
    form: FrameForm | None = None  # of the frames that its model takes; None: it takes the rows as they are
    frame: Any = None  # its rows as they were given, where they became numbers
    source: Callable[[], Any] | None = None  # gives it and its scorer again, in another process, where it was saved
    has_agreed_schema = False  # whether the schema was given, and not inferred from its own rows
    lacks: ColumnMask = None  # (d,) columns that it does not collect: NaN in its rows, and not taken by its model
    _has_warned = False  # that its model gives labels without probabilities

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
        schema: Schema | None = None,
    ) -> None:
        if not isinstance(name, str) or not name:
            raise InvalidInput(f"An agent's `name` must be a string that is not empty; got {name!r}.")
        self.name, self.model, self.space = name, model, space
        if not (hasattr(model, "predict") or callable(model)):
            raise self.error(f"its model must have predict(X) or be callable; it is a {type(model).__name__}.")
        self.has_agreed_schema = schema is not None
        self._take_rows(X, schema)
        if self.X.shape[0] == 0:
            raise self.error("it must hold at least one row; it has none.")
        if self.X.shape[1] == 0:
            raise self.error("its rows must have at least one feature; they have none.")
        self.classes = None if classes is None else known_classes(classes, self.error)
        self.y = self._labels(y)
        self.scored_by_peers = isinstance(own_predictions, str) and own_predictions == PEERS
        self.own_predictions = self._own(own_predictions)
        self.units = None if units is None else as_units(units, self.n_rows, self.error)
        if self.classes is None and is_sklearn_classifier(model):
            warnings.warn(NumberedLabelsWarning(name, type(model).__name__), stacklevel=2)

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
        """The names of its features, if its rows are a frame or have a schema."""
        return column_names(self.X) if self.schema is None else list(self.schema.names)

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
        rows = self.restore_rows(X)
        if self.classes is not None:
            return probabilities(self.model, rows, self.classes, self.error, self._warn_of_hard_labels)
        answer = call_model(self.model.predict if hasattr(self.model, "predict") else self.model, rows, self.error)
        return to_outputs(answer, X.shape[0], self.error, "predict(X)", self.outputs)

    def encode_rows(self, X: Any) -> Any:
        """Rows as numbers by the schema, where they are a frame and there is a schema; otherwise as they are.

        Examples
        --------
        >>> import pandas as pd
        >>> rows = pd.DataFrame({"town": ["Bern", "Basel", None], "size": [1.0, 2.0, 3.0]})
        >>> Agent(lambda X: X["size"], rows, [1.0, 2.0, 4.0], "north").encode_rows(rows)
        array([[ 1.,  1.],
               [ 0.,  2.],
               [nan,  3.]])
        """
        if self.schema is None or not is_frame(X):
            return X
        self.check_zones(X)
        try:
            return encode_frame(X, self.schema)
        except InvalidInput as error:
            raise self.error(str(error)) from error

    def check_zones(self, X: Any) -> None:
        """Refuse a frame whose dates have a time zone where those of its own frame have none, and the reverse.

        By an agreed schema, rows from files are in UTC, whether or not they say so.

        Examples
        --------
        >>> import pandas as pd
        >>> rows = pd.DataFrame({"day": pd.to_datetime(["2024-01-31", "2024-02-29"])})
        >>> north = Agent(lambda X: [1.0] * len(X), rows, [1.0, 2.0], "north")
        >>> north.check_zones(rows.assign(day=rows["day"].dt.tz_localize("Europe/Zurich").dt.as_unit("us")))
        Traceback (most recent call last):
        degroot.exceptions.InvalidInput: Column 'day' must have no time zone, as the rows of agent 'north' \
(datetime64[us]); got datetime64[us, Europe/Zurich].
        """
        form = self.typed_form
        if form is not None and is_frame(X):
            check_zones(X, form, f"agent {self.name!r}")

    @property
    def typed_form(self) -> FrameForm | None:
        """The form of its frames, of columns with values, where its own rows say it; None: an agreed schema does."""
        if self.form is None or self.schema is None or (self.frame is None and self.has_agreed_schema):
            return None
        lacking = self.schema.list_marked(self.lacks)
        return self.form.among([name for name in self.schema.names if name not in lacking])

    def restore_rows(self, X: Any) -> Any:
        """Rows in the form that its model takes: frames of the types that it was given, or numbers by the schema.

        Examples
        --------
        >>> import pandas as pd
        >>> rows = pd.DataFrame({"town": ["Bern", "Basel"], "size": [1.0, 2.0]})
        >>> north = Agent(lambda X: X["size"], rows, [1.0, 2.0], "north")
        >>> north.restore_rows([[0.0, 5.0]])
            town  size
        0  Basel   5.0
        """
        numbers = np.asarray(self.encode_rows(X)) if self.schema is not None else X
        return numbers if self.form is None or self.schema is None else self.form.restore(numbers, self.schema)

    def with_schema(self, schema: Schema) -> "Agent":
        """The same agent with its rows as numbers by `schema`, which has all its columns and categories.

        Examples
        --------
        >>> import pandas as pd
        >>> from degroot.schema import Column, Schema
        >>> rows = pd.DataFrame({"town": ["Bern", "Basel"]})
        >>> towns = Schema((Column("town", "category", ("Aarau", "Basel", "Bern")),))
        >>> Agent(lambda X: [1.0] * len(X), rows, [1.0, 2.0], "north").with_schema(towns).X.ravel()
        array([2., 1.])
        """
        if self.schema is not None and self.schema == schema:
            return self
        other = self.copy_without_caches()
        own, numbers = self.schema, self.X
        if own is None:
            own, other.form = infer_form(self.X)
            numbers, other.frame = encode_frame(self.X, own), self.X
        other.X, other.schema = own.recode(numbers, schema), schema
        other.lacks = _find_lacking(other.X)
        return other

    def without_inferred_schema(self) -> "Agent":
        """The same agent with its rows as they were given, where their schema was inferred: for spaces of users.

        Examples
        --------
        >>> import pandas as pd
        >>> rows = pd.DataFrame({"town": ["Bern", "Basel"]})
        >>> Agent(lambda X: [1.0] * len(X), rows, [1.0, 2.0], "north").without_inferred_schema().X is rows
        True
        """
        if self.schema is None or self.has_agreed_schema or self.frame is None:
            return self
        other = self.copy_without_caches()
        other.X, other.schema, other.form, other.lacks, other.frame = self.frame, None, None, None, None
        return other

    def copy_without_caches(self) -> Self:
        """A copy whose model or rows may be changed: what was found by trying the model is found anew.

        Examples
        --------
        >>> north = Agent(lambda X: X[:, 0], X=[[0.0, 1.0]], y=[0.0], name="north")
        >>> north.takes_gaps, "takes_gaps" in vars(north), "takes_gaps" in vars(north.copy_without_caches())
        (False, True, False)
        """
        other = copy(self)
        for name in ("takes_gaps", "optional", "_takes_gap_in"):
            vars(other).pop(name, None)
        return other

    def _take_rows(self, X: Any, schema: Schema | None) -> None:
        """Set its rows: as numbers by a schema, with the form of its frames; plain rows, or with a space, as given."""
        if schema is None and (self.space is not None or not is_mixed(X)):
            self.X = as_table(X, self.error)
            return
        if is_frame(X):
            try:
                inferred, form = infer_form(X)
            except InvalidInput as error:
                raise self.error(str(error)) from error
            self.schema = inferred if schema is None else schema
            self.form, self.frame = form.among(self.schema.names), X
            self.X = self.encode_rows(X)
        else:
            self.schema = schema
            self.X = self._check_numbers(as_table(X, self.error))
        self.lacks = _find_lacking(self.X)

    def _check_numbers(self, X: Any) -> Array:
        """Rows that are numbers by the schema already."""
        numbers = np.ascontiguousarray(as_floats(np.asarray(X), self.error, "X"))
        schema = self.schema
        if schema is not None and numbers.shape[1] != len(schema.names):
            raise self.error(
                f"`X` must have {len(schema.names)} columns, as the schema has; it has {numbers.shape[1]}."
            )
        if schema is not None:
            try:
                schema.check_numbers(numbers)
            except InvalidInput as error:
                raise self.error(str(error)) from error
        return numbers

    @cached_property
    def takes_gaps(self) -> bool:
        """Whether its model answers where any input may be missing: it is asked about a row in which all are."""
        return self._answers_without(np.ones(self.n_features, np.bool_))

    @cached_property
    def optional(self) -> ColumnMask:
        """Columns (d,) that its model can do without; None: none.

        These are the columns that the agent lacks and, if its model accepts gaps there, those in which its own rows
        have gaps: a row of a site that does not collect such a column is to the model one more row with a gap.
        """
        if not has_gaps(self.X):
            return self.lacks
        gaps = np.asarray(np.isnan(self.X).any(axis=0))
        return gaps if self._answers_without(gaps) else self.lacks

    def _answers_without(self, columns: Mask) -> bool:
        """Whether its model gives a finite answer where these columns (d,) are missing: for its first row."""
        had_warned = self._has_warned
        with warnings.catch_warnings(action="ignore"):
            try:
                row = np.array(take(self.X, slice(0, 1)), np.float64)
                row[:, columns] = np.nan
                return bool(np.isfinite(self.predict(row)).all())
            except Exception:  # whatever a model makes of NaN
                return False
            finally:
                self._has_warned = had_warned  # nobody has seen a warning of this trial

    def find_abstentions(self, X: Any, absent: ColumnMask = None) -> Mask | None:
        """For which rows of `X` its model lacks an input and abstains, (M,); None: for none.

        It abstains everywhere if it needs a column that is `absent`, (d,), one that is not `optional`, and elsewhere at
        rows with a gap in such a column, unless it takes gaps in all of them.

        Examples
        --------
        >>> import numpy as np
        >>> north = Agent(lambda X: X[:, 0], X=[[0.0, 1.0]], y=[0.0], name="north")
        >>> X = np.array([[5.0, 1.0], [np.nan, 1.0]])
        >>> north.find_abstentions(X), north.find_abstentions(X, absent=np.array([False, True]))
        (array([False,  True]), array([ True,  True]))
        """
        if absent is not None and find_needed(absent, self.optional) is not None:
            return np.ones(X.shape[0], np.bool_)
        rows = find_gap_rows(X, self.optional) if has_gaps(X) else None
        if rows is None or self.takes_gaps:
            return None
        return rows if self.form is None else find_gap_rows(X, self._find_dispensable(X))

    def _find_dispensable(self, X: Array) -> Mask:
        """Optional columns (d,), and those with gaps in `X` in which its model takes a gap: a pipeline may in some."""
        dispensable = np.zeros(self.n_features, np.bool_) if self.optional is None else self.optional.copy()
        for place in np.flatnonzero(np.isnan(X).any(axis=0) & ~dispensable).tolist():
            if place not in self._takes_gap_in:
                self._takes_gap_in[place] = self._answers_without(np.arange(self.n_features) == place)
            dispensable[place] = self._takes_gap_in[place]
        return dispensable

    @cached_property
    def _takes_gap_in(self) -> dict[int, bool]:
        """Whether its model answers without one of the columns, as far as that was tried."""
        return {}

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

    def _warn_of_hard_labels(self) -> None:
        """Warn, once for each agent, that its model gives labels without probabilities."""
        if not self._has_warned:
            self._has_warned = True
            warnings.warn(HardLabelsWarning(self.name, type(self.model).__name__), stacklevel=4)

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
