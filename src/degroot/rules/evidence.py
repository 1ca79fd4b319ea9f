"""Evidence: what the agents found on their own rows near each of M points. Rules turn it into weights."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Integral
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array
from degroot.stacking.local import Pool, coverage
from degroot.trust import inverse_error_weights

PeerIndices: TypeAlias = NDArray[np.intp]  # (K, q) row i, ascending: the models that agent i scores
Pair: TypeAlias = tuple[int, int]  # the places of an agent and of a model that it has not scored


class NeighbourhoodSpec(NamedTuple):
    """How far agents look: their nearest rows, and how these count."""

    neighbours: float  # a number of rows, or a fraction of each agent's rows
    kernel: str
    least: int = 2  # rows, where `neighbours` is a fraction, and
    most: int | None = None

    def size(self, n: int) -> int:
        """How many of n rows are a neighbourhood: a fraction rounded down, in bounds; all where there are fewer."""
        if isinstance(self.neighbours, Integral):
            return min(int(self.neighbours), n)
        return min(n, max(self.least, int(self.neighbours * n * (1 + 1e-12))), self.most or n)


NOTHING, ERRORS, MOMENTS = "nothing", "errors", "moments"  # what a rule uses of the evidence

# the paper's 1 %; its two rows say little of models that err at random
PAPER_NEIGHBOURHOOD = NeighbourhoodSpec(0.01, "uniform", least=6)


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
    peers: PeerIndices | None = None  # (K, q) whom each agent scored; None: everybody
    lies_in: "tuple[Evidence, int] | None" = field(default=None, repr=False)  # that of all agents, and the slot there

    @classmethod
    def blank(cls, M: int, slots: int, models: int, *, moments: bool = False, spread: bool = False) -> "Evidence":
        """Room for what so many agents find of so many models near M points; with moments, these are the errors too."""
        where, effective = (np.empty((M, slots)), np.empty((M, slots))) if moments or spread else (None, None)
        packed = np.empty((M, slots, models * (models + 1) // 2)) if moments else None
        return cls(np.empty((0 if moments else M, slots, models)), packed, where, effective)

    @cached_property
    def trust(self) -> Array:
        """(M, K, K) row i: agent i's trust in every model."""
        return inverse_error_weights(self.errors)

    def slot(self, place: int) -> "Evidence":
        """What one agent measured, in the same memory."""
        here, moments, spread, effective = slice(place, place + 1), self.moments, self.spread, self.effective
        return Evidence(
            self.errors[:, here],
            None if moments is None else moments[:, here],
            None if spread is None else spread[:, here],
            None if effective is None else effective[:, here],
            lies_in=(self, place),
        )

    def part(self, points: slice) -> "Evidence":
        """The same arrays, for some of the points."""
        moments, spread, effective = (
            None if each is None else each[points] for each in (self.moments, self.spread, self.effective)
        )
        pooled = None if self.pooled is None else (self.pooled[0][points], self.pooled[1][points])
        return Evidence(self.errors[points], moments, spread, effective, pooled, self.peers)

    def complete(self) -> "Evidence":
        """The same with the errors that are in the moments, on their diagonals."""
        if self.moments is None:
            return self
        errors = np.ascontiguousarray(self.moments[:, :, diagonal(self.errors.shape[-1])])
        return replace(self, lies_in=None, errors=errors)

    def select_models(self, columns: NDArray[np.intp]) -> "Evidence":
        """The same of some of the models, in another order."""
        moments = None
        if self.moments is not None:
            low = np.tril_indices(len(columns))
            row, column = np.maximum(columns[low[0]], columns[low[1]]), np.minimum(columns[low[0]], columns[low[1]])
            moments = self.moments[:, :, row * (row + 1) // 2 + column]
        return replace(self, lies_in=None, errors=np.ascontiguousarray(self.errors[:, :, columns]), moments=moments)

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


@dataclass(frozen=True, slots=True)
class Rule:
    """How evidence becomes weights."""

    weights: Callable[[Evidence], Array]
    values_without: Callable[[Evidence, Array], Array]  # also from the beliefs (M, K)
    uses: str = ERRORS  # of the evidence: NOTHING, ERRORS or MOMENTS
    reach: NeighbourhoodSpec = PAPER_NEIGHBOURHOOD  # where nothing else is asked for


def fill_unscored(evidence: Evidence, pairs: Iterable[Pair], present: NDArray[np.bool_] | None = None) -> Evidence:
    r"""Evidence in which some agents have not scored some models: what others measured near the point stands in.

    For the pairs (i, j) of an agent and a model that it has not scored, its own among them, the error becomes
    :math:`e_{ij} = \sum_{k \in S_j} c_k e_{kj} / \sum_{k \in S_j} c_k`, with :math:`S_j` the agents that have scored
    model j, and coverage :math:`c_k` the inverse of the mean squared distance to agent k's neighbours. Agents that are
    not `present` at a point, (M, K), do not count there, unless nobody else has scored the model.
    """
    missing: dict[int, list[int]] = {}
    for scorer, model in pairs:
        missing.setdefault(model, []).append(scorer)
    if not missing:
        return evidence
    errors, spread, K = evidence.errors.copy(), np.asarray(evidence.spread), evidence.errors.shape[1]
    peers = np.tile(np.arange(K), (K, 1)) if evidence.peers is None else evidence.peers
    for model, unscored in missing.items():
        scorers, columns = np.nonzero(peers == model)
        lack = np.isin(scorers, unscored)
        if lack.all():
            continue
        distance, measured = spread[:, scorers[~lack]], evidence.errors[:, scorers[~lack], columns[~lack]]
        if present is not None:
            there = present[:, scorers[~lack]]
            distance = np.where(there | ~there.any(axis=1, keepdims=True), distance, np.inf)
        share = coverage(distance)
        errors[:, scorers[lack], columns[lack]] = (share * measured).sum(axis=-1)[:, None]
    return with_errors(evidence, errors)


def with_errors(evidence: Evidence, errors: Array) -> Evidence:
    r"""The same evidence with other errors (M, K, K).

    Moments become :math:`D G D` with :math:`D_j` the square root of the new error of model j over the old one: they
    stay positive semi-definite. A model without any error keeps its moments, but for the new error itself.
    """
    if evidence.moments is None:
        return replace(evidence, lies_in=None, errors=errors)
    K = errors.shape[1]
    row, column = np.tril_indices(K)
    known = evidence.errors > 0.0
    factor = np.sqrt(np.divide(errors, evidence.errors, out=np.ones_like(errors), where=known))
    moments = evidence.moments * factor[:, :, row] * factor[:, :, column]
    moments[:, :, row == column] = errors
    return replace(evidence, lies_in=None, errors=errors, moments=moments)


def unknown(M: int, K: int) -> Evidence:
    """Evidence for rules that take none: all models alike."""
    return Evidence(np.broadcast_to(1.0, (M, K, K)))


def stack_evidence(found: Sequence[Evidence], peers: PeerIndices | None = None) -> Evidence:
    """What agents have measured, each in a slot of its own, side by side: nothing is copied where it already is."""
    if found[0].lies_in is not None:
        whole, slots = found[0].lies_in[0], found[0].lies_in[0].errors.shape[1]
        in_order = all(
            e.lies_in is not None and e.lies_in[0] is whole and e.lies_in[1] == k for k, e in enumerate(found)
        )
        if in_order and len(found) == slots:
            return replace(whole, peers=peers).complete()
    moments, spread, effective = (
        _beside([getattr(each, name) for each in found]) for name in ("moments", "spread", "effective")
    )
    errors = np.concatenate([each.errors for each in found], axis=1)
    return Evidence(errors, moments, spread, effective, peers=peers).complete()


def _beside(parts: Sequence[Array | None]) -> Array | None:
    known = [part for part in parts if part is not None]
    return np.concatenate(known, axis=1) if known else None


def pool_moments(found: Iterable[Evidence], K: int) -> Evidence | None:
    """The pooled moments alone of K agents, which come one by one; None unless somebody has rows at every point."""
    pool = None
    for each in found:
        arrays = (each.moments, each.spread, each.effective)
        moments, spread, effective = (np.asarray(array)[:, 0] for array in arrays)
        pool = pool or Pool(len(moments), K)
        pool.add(moments, spread, effective)
    return Evidence(np.empty((0, K, K)), pooled=pool.pooled()) if pool is not None and pool.complete else None


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
