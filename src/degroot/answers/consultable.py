"""Whatever answers questions: a collective in this process, or one whose agents are nodes."""

from collections.abc import Sequence
from typing import Any, Protocol

from degroot.answers.answer import FIELDS, Consensus
from degroot.compute.compiled import Array
from degroot.schema import Schema


class Consultable(Protocol):
    """What a `Collective` and a `RemoteCollective` have in common. Code that only asks takes either.

    Examples
    --------
    >>> import numpy as np
    >>> class Constant:
    ...     names, feature_names, schema, outputs, classes, takes_gaps = ("a",), None, None, None, (), False
    ...     def predict(self, X): return np.ones(len(X))
    ...     def consult(self, X, fields=FIELDS, *, coverage=None, asker=None, correct=None, absent=()):
    ...         return Consensus(self.names, value=self.predict(X))
    ...     def calibrate(self): return self
    >>> one: Consultable = Constant()
    >>> one.consult([[0.0], [1.0]]).value
    array([1., 1.])
    """

    @property
    def names(self) -> tuple[str, ...]:
        """The agents' names, in order."""

    @property
    def feature_names(self) -> list[str] | None:
        """The names of the features, if they have any."""

    @property
    def schema(self) -> Schema | None:
        """What the columns are, where rows are not all plain numbers."""

    @property
    def outputs(self) -> int | None:
        """Number of outputs Q of a prediction; None: one, as (M,)."""

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes whose probabilities are the outputs, as Python writes them; empty for regression."""

    @property
    def takes_gaps(self) -> bool:
        """Whether points may hold NaN."""

    def predict(self, X: Any) -> Array:
        """The collective prediction for each row of `X`, (M,) or (M, Q)."""

    def consult(
        self,
        X: Any,
        fields: Sequence[str] | str = FIELDS,
        *,
        coverage: float | None = None,
        asker: Any = None,
        correct: Any = None,
        absent: Sequence[str] = (),
    ) -> Consensus:
        """The collective prediction with what lies behind it; with a `coverage`, also prediction intervals.

        `asker`: whose view; of a node, its own only. `correct`: whether that is corrected by the asker's rows.
        `absent`: columns of the schema that rows do not have.
        """

    def calibrate(self) -> "Consultable":
        """Itself, ready for questions with a `coverage`."""
