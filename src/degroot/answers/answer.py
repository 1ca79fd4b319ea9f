"""Answers: the collective prediction for each point, with what lies behind it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from degroot.answers.choice import Choice, Mixture
from degroot.answers.display import View, Viewed
from degroot.answers.flags import Flag
from degroot.answers.frame import frame
from degroot.compute.compiled import Array
from degroot.exceptions import InvalidInput

if TYPE_CHECKING:
    from degroot.answers.explanation import Explanation
    from degroot.schema import Column


@dataclass(frozen=True, slots=True, repr=False)
class Consensus(Viewed):
    """What a collective answers for M points. A field that was not asked for is None.

    For Q outputs, `value`, `standard_error`, `beliefs`, `influence`, `lower` and `upper` have one more axis, the last.
    The standard error says how much the answer depends on single agents: stability, not a prediction interval. With one
    agent there is nobody to leave out: standard error and influence are NaN.

    Examples
    --------
    >>> from degroot import Agent, Collective
    >>> rows = np.arange(10.0)[:, None]
    >>> agents = [Agent(lambda X, k=k: k * X[:, 0], rows, 1.4 * rows[:, 0], f"times {k}") for k in (1, 2, 3)]
    >>> answer = Collective(agents).consult([[3.0], [5.0]])
    >>> answer
    Consensus of 3 agents on 2 points
    agents: times 1, times 2 and times 3
    point  value  standard error  largest weight
    0       4.13            1.85  times 1 0.664
    1       6.89            3.08  times 1 0.664
    fields: value, standard_error, weights, beliefs, trust, influence
    >>> answer.beliefs
    array([[ 3.,  6.,  9.],
           [ 5., 10., 15.]])
    """

    names: tuple[str, ...]
    value: Array | None = None  # (M,) the collective prediction
    standard_error: Array | None = None  # (M,) jackknife over agents
    weights: Array | None = None  # (M, K) consensus weights, rows sum to 1
    beliefs: Array | None = None  # (M, K) every agent's own prediction
    trust: Array | None = None  # (M, K, K) row i: agent i's trust in every model; with a degree, (M, K, q) in `peers`
    influence: Array | None = None  # (M, K) value with everyone, minus value without agent i
    lower: Array | None = None  # (M,) where the outcome is with the coverage that was asked for
    upper: Array | None = None  # (M,)
    sets: NDArray[np.bool_] | None = None  # (M, Q) for classes: those among which the outcome is
    correction: Array | None = None  # (M,) for an asker: value minus the weighted mean of the beliefs
    flags: tuple[Flag, ...] = ()  # who was left out or could not be checked, and which points are far: where, and why
    # for the rule "auto" what was chosen, for an asker what was mixed, and the evidence; of several askers, by name
    choice: Choice | Mixture | dict[str, Mixture] | None = None
    asker: str | NDArray[Any] | None = None  # for whom the answer is, or (M,) for each point; None: the consensus
    peers: NDArray[np.intp] | None = None  # (K, q) with a degree: whose models each agent has scored
    rounds: int | None = None  # where nodes pooled among themselves: how often, at most
    coverage: float | None = None  # that was asked for
    classes: tuple[str, ...] = ()  # whose probabilities the outputs are, as Python writes them
    index: Any = None  # of the points, where they came as a pandas frame

    @property
    def points(self) -> int:
        """How many points were asked, M."""
        return next((len(getattr(self, name)) for name in _AXES if getattr(self, name) is not None), 0)

    @property
    def outputs(self) -> int | None:
        """How many numbers a value is, Q; None: one, as (M,), or not known from what was asked for."""
        known = {name: np.shape(getattr(self, name)) for name in _AXES}
        return next((known[name][-1] for name, axes in _AXES.items() if len(known[name]) > axes), None)

    def explain(self, point: int, output: int | str | None = None, target: "Column | None" = None) -> "Explanation":
        """Where the answer for one point came from, in words and as plain facts.

        Parameters
        ----------
        point : int
            Its place among the points that were asked.
        output : int or str, optional
            Of several outputs, which; of classes, which, by its name. By default the first output, or the most likely
            class.
        target : Column, optional
            What is predicted, with its unit: the target of a schema.

        Examples
        --------
        >>> from degroot import Agent, Collective
        >>> rows = np.arange(10.0)[:, None]
        >>> agents = [Agent(lambda X, k=k: k * X[:, 0], rows, 1.4 * rows[:, 0], f"times {k}") for k in (1, 2, 3)]
        >>> print(Collective(agents[:2]).consult([[3.0], [5.0]]).explain(1))
        The collective says 6.54 for point 1.
        It depends most on times 1: without it the answer would be 10.00 (3.46 higher);
        leaving out times 2 moves it by 1.54.
        The standard error over agents is 2.50, which is no interval for the outcome.
        <BLANKLINE>
        times 1 carries it, with a weight of 0.692; next is times 2 (0.308).
        On their own the agents would say from 5.00 (times 1) to 10.00 (times 2).
        times 1 gives 0.308 of its trust to the model of times 2, which gives 0.692 to that of times 1.
        <BLANKLINE>
        agent     says  weight  without it  trusted
        times 1   5.00   0.692       10.00    0.692
        times 2  10.00   0.308        5.00    0.308
        """
        from degroot.answers.explanation import explain

        return explain(self, point, output, target)

    def to_frame(self, library: str = "pandas", fields: Sequence[str] | str | None = None) -> Any:
        """The answer as a data frame, a row for each point.

        Parameters
        ----------
        library : ``"pandas"`` or ``"polars"``
        fields : names, optional
            Fields of the answer, ``"label"`` (of classes: the most likely), ``"missing"`` and ``"flags"``. By default
            all that it holds but trust, which has a column for every pair of agents.

        Returns
        -------
        frame
            With the columns that ``degroot predict`` writes: ``value``, ``standard_error``, ``weight_north`` ...
            pandas keeps the index of the points, if they came as a pandas frame.

        Examples
        --------
        >>> from degroot import Agent, Collective
        >>> rows = np.arange(10.0)[:, None]
        >>> agents = [Agent(lambda X, k=k: k * X[:, 0], rows, 1.4 * rows[:, 0], f"times {k}") for k in (1, 2, 3)]
        >>> Collective(agents).consult([[3.0], [5.0]], fields=["value", "weights"]).to_frame().round(3)
           value  weight_times 1  weight_times 2  weight_times 3
        0  4.134           0.664           0.295           0.041
        1  6.889           0.664           0.295           0.041
        """
        return frame(self, library, fields)

    def __repr__(self) -> str:
        return self._view().text()

    def _view(self) -> View:
        from degroot.answers.display.overview import overview

        return overview(self)


_AXES = {
    "value": 1, "standard_error": 1, "weights": 2, "beliefs": 2, "trust": 3, "influence": 2, "lower": 1, "upper": 1,
    "sets": 1, "correction": 1,
}  # of the fields, without outputs  # fmt: skip

FIELDS = ("value", "standard_error", "weights", "beliefs", "trust", "influence")
ASKER_FIELDS = ("value", "standard_error", "weights", "beliefs", "influence", "correction")  # of an asker's view


def check_fields(fields: Sequence[str] | str, known: Sequence[str]) -> list[str]:
    """The names of the asked fields, one or several, if all are known."""
    if not isinstance(fields, Iterable):
        raise InvalidInput(f"`fields` must be names of fields; got {fields!r}.")
    names = [fields] if isinstance(fields, str) else list(fields)
    for name in names:
        if name not in known:
            raise InvalidInput(f"`fields` must be among {', '.join(map(repr, known))}; got {name!r}.")
    return names


def interval_fields(coverage: float | None, classes: Sequence[Any]) -> tuple[str, ...]:
    """The fields that a coverage brings: bounds of numbers or, where there are classes, sets of them.

    Examples
    --------
    >>> interval_fields(0.9, ()), interval_fields(0.9, ("'cat'", "'dog'")), interval_fields(None, ())
    (('lower', 'upper'), ('sets',), ())
    """
    if coverage is None:
        return ()
    return ("sets",) if classes else ("lower", "upper")


def drop_output_axis(known: dict[str, Any]) -> dict[str, Any]:
    """The fields of an answer with one output, without the axis of outputs."""
    return {name: array if name in ("weights", "trust") else array[..., 0] for name, array in known.items()}
