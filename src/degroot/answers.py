"""Answers: the collective prediction for each point, with what lies behind it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.choice import Choice
from degroot.exceptions import InvalidInput
from degroot.explanations import Explanation, explain, overview
from degroot.flags import MISSING as MISSING
from degroot.flags import Flag as Flag
from degroot.frames import frame
from degroot.points import Array
from degroot.reprs import View, Viewed


@dataclass(frozen=True, slots=True, repr=False)
class Consensus(Viewed):
    """What a collective answers for M points. A field that was not asked for is None.

    For Q outputs, `value`, `standard_error`, `beliefs`, `influence`, `lower` and `upper` have one more axis, the last.
    The standard error says how much the answer depends on single agents: stability, not a prediction interval. With one
    agent there is nobody to leave out: standard error and influence are NaN.
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
    flags: tuple[Flag, ...] = ()  # who was left out or could not be checked, where, and why
    choice: Choice | None = None  # for the rule "auto": what was chosen, and on which evidence
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

    def explain(self, point: int, output: int | str | None = None) -> Explanation:
        """Where the answer for one point came from, in words and as plain facts.

        Parameters
        ----------
        point : int
            Its place among the points that were asked.
        output : int or str, optional
            Of several outputs, which; of classes, which, by its name. By default the first output, or the most likely
            class.
        """
        return explain(self, point, output)

    def to_frame(self, library: str = "pandas", fields: Sequence[str] | str | None = None) -> Any:
        """The answer as a data frame, a row for each point.

        Parameters
        ----------
        library : ``"pandas"`` or ``"polars"``
        fields : names, optional
            Fields of the answer, ``"missing"`` and ``"flags"``. By default all that it holds but trust, which has a
            column for every pair of agents.

        Returns
        -------
        frame
            With the columns that ``degroot predict`` writes: ``value``, ``standard_error``, ``weight_north`` ...
            pandas keeps the index of the points, if they came as a pandas frame.
        """
        return frame(self, library, fields)

    def __repr__(self) -> str:
        return self._view().text()

    def _view(self) -> View:
        return overview(self)


_AXES = {
    "value": 1, "standard_error": 1, "weights": 2, "beliefs": 2, "trust": 3, "influence": 2, "lower": 1, "upper": 1,
    "sets": 1,
}  # of the fields, without outputs  # fmt: skip

FIELDS = ("value", "standard_error", "weights", "beliefs", "trust", "influence")


def asked(fields: Sequence[str] | str, known: Sequence[str]) -> list[str]:
    """The names of fields that were asked for, one or several, if all are known."""
    if not isinstance(fields, Iterable):
        raise InvalidInput(f"`fields` must be names of fields; got {fields!r}.")
    names = [fields] if isinstance(fields, str) else list(fields)
    for name in names:
        if name not in known:
            raise InvalidInput(f"`fields` must be among {', '.join(map(repr, known))}; got {name!r}.")
    return names
