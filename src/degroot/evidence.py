"""Evidence: what the agents found on their own rows near each of M points. Rules turn it into weights."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from degroot.points import Array
from degroot.stacking import coverage
from degroot.trust import shares

Peers: TypeAlias = NDArray[np.intp]  # (K, q) row i, ascending: the models that agent i scores


@dataclass(frozen=True)
class Reach:
    """How far agents look: their nearest rows, and how these count."""

    neighbours: float  # a number of rows, or a fraction of each agent's rows
    kernel: str
    least: int = 2  # rows, where `neighbours` is a fraction, and
    most: int | None = None


@dataclass(frozen=True)
class Evidence:
    """What K agents say of K models near M points. What a rule does not need is None.

    With `peers`, each agent has scored q of the models only: errors and trust are (M, K, q).
    """

    errors: Array  # (M, K, K) row i: the mean squared error of every model on agent i's rows near the point
    moments: Array | None = None  # (M, K, K (K + 1) / 2) second moments of the models' residuals, lower triangles
    spread: Array | None = None  # (M, K) mean squared distance from the point to agent i's neighbours
    effective: Array | None = None  # (M, K) how many equally near neighbours would count as much
    pooled: tuple[Array, Array] | None = None  # moments (M, K, K) of all agents, and how many rows they amount to, (M,)
    peers: Peers | None = None  # (K, q) whom each agent scored; None: everybody

    @cached_property
    def trust(self) -> Array:
        """(M, K, K) row i: agent i's trust in every model."""
        return shares(self.errors)

    def among(self, points: NDArray[np.intp], members: NDArray[np.intp]) -> "Evidence":
        """What some of the agents say of each other near some of the points."""
        place = np.ix_(points, members)
        moments = None if self.moments is None else self.moments[np.ix_(points, members, pairs(members))]
        return Evidence(
            self.errors[np.ix_(points, members, members)],
            moments,
            None if self.spread is None else self.spread[place],
            None if self.effective is None else self.effective[place],
        )


def scored_by_peers(evidence: Evidence, places: Sequence[int]) -> Evidence:
    r"""Evidence in which some agents do not score their own models: what the others measured near the point stands in.

    Agent i's error of its own model becomes :math:`\sum_{k \ne i} c_k e_{ki} / \sum_{k \ne i} c_k`, with coverage
    :math:`c_k` the inverse of the mean squared distance to its neighbours.
    """
    if not places:
        return evidence
    errors, K = evidence.errors.copy(), evidence.errors.shape[1]
    peers = np.tile(np.arange(K), (K, 1)) if evidence.peers is None else evidence.peers
    for i in places:
        scorers, columns = np.nonzero(peers == i)
        others = scorers != i
        share = coverage(np.asarray(evidence.spread)[:, scorers[others]])
        measured = evidence.errors[:, scorers[others], columns[others]]
        errors[:, i, columns[~others][0]] = (share * measured).sum(axis=-1)
    return with_errors(evidence, errors)


def with_errors(evidence: Evidence, errors: Array) -> Evidence:
    r"""The same evidence with other errors (M, K, K).

    Moments become :math:`D G D` with :math:`D_j` the square root of the new error of model j over the old one: they
    stay positive semi-definite. A model without any error keeps its moments, but for the new error itself.
    """
    if evidence.moments is None:
        return replace(evidence, errors=errors)
    K = errors.shape[1]
    row, column = np.tril_indices(K)
    known = evidence.errors > 0.0
    factor = np.sqrt(np.divide(errors, evidence.errors, out=np.ones_like(errors), where=known))
    moments = evidence.moments * factor[:, :, row] * factor[:, :, column]
    moments[:, :, row == column] = errors
    return replace(evidence, errors=errors, moments=moments)


def from_moments(moments: Array, spread: Array, effective: Array) -> Evidence:
    """Evidence with the errors that are in the moments, on their diagonals."""
    return Evidence(np.ascontiguousarray(moments[:, :, diagonal(moments.shape[1])]), moments, spread, effective)


def diagonal(K: int) -> NDArray[np.intp]:
    """Where the diagonal is in a packed lower triangle of K rows."""
    places: NDArray[np.intp] = np.cumsum(np.arange(1, K + 1)) - 1
    return places


def pairs(members: NDArray[np.intp]) -> NDArray[np.intp]:
    """Where the lower triangle of the rows and columns `members`, in ascending order, is in that of all."""
    low = np.tril_indices(len(members))
    row, column = members[low[0]], members[low[1]]
    where: NDArray[np.intp] = row * (row + 1) // 2 + column
    return where
