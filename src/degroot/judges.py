"""Judges: an agent's view of all models, how well they do on its own rows near a point."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from degroot.evidence import Evidence, Peers, Reach, pooled
from degroot.exceptions import InvalidInput
from degroot.expectations import Expectations
from degroot.neighbourhoods import Neighbourhoods
from degroot.points import Array, for_kernels
from degroot.rules import LOCAL
from degroot.tables import Complaint, is_frame, take, to_numbers, told

if TYPE_CHECKING:
    from degroot.agents import Agent

ASKED_BYTES = 1 << 26  # of rows, put to a model at once: agents may hold more rows than fit into memory


class Predictor(Protocol):
    """Whoever has a model."""

    def predict(self, X: Any) -> Array:
        """One prediction for each row."""


@dataclass(frozen=True)
class Judge:
    """An agent's view of all models: how they do on its rows, and where those rows lie."""

    agent: "Agent"
    space: Any  # what takes rows to where distances are taken; None: they stay where they are
    rows: Any  # (n, d) where distances are taken
    metric: str
    residuals: Array  # (n, Q, K) of every model on the agent's rows, for each output
    errors: Array  # (n, K) their squares, summed over the outputs
    near: dict[Reach, Neighbourhoods] = field(default_factory=dict)
    kept: dict[str, NDArray[Any]] = field(default_factory=dict)  # what neighbourhoods of any reach need not make anew
    source: Callable[[], Any] | None = None  # gives agent and judge again, in another process, where they are in files

    @classmethod
    def appoint(cls, agent: "Agent", predictors: Sequence[Predictor], metric: str, space: Any = None) -> "Judge":
        """Make `agent` the judge of all `predictors`. Its own space goes before `space`."""
        space = _fitted_space(agent.space if agent.space is not None else space, agent)
        rows = _located(agent.X, space, agent.error)
        residuals = residuals_of(agent, predictors)
        return cls(agent, space, rows, metric, residuals, _squared(residuals))

    def with_residuals(self, residuals: Array) -> "Judge":
        """The same judge of models with these residuals (n, Q, K) on its rows."""
        together = for_kernels(residuals)
        return replace(self, residuals=together, errors=_squared(together), source=None)

    def size(self, reach: Reach) -> int:
        """How many of its rows are a neighbourhood."""
        return neighbourhood_size(reach, self.agent.n_rows, self.agent.error)

    def ready(self, reach: Reach) -> None:
        """Make neighbourhoods of that reach."""
        if reach not in self.near:
            near = Neighbourhoods(self.rows, self.size(reach), self.metric, reach.kernel, kept=self.kept)
            self.kept.update(near.kept())
            self.near[reach] = near

    def locate(self, X: Any) -> Any:
        """`X` where distances are taken."""
        if is_frame(X) and not is_frame(self.agent.X):
            X = np.asarray(X)  # a space that was fitted without names takes none
        located = _located(X, self.space, self.agent.error if self.space is not None else InvalidInput)
        if located.shape[1] != self.rows.shape[1]:
            raise self.agent.error(
                f"its `space` must give points {self.rows.shape[1]} features, as it gave its rows; "
                f"got {located.shape[1]}."
            )
        return located

    def testify(
        self, into: Evidence, place: int, located: Any, reach: Reach, left_out: NDArray[np.intp] | None = None
    ) -> None:
        """What this judge finds near the `located` points, into slot `place`; `left_out`: a row for each point."""
        near = self.near[reach]
        if into.moments is None:
            near.means_into(into.errors, place, located, self.errors, left_out, into.spread, into.effective)
        else:
            near.moments_into(into.moments, place, located, self.residuals, left_out, into.spread, into.effective)

    def expectations(self) -> Expectations:
        """What this judge expects every model to say near its rows."""
        self.ready(LOCAL)
        answers = self.residuals + self.agent.y.reshape(len(self.errors), -1, 1)
        return Expectations(self.rows, answers, self.errors, self.near[LOCAL])

    def label_range(self) -> tuple[Array, Array]:
        """Where its labels lie, for each output, in round numbers, so that as a rule no single label is told.

        It is told where the least or the greatest label is a round number itself, and where all labels are the same.
        """
        labels = self.agent.y.reshape(len(self.errors), -1)
        return rounded(labels.min(axis=0), labels.max(axis=0))

    def with_model(self, place: int, predictor: Predictor) -> "Judge":
        """The same judge, with `predictor` in the place of the model at `place`, or after the last."""
        return self._with_model(place, residuals_of(self.agent, [predictor]))

    def without_model(self, place: int) -> "Judge":
        """The same judge, without the model at `place`."""
        return self._with_model(place, self.residuals[..., :0])

    def _with_model(self, place: int, residuals: Array) -> "Judge":
        parts = [self.residuals[..., :place], residuals, self.residuals[..., place + 1 :]]
        return self.with_residuals(np.concatenate(parts, axis=-1))


def gather(
    judges: Sequence[Judge],
    located: Sequence[Any],
    reach: Reach,
    *,
    moments: bool = False,
    spread: bool = False,
    refuse: bool = True,
    own: tuple[int, NDArray[np.intp]] | None = None,
    peers: Peers | None = None,
) -> Evidence:
    """What all judges find near M points, each `located` by each judge; with `peers`, of the models that each scores.

    With `own` the points are rows of one of them, its place and their numbers: it leaves each out. Unless told not to
    `refuse`, nobody's errors and distances may be negative or not numbers.
    """
    M, K = located[0].shape[0], len(judges)
    models = K if peers is None else peers.shape[1]
    found = Evidence.blank(M, K, models, moments=moments, spread=spread, peers=peers)
    for i, (judge, points) in enumerate(zip(judges, located, strict=True)):
        judge.testify(found, i, points, reach, own[1] if own is not None and own[0] == i else None)
        if refuse and type(judge) is not Judge:
            check_possible(judge, found, i)
    return found.complete()


def gather_pooled(judges: Sequence[Judge], located: Sequence[Any], reach: Reach) -> Evidence:
    """The pooled moments alone, which is all that weights need: each judge's own are not kept."""
    M, K = located[0].shape[0], len(judges)
    one = Evidence.blank(M, 1, K, moments=True)

    def testimonies() -> Iterator[Evidence]:
        for judge, points in zip(judges, located, strict=True):
            judge.testify(one, 0, points, reach)
            if type(judge) is not Judge:
                check_possible(judge, one, 0)
            yield one

    return pooled(testimonies(), K) or gather(judges, located, reach, moments=True)


def check_possible(judge: Judge, found: Evidence, place: int) -> None:
    """Refuse a judge's errors, or distances, that no rows could give. (Those of a plain `Judge` come from rows.)"""
    if not found.possible(place):
        raise judge.agent.error("its errors and distances must be numbers that are not negative; some are not.")


def rounded(low: Array, high: Array) -> tuple[Array, Array]:
    """A range, each end at the next multiple outside of a power of ten that is 1 to 10 % of its width.

    Examples
    --------
    >>> rounded(np.array([-0.123, 7.0]), np.array([3.21, 7.0]))
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
    return for_kernels(np.einsum("nqk,nqk->nk", residuals, residuals))


def neighbourhood_size(reach: Reach, n_rows: int, complaint: Complaint) -> int:
    """How many of n rows are a neighbourhood: an integer as it is; a fraction rounded down, in bounds."""
    neighbours = reach.neighbours
    if isinstance(neighbours, Integral):
        if neighbours > n_rows:
            raise complaint(f"`neighbours` must be at most the number of rows, {n_rows}; got {neighbours}.")
        return int(neighbours)
    return min(n_rows, max(reach.least, int(neighbours * n_rows * (1 + 1e-12))), reach.most or n_rows)


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
            raise agent.error(f"its `space` must fit its rows; it raised {told(error)}.") from error
    return space


def _located(X: Any, space: Any, complaint: Complaint) -> Any:
    if space is None:
        return to_numbers(X, complaint)
    try:
        located = space.transform(X) if hasattr(space, "transform") else space(X)
    except Exception as error:
        raise complaint(f"its `space` must transform rows; it raised {told(error)}.") from error
    located = to_numbers(located, complaint, name="space.transform(X)")
    if located.shape[0] != X.shape[0] or located.shape[1] == 0:
        raise complaint(
            f"its `space` must give each of {X.shape[0]} rows at least one feature; its shape is {located.shape}."
        )
    return located
