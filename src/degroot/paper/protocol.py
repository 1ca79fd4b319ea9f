"""The paper's protocol on real data: split the rows, deal them to agents unlike each other, train a model each."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from degroot import Agent, InvalidInput, partitions
from degroot.paper.data.datasets import Data

Array = NDArray[np.float64]
Rows = NDArray[np.intp]
MakeModel: TypeAlias = Callable[[int], Any]  # from an agent's number, 0 .. K - 1, to a model that is not trained yet


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """How rows become agents. Where the paper can be read in several ways, the reading is a setting."""

    agents: int = 5
    fraction: float = 0.5  # p: the share of the rows that is dealt in the order of the label or of a feature
    neighbours: float = 0.01
    n_test: int | None = None  # None: max(0.15 n, 500), or 0.15 n where that would leave less than half of the rows
    features: str = "raw"  # or "scaled": each to [-1, 1], as in the copies of LIBSVM that end in "_scale"


@dataclass(frozen=True)
class Split:
    """Row numbers: for testing, held out for the CV schemes, and of each agent."""

    test: Rows
    held_out: Rows
    parts: list[Rows]


def table(data: Data, protocol: Protocol) -> Any:
    """The features, (n, d), as the protocol wants them."""
    if protocol.features == "raw":
        return data.X
    if protocol.features != "scaled":
        raise InvalidInput(f"`features` must be 'raw' or 'scaled'; got {protocol.features!r}.")
    from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler

    scaler = MaxAbsScaler() if hasattr(data.X, "tocsr") else MinMaxScaler((-1.0, 1.0))  # zeros stay zeros where sparse
    return scaler.fit_transform(data.X)


def feature(X: Any, number: int) -> Array:
    """A column of the table, counted from 1 as in LIBSVM's files."""
    if not 1 <= number <= X.shape[1]:
        raise InvalidInput(f"A feature must be one of 1 to {X.shape[1]}, counted from 1; got {number}.")
    column: Array = X[:, number - 1]
    return column


def split(
    data: Data,
    protocol: Protocol,
    random: np.random.Generator,
    once: np.random.Generator | None = None,
    order: Array | None = None,
) -> Split:
    """Draw test rows and a hold-out the size of an agent's part, and deal the others in the order of `order`.

    Without `order`, (n,), that is the order of the labels. With `once`, test and held-out rows are drawn by it.
    """
    shuffled = (random if once is None else once).permutation(len(data.y))
    test, rest = np.split(shuffled, [n_test_rows(len(data.y), protocol)])
    held_out, training = np.split(rest, [len(rest) // (protocol.agents + 1)])
    values = data.y if order is None else order
    parts = partitions.by_order(values[training], protocol.agents, protocol.fraction, random)
    return Split(test, held_out, [training[part] for part in parts])


def n_test_rows(n_rows: int, protocol: Protocol) -> int:
    """How many rows are for testing."""
    if protocol.n_test is not None:
        return protocol.n_test
    share = round(0.15 * n_rows)
    return max(share, 500) if max(share, 500) <= n_rows // 2 else share


def train_agents(make: MakeModel, X: Any, y: Array, parts: Sequence[Rows]) -> list[Agent]:
    """An agent for each part, with a model trained on it."""
    with warnings.catch_warnings():  # networks get as many iterations as the paper gave them, converged or not
        warnings.filterwarnings("ignore", "Stochastic Optimizer: Maximum iterations", ConvergenceWarning)
        models = [make(k).fit(X[part], y[part]) for k, part in enumerate(parts)]
    return [
        Agent(model, X[part], y[part], f"agent {k}")
        for k, (model, part) in enumerate(zip(models, parts, strict=True), 1)
    ]
