"""Regions: where one agent carries nearly the whole answer, in words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array
from degroot.compute.tables import is_sparse, to_numbers
from degroot.exceptions import InvalidInput

NEARLY_ALL = 0.9  # of the weight: with it an answer depends on a single agent
DEPTH = 3  # conditions that a description has at most
LEAST_POINTS, LEAST_SHARE = 5, 0.01  # of the points, in a region that is worth a description
CELLS = 1 << 21  # of the points that the tree is grown on: a few seconds
SEED = 0

Places: TypeAlias = NDArray[np.intp]
Bounds: TypeAlias = dict[int, tuple[float, float]]  # of features: above the first, up to the second


@dataclass(frozen=True, slots=True)
class Region:
    """Points that depend on a single agent."""

    where: str  # conditions on features, which these points meet and no others
    agent: str
    points: int
    weight: float  # the agent's mean weight there


@dataclass(frozen=True, slots=True)
class _Split:
    """A decision tree: points up to the threshold go one way, all others the other. A leaf is None."""

    feature: int
    threshold: float
    low: "_Split | None"
    high: "_Split | None"


@dataclass(frozen=True, slots=True)
class _Piece:
    agent: int
    rows: Places
    bounds: Bounds


def find_regions(X: Any, weights: Array, names: Sequence[str], features: Sequence[str] | None) -> tuple[Region, ...]:
    """Where a single agent carries nearly the whole answer, by a small decision tree; the largest region first.

    The tree tells points that depend on this or that agent from each other and from the rest. Its leaves in which one
    agent has a mean weight of at least 0.9 are regions; neighbouring ones of the same agent are one.

    Parameters
    ----------
    X : (M, d)
        Not described unless it holds finite numbers.
    weights : (M, K)
    names : K
        Of the agents.
    features : d, optional
        Their names.

    Examples
    --------
    >>> X = np.arange(20.0)[:, None]
    >>> weights = np.where(X < 12, [0.5, 0.5], [0.05, 0.95])
    >>> find_regions(X, weights, ["east", "west"], ["age"])
    (Region(where='age > 11.5', agent='west', points=8, weight=0.95),)
    """
    alone = weights.max(axis=1) >= NEARLY_ALL
    try:
        numbers = to_numbers(X)
    except InvalidInput:
        return ()
    if not alone.any():
        return ()
    tree = _grown(numbers, np.where(alone, weights.argmax(axis=1), weights.shape[1]))
    labels = features or [f"feature {k}" for k in range(numbers.shape[1])]
    found = [
        Region(
            _describe_bounds(piece.bounds, labels), names[piece.agent], len(piece.rows), _mean_weight(weights, piece)
        )
        for piece in _pieces(tree, numbers, weights, np.arange(len(weights)), {})
    ]
    return tuple(sorted(found, key=lambda region: (-region.points, region.where)))


def _grown(numbers: Any, labels: Places) -> _Split | None:
    """A tree that tells the labels, grown on (a sample of) the points."""
    from sklearn.tree import DecisionTreeClassifier

    size = min(len(labels), max(1, CELLS // numbers.shape[1]))
    sample = np.sort(np.random.default_rng(SEED).choice(len(labels), size, replace=False))
    some = numbers[sample].toarray() if is_sparse(numbers) else numbers[sample]
    # Ranks, since scikit-learn's trees see differences of float32 above 1e-7 only.
    values, ranks = zip(*(np.unique(column, return_inverse=True) for column in some.T), strict=True)
    least = max(LEAST_POINTS, int(np.ceil(LEAST_SHARE * size)))
    grown = DecisionTreeClassifier(max_depth=DEPTH, min_samples_leaf=least, random_state=SEED)
    tree = grown.fit(np.column_stack(ranks).astype(np.float32), labels[sample]).tree_

    def below(node: int) -> _Split | None:
        if tree.children_left[node] < 0:
            return None
        feature, rank = int(tree.feature[node]), int(tree.threshold[node])
        low, high = (float(value) for value in values[feature][rank : rank + 2])
        middle = low / 2 + high / 2
        threshold = middle if middle < high else low
        return _Split(feature, threshold, below(tree.children_left[node]), below(tree.children_right[node]))

    return below(0)


def _pieces(tree: _Split | None, numbers: Any, weights: Array, rows: Places, bounds: Bounds) -> list[_Piece]:
    """The regions below a node. Points go down by the rounded thresholds that are told, so that what is told holds."""
    if tree is None:
        mean = weights[rows].mean(axis=0)
        return [_Piece(int(mean.argmax()), rows, bounds)] if mean.max() >= NEARLY_ALL else []
    column = _column(numbers, tree.feature)[rows]
    threshold = _round_threshold(tree.threshold, column)
    low, (above, up_to) = column <= threshold, bounds.get(tree.feature, (-np.inf, np.inf))
    found = [
        *_pieces(tree.low, numbers, weights, rows[low], bounds | {tree.feature: (above, threshold)}),
        *_pieces(tree.high, numbers, weights, rows[~low], bounds | {tree.feature: (threshold, up_to)}),
    ]
    if sum(len(piece.rows) for piece in found) == len(rows) and len({piece.agent for piece in found}) == 1:
        return [_Piece(found[0].agent, rows, bounds)]
    return found


def _column(numbers: Any, feature: int) -> Array:
    column = numbers[:, [feature]].toarray()[:, 0] if is_sparse(numbers) else numbers[:, feature]
    return np.asarray(column, np.float64)


def _round_threshold(threshold: float, column: Array) -> float:
    """The threshold in as few digits as tell the same values apart."""
    low = column[column <= threshold].max(initial=-np.inf)
    high = column[column > threshold].min(initial=np.inf)
    candidates = (float(f"{threshold:.{digits}g}") for digits in range(1, 18))
    return next(candidate for candidate in candidates if low <= candidate < high)


def _mean_weight(weights: Array, piece: _Piece) -> float:
    return float(weights[piece.rows, piece.agent].mean())


def _describe_bounds(bounds: Bounds, labels: Sequence[str]) -> str:
    return " and ".join(_condition(labels[k], *bounds[k]) for k in bounds) or "everywhere"


def _condition(label: str, above: float, up_to: float) -> str:
    if up_to == np.inf:
        return f"{label} > {_number(above)}"
    return f"{label} <= {_number(up_to)}" if above == -np.inf else f"{_number(above)} < {label} <= {_number(up_to)}"


def _number(value: float) -> str:
    return repr(value).removesuffix(".0")
