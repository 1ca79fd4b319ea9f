"""Dealing rows to agents: at random, in the order of a label or feature, or by group.

Every function gives each agent an array of row numbers. The arrays are disjoint, cover all rows, and are each sorted
ascending, so that an agent keeps its rows in the order in which they came.
"""

from numbers import Integral, Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from degroot.compute.tables import is_missing
from degroot.exceptions import InvalidInput

Rows: TypeAlias = NDArray[np.intp]
RandomState: TypeAlias = int | np.random.Generator | np.random.RandomState | None


def random(n_rows: int, n_agents: int, random_state: RandomState = None) -> list[Rows]:
    """Deal the rows at random, equally many to every agent up to one.

    Parameters
    ----------
    n_rows : int
        How many rows there are; at least one for each agent.
    n_agents : int
        How many agents there are.
    random_state : int, Generator, RandomState or None
        The source of the shuffle. The same integer gives the same deal.

    Returns
    -------
    list of K integer arrays
        The row numbers of each agent, ascending.

    Examples
    --------
    >>> [len(rows) for rows in random(10, 3, random_state=0)]
    [4, 3, 3]
    """
    sizes = _sizes(n_rows, n_agents)
    return _deal(_shuffle(n_rows, random_state), sizes)


def by_order(values: ArrayLike, n_agents: int, fraction: float = 1.0, random_state: RandomState = None) -> list[Rows]:
    """Deal a fraction of the rows in the order of their values, and the rest at random.

    Rows drawn at random, `fraction` of all, are sorted by value and cut into K runs: the lowest go to the first agent,
    the highest to the last. The other rows are dealt at random. A larger fraction makes the agents more different, up
    to 1, where chance plays no part. With the same `random_state`, a larger fraction sorts the same rows and more.

    Parameters
    ----------
    values : array of n values
        A label or a feature, one value for each row. Equal values keep the order of the rows.
    n_agents : int
        How many agents there are.
    fraction : float
        The share of the rows that is dealt in order, from 0 to 1.
    random_state : int, Generator, RandomState or None
        The source of the shuffle. The same integer gives the same deal.

    Returns
    -------
    list of K integer arrays
        The row numbers of each agent, ascending. The sizes differ by at most one, in the sorted rows, in the
        others and in all.

    Examples
    --------
    >>> by_order([0.3, 0.1, 0.4, 0.2], n_agents=2)
    [array([1, 3]), array([0, 2])]
    """
    ranks = _levels(values, "values")[1]
    if not isinstance(fraction, Real) or not 0 <= fraction <= 1:
        raise InvalidInput(f"`fraction` must lie between 0 and 1; got {fraction}.")
    n_sorted = round(fraction * len(ranks))
    sizes, sorted_sizes = _sizes(len(ranks), n_agents), _even(n_sorted, n_agents)
    shuffled = _shuffle(len(ranks), random_state)
    chosen, rest = np.sort(shuffled[:n_sorted]), shuffled[n_sorted:]
    runs = _deal(chosen[np.argsort(ranks[chosen], kind="stable")], sorted_sizes)
    # Whoever got one row more above gets one less here where it can, so that the totals are even too.
    others = _deal(rest, sizes - sorted_sizes)
    return [np.sort(np.concatenate(pair)) for pair in zip(runs, others, strict=True)]


def by_group(groups: ArrayLike) -> tuple[NDArray[Any], list[Rows]]:
    """Deal to one agent per group the rows of that group.

    Parameters
    ----------
    groups : array of n labels
        The group of each row.

    Returns
    -------
    labels : array of K labels
        The groups, sorted.
    parts : list of K integer arrays
        The row numbers of each group, ascending.

    Examples
    --------
    >>> labels, parts = by_group(["west", "east", "west"])
    >>> labels.tolist(), parts
    (['east', 'west'], [array([1]), array([0, 2])])
    """
    labels, codes = _levels(groups, "groups")
    return labels, _deal(np.argsort(codes, kind="stable"), np.bincount(codes))


def _sizes(n_rows: int, n_agents: int) -> Rows:
    for name, number in (("n_rows", n_rows), ("n_agents", n_agents)):
        if isinstance(number, bool) or not isinstance(number, Integral) or number < 1:
            raise InvalidInput(f"`{name}` must be a whole number, at least 1; got {number}.")
    if n_rows < n_agents:
        raise InvalidInput(f"Every agent must get a row; got n_samples={n_rows} for {n_agents} agents.")
    return _even(n_rows, n_agents)


def _even(n_rows: int, n_agents: int) -> Rows:
    return (n_rows + np.arange(n_agents)[::-1]) // n_agents


def _deal(rows: Rows, sizes: Rows) -> list[Rows]:
    return [np.sort(part) for part in np.split(rows, np.cumsum(sizes)[:-1])]


def _shuffle(n_rows: int, random_state: RandomState) -> Rows:
    if isinstance(random_state, np.random.RandomState):  # scikit-learn's own, which older numpy cannot convert
        return random_state.permutation(n_rows)
    return np.random.default_rng(random_state).permutation(n_rows)


def _levels(values: ArrayLike, name: str) -> tuple[NDArray[Any], Rows]:
    """The distinct values, sorted, and for each row the place of its value among them."""
    column = np.asarray(values)
    if column.ndim != 1 or not len(column):
        raise InvalidInput(f"`{name}` must hold one value for each row; its shape is {column.shape}.")
    missing = np.flatnonzero(is_missing(column))
    if len(missing):
        raise InvalidInput(f"`{name}` must not hold missing values; row {missing[0]} is {column[missing[0]]}.")
    try:
        levels, codes = np.unique(column, return_inverse=True)
    except TypeError as error:
        raise InvalidInput(f"`{name}` must hold values that can be sorted; {error}.") from error
    return levels, codes
