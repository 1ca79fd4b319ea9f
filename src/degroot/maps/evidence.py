r"""Evidence from tables: what all members together measured near any point, with the noise level as the shrinkage.

In every tree the cell of a point has ancestors, whose sums are those of the cells below them. From the root down, the
estimate :math:`g_{jl}` of a second moment moves from its ancestor's to what the cell says by

.. math:: \lambda = \frac{c^2 g_j g_l}{c^2 g_j g_l + \sigma^2 / n^2 + 2 g_j g_l / n},

the variance between a cell and its parent over that plus the variances of the noise and of the rows: empirical Bayes
with a public noise level :math:`\sigma`. Means over trees come first; they are as noisy as one tree would be.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from degroot.compute.compiled import Array
from degroot.exceptions import InvalidInput
from degroot.maps.table import EvidenceMap
from degroot.maps.trees import CellTrees, draw_trees
from degroot.rules.evidence import ERRORS, MOMENTS, NOTHING, Evidence, diagonal, unknown

VARIATION = 0.25  # c: by how much of itself a moment differs between a cell and its parent
SAMPLING = 2.0  # the variance of a squared residual over its squared mean, as for a normal one
NOISE_ROWS = 0.05  # how much the variance of the noise counts beside that of the rows, in stacking's shrinkage
LEAST_EIGENVALUE = 1e-3  # of moments in units in which the diagonal is 1
LEAST_COUNT = 1e-3  # rows that a cell counts for at least
POINTS_AT_ONCE = 2048


@dataclass(frozen=True)
class CollectedMaps:
    """Tables of members, read once: they answer any number of questions. Nothing here needs OpenDP."""

    maps: Mapping[str, EvidenceMap]  # by owner
    names: tuple[str, ...]  # of the K members, in the order of their models

    @classmethod
    def collect(cls, maps: Iterable[EvidenceMap], names: Sequence[str] | None = None) -> "CollectedMaps":
        """The maps of the members `names`, or of all that own or are scored by one; some may have published none."""
        found = {each.owner: each for each in maps}
        if names is None:
            names = sorted({*found, *(name for each in found.values() for name, _ in each.models)})
        made = cls({name: found[name] for name in names if name in found}, tuple(names))
        made.check()
        return made

    def check(self) -> None:
        """Refuse maps that cannot be used together, or that leave some pair of models without a third party."""
        if len(self.names) < 3:
            raise InvalidInput(
                f"Evidence maps need at least 3 members, since nobody's map has its own model; there are "
                f"{len(self.names)}."
            )
        grids = {each.settings.grid for each in self.maps.values()}
        if len(grids) > 1:
            raise InvalidInput(
                f"Evidence maps must have the same ranges, residual bound, seed, trees and depth; those of "
                f"{', '.join(self.maps)} have not."
            )
        lonely = np.argwhere(np.tril(self.scorers.sum(axis=0) == 0))
        if len(lonely):
            one, other = (self.names[place] for place in lonely[0])
            raise InvalidInput(f"A third member's map must score the models of {one!r} and {other!r}; none does.")

    @cached_property
    def scorers(self) -> NDArray[np.bool_]:
        """(K, K, K) whether member i's map says something of the models j and l."""
        K = len(self.names)
        has = np.zeros((K, K), np.bool_)
        for i, name in enumerate(self.names):
            if name in self.maps:
                scored = {model for model, _ in self.maps[name].models}
                has[i] = [model in scored for model in self.names]
        return has[:, :, None] & has[:, None, :]

    @cached_property
    def trees(self) -> CellTrees:
        """Those of all maps."""
        return draw_trees(next(iter(self.maps.values())).settings)

    @cached_property
    def pooled(self) -> "PooledTables":
        """All members' tables, added up."""
        K = len(self.names)
        low = np.tril_indices(K)
        said = self.scorers[:, low[0], low[1]]  # (K, P)
        first = next(iter(self.maps.values())).table
        counts, sums = (np.zeros((*first.shape[:2], len(low[0]))) for _ in range(2))
        count_noise, sum_noise = np.zeros(len(low[0])), np.zeros(len(low[0]))
        for i, each in self._present():
            pairs = np.flatnonzero(said[i])
            counts[..., pairs] += each.counts()[..., None]
            sums[..., pairs] += each.sums()[..., self._find_places(each, low[0][pairs], low[1][pairs])]
            count_noise[pairs] += each.count_noise**2
            sum_noise[pairs] += each.sum_noise**2
        return PooledTables(_add_ancestors(counts), _add_ancestors(sums), count_noise, sum_noise)

    @cached_property
    def own_tables(self) -> dict[int, "OwnTable"]:
        """What each member's map says of single models, by the member's place: read once for all questions."""
        found = {}
        for i, each in self._present():
            models = np.flatnonzero(self.scorers[i].diagonal())
            sums = each.sums()[..., self._find_places(each, models, models)]
            found[i] = OwnTable(models, each.counts()[..., None], np.ascontiguousarray(sums))
        return found

    def at(self, points: ArrayLike, uses: str = MOMENTS) -> Evidence:
        """Evidence near M points as a rule takes it: errors for the paper's rule, moments for stacking.

        Everybody's moments are those of all members together, since a single table is noisier: leaving an agent out
        then takes its model away, and its rows stay. Errors are each member's own, as far as its noise allows. What a
        member does not say, of its own model at least, is what the others say.
        """
        X = np.asarray(points, float)
        if uses == NOTHING:
            return unknown(len(X), len(self.names))
        make = {ERRORS: self._make_errors, MOMENTS: self._make_moments}[uses]
        parts = [make(X[start : start + POINTS_AT_ONCE]) for start in range(0, max(len(X), 1), POINTS_AT_ONCE)]
        return parts[0] if len(parts) == 1 else _join(parts)

    def _make_moments(self, X: Array) -> Evidence:
        K, cells = len(self.names), self.trees.find_cells(X)
        local = self._estimate(cells)
        gram = nearest_moments(local.moments, K)
        low = np.tril_indices(K)
        moments = np.repeat(gram[:, None, low[0], low[1]], K, axis=1)
        rows = np.maximum(local.rows, 1.0)
        noise = local.noise[:, diagonal(K)].mean(axis=1) / local.moments[:, diagonal(K)].min(axis=1) ** 2
        effective = 1.0 / (1.0 / rows + NOISE_ROWS * noise)
        spread, shares = np.ones((len(X), K)), np.repeat(effective[:, None] / K, K, axis=1)
        return Evidence(moments[:, :, diagonal(K)], moments, spread, shares, (gram, effective))

    def _make_errors(self, X: Array) -> Evidence:
        K, cells = len(self.names), self.trees.find_cells(X)
        common = self._estimate(cells).moments[:, diagonal(K)]  # (M, K)
        errors = np.repeat(common[:, None], K, axis=1)
        for i, each in self._present():
            models, counts, sums = self.own_tables[i]
            rows = positive(_mean_over_trees(counts, cells), each.count_noise**2 + LEAST_COUNT**2)
            known = common[:, models]
            noise = each.sum_noise**2 / rows**2
            share = find_share(known**2, noise, rows)
            own = share * (_mean_over_trees(sums, cells) / rows) + (1.0 - share) * known
            errors[:, i, models] = positive(own, share**2 * noise)
        return Evidence(errors)

    def _estimate(self, cells: NDArray[np.intp]) -> "LocalMoments":
        """Moments (M, P), the variance of the noise in them (M, P), and rows behind them (M,)."""
        tables, K = self.pooled, len(self.names)
        row, column = np.tril_indices(K)
        at, depth = diagonal(K), len(tables.sums) - 1
        moments = noise = rows = None
        for level in range(depth + 1):
            below = depth - level
            held = tables.count_noise * 2.0**below + LEAST_COUNT**2
            counts = positive(_mean_over_trees(tables.counts[level], cells >> below), held)
            said = _mean_over_trees(tables.sums[level], cells >> below) / counts
            variance = tables.sum_noise * 2.0**below / counts**2
            fewest = counts.min(axis=1)
            if moments is None or noise is None or rows is None:
                moments, noise, rows = said, variance, fewest
            else:
                error = moments[:, at]
                share = find_share(error[:, row] * error[:, column], variance, counts)
                moments = share * said + (1.0 - share) * moments
                noise = share**2 * variance + (1.0 - share) ** 2 * noise
                typical = share.mean(axis=1)
                rows = typical * fewest + (1.0 - typical) * rows
            moments[:, at] = positive(moments[:, at], noise[:, at])
        return LocalMoments(np.asarray(moments), np.asarray(noise), np.asarray(rows))

    def _present(self) -> Iterable[tuple[int, EvidenceMap]]:
        return ((i, self.maps[name]) for i, name in enumerate(self.names) if name in self.maps)

    def _find_places(self, each: EvidenceMap, one: NDArray[np.intp], other: NDArray[np.intp]) -> NDArray[np.intp]:
        """Where the pairs of models `one` and `other` of the members are in a map's packed sums."""
        scored = {model: place for place, (model, _) in enumerate(each.models)}
        place = np.array([scored.get(name, -1) for name in self.names])
        row, column = np.maximum(place[one], place[other]), np.minimum(place[one], place[other])
        where: NDArray[np.intp] = row * (row + 1) // 2 + column
        return where


@dataclass(frozen=True)
class PooledTables:
    """Sums over members, by level from the root to the cells: (T, 2^level, P) each, and the noise at cells, (P,)."""

    counts: list[Array]
    sums: list[Array]
    count_noise: Array  # variances
    sum_noise: Array


class OwnTable(NamedTuple):
    """What one member's map says of the q models that it scores."""

    models: NDArray[np.intp]  # (q,) places among the members
    counts: Array  # (T, cells, 1)
    sums: Array  # (T, cells, q) of squared residuals


class LocalMoments(NamedTuple):
    """What is known near M points."""

    moments: Array  # (M, P) packed; positive on the diagonal
    noise: Array  # (M, P) variances
    rows: Array  # (M,)


def evidence_at(
    maps: Iterable[EvidenceMap], points: ArrayLike, uses: str = MOMENTS, names: Sequence[str] | None = None
) -> Evidence:
    """Evidence near M points from members' maps, for a rule that uses "errors" or "moments" of it.

    Whoever asks often keeps `CollectedMaps.collect(maps, names)` and calls its `at`.
    """
    return CollectedMaps.collect(maps, names).at(points, uses)


def split_by_agent(evidence: Evidence) -> list[Evidence]:
    """What each of K members would have said, in one slot each: for an `Opinion` of every member."""

    def slot(array: Array | None, i: int) -> Array | None:
        return None if array is None else np.ascontiguousarray(array[:, i : i + 1])

    return [
        Evidence(
            np.ascontiguousarray(evidence.errors[:, i : i + 1]), slot(evidence.moments, i), slot(evidence.spread, i),
            slot(evidence.effective, i),
        )
        for i in range(evidence.errors.shape[1])
    ]  # fmt: skip


def positive(estimate: Array, variance: Array | float) -> Array:
    r"""The positive root x of :math:`x^2 - \hat x x - \sigma^2 = 0`.

    A clear estimate stays as it is, and one that is all noise becomes as large as the noise: no model looks better
    than the noise lets anybody see, and where all is noise all models look alike.
    """
    root = np.hypot(estimate, 2.0 * np.sqrt(variance))  # which neither overflows nor underflows
    with np.errstate(invalid="ignore", divide="ignore"):
        found = np.where(estimate >= 0.0, 0.5 * (estimate + root), 2.0 * variance / (root - estimate))
    return np.maximum(found, np.finfo(float).tiny)


def find_share(product: Array, noise: Array, rows: Array) -> Array:
    r"""How far an estimate moves from what was known to what a cell says, :math:`\lambda`.

    product : (..., P) of the two models' errors.  noise : variances.  rows : behind what the cell says.
    """
    signal = VARIATION**2 * product
    share: Array = signal / (signal + noise + SAMPLING * product / rows)
    return share


def nearest_moments(packed: Array, K: int) -> Array:
    """Positive definite (M, K, K) with the diagonals of symmetric matrices, packed (M, P): eigenvalues are raised."""
    row, column = np.tril_indices(K)
    root = np.sqrt(packed[:, diagonal(K)])
    gram = np.empty((len(packed), K, K))
    gram[:, row, column] = gram[:, column, row] = packed / (root[:, row] * root[:, column])
    values, vectors = np.linalg.eigh(gram)
    gram = (vectors * np.maximum(values, LEAST_EIGENVALUE)[:, None]) @ vectors.transpose(0, 2, 1)
    scale = root / np.sqrt(np.einsum("mii->mi", gram))
    gram *= scale[:, :, None] * scale[:, None, :]
    symmetric: Array = 0.5 * (gram + gram.transpose(0, 2, 1))
    return symmetric


def _add_ancestors(cells: Array) -> list[Array]:
    """Tables (T, 2^level, P) of all levels, from the root to the cells."""
    levels = [cells]
    while levels[0].shape[1] > 1:
        levels.insert(0, levels[0].reshape(len(cells), -1, 2, cells.shape[-1]).sum(axis=2))
    return levels


def _mean_over_trees(table: Array, cells: NDArray[np.intp]) -> Array:
    """The mean over T trees of what a table (T, cells, P) holds at the cells (T, M) of M points: (M, P)."""
    total = np.zeros((cells.shape[1], table.shape[-1]))
    for tree, cell in zip(table, cells, strict=True):
        total += tree[cell]
    return total / len(table)


def _join(parts: Sequence[Evidence]) -> Evidence:
    """Evidence of consecutive points, as one."""

    def join(arrays: Sequence[Array | None]) -> Array | None:
        known = [each for each in arrays if each is not None]
        return np.concatenate(known) if known else None

    kept = [each.pooled for each in parts if each.pooled is not None]
    pooled = (np.concatenate([g for g, _ in kept]), np.concatenate([n for _, n in kept])) if kept else None
    moments, spread, effective = (
        join([getattr(each, name) for each in parts]) for name in ("moments", "spread", "effective")
    )
    return Evidence(np.concatenate([each.errors for each in parts]), moments, spread, effective, pooled)
