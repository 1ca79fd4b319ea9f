r"""Candidates: ways to combine everybody's predictions, on the evidence of the asker's own rows alone.

The asker holds n rows with labels and knows what all K models say of them: residuals :math:`r_j`, prediction minus
label, of its own model by out-of-fold predictions. A candidate gives weights :math:`w_j(x)` on the simplex and biases
:math:`b_j(x)`, and answers :math:`\sum_j w_j(x) (f_j(x) - b_j(x))`. All weights are the exact least of
:math:`w'Gw + \frac{K}{n_\text{eff}} \min_j G_{jj} |w|^2` on the simplex, with G a matrix of second moments.

- *own*: the asker's model.
- *local stacking*: G the second moments of the residuals on the rows near x, :math:`n_\text{eff} = n_x`; no bias.
- the row of the rule, where that is not stacking: the asker's trust, in inverse proportion to the errors near x, which
  is its belief after one round of DeGroot pooling; or equal weights.
- *centred*: :math:`b_j = \bar r_j \cdot \bar r_j^2 / (\bar r_j^2 + s_j^2 / n)`, the mean residual shrunk by how far it
  is beyond chance; :math:`G_c` the mean of :math:`(r - b)(r - b)'`.
- *locally centred*, twice: :math:`b_j(x) = \frac{n_x \bar r_j(x) + m b_j}{n_x + m}` and
  :math:`G = \frac{n_x \mathrm{Cov}_x(r) + m G_c}{n_x + m}`, :math:`n_\text{eff} = \min(n_x + m, n)`.
- with fewer than 50 rows, and for classes, also *global stacking*, *inverse error* (of all rows) and *average*, which
  need fewer.

Means near x are weighted by the tricube kernel, and :math:`n_x = (\sum k)^2 / \sum k^2`. Stacking is Wolpert's
(*Stacked generalization*, 1992) with Breiman's constraint (*Stacked regressions*, 1996).
"""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from degroot.asker.names import AVERAGE, CENTRED, CENTRED_NEAR, EQUAL, GLOBAL, INVERSE, LOCAL, OWN, TRUST
from degroot.compute.compiled import Array, as_kernel_array
from degroot.compute.kernel import compiled_for
from degroot.neighbourhoods import Neighbourhoods
from degroot.rules.evidence import NOTHING, NeighbourhoodSpec
from degroot.rules.rules import STACKING_NEIGHBOURHOOD, RuleSettings
from degroot.stacking.local import RIDGE
from degroot.stacking.simplex import minimise, rooms
from degroot.trust import inverse_error_weights

Places = NDArray[np.int64]

FEW_ROWS = 50  # below which candidates that need fewer rows are tried too
NARROW = NeighbourhoodSpec(0.15, "tricube", least=40)  # for locally centred candidates
WIDE = NeighbourhoodSpec(0.4, "tricube", least=60)
PULL = {NARROW: 20.0, WIDE: 50.0}  # rows' worth of all rows in what is found near a point
SAMPLED_ROWS = 4000  # that means over wide neighbourhoods are taken from, at most

LOCALLY_CENTRED = dict(zip((NARROW, WIDE), CENTRED_NEAR, strict=True))
EVERYBODY = -1  # instead of a model that is left out
ROUNDING = 1e-13  # of residuals: what rounding may hide of how they vary about their mean


class Moments(NamedTuple):
    """What is found on the asker's rows near M points."""

    packed: Array  # (M, (K + Q) (K + Q + 1) / 2) second moments of residuals and of a constant in each output
    effective: Array  # (M,) how many equally near rows would count as much
    spread: Array  # (M,) mean squared distance

    def errors(self, K: int) -> Array:
        """Mean squared errors of every model, summed over the outputs, (M, K)."""
        return np.maximum(self.packed[:, _find_diagonal(K)], 0.0)

    def error_of(self, model: int) -> Array:
        """Root mean squared error of one model, over the outputs, (M,)."""
        return np.sqrt(np.maximum(self.packed[:, model * (model + 3) // 2], 0.0))

    def take(self, places: NDArray[np.intp]) -> "Moments":
        """The moments at these places alone."""
        return Moments(as_kernel_array(self.packed[:, places]), self.effective, self.spread)


@cache
def _find_diagonal(K: int) -> NDArray[np.intp]:
    """Where the models' own moments are among the packed ones."""
    places: NDArray[np.intp] = np.cumsum(np.arange(1, K + 1)) - 1
    return places


def places_among(members: NDArray[np.intp], K: int, Q: int) -> NDArray[np.intp]:
    """Where the moments of some models, in their order, are among the moments of all K."""
    models = np.concatenate([members, np.arange(K, K + Q)])
    row, column = (models[each] for each in np.tril_indices(len(models)))
    places: NDArray[np.intp] = row * (row + 1) // 2 + column
    return places


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to combine the predictions.

    `weigh` fills weights (D, M, K) and shifts (D, M, Q), the biases times weights, D times at the same points: each
    time without another model, whose places are (D,), or `EVERYBODY`.
    """

    name: str
    spec: NeighbourhoodSpec | None  # where it looks; None: at all rows alike
    weigh: Callable[["OwnRows", Moments | None, Places, Array, Array], None]  # rows, found, without, weights, shifts


class OwnRows:
    """The asker's evidence: everybody's residuals on its rows, and where these lie.

    Parameters
    ----------
    rows : (n, d)
        Where distances are taken.
    residuals : (n, Q, K)
        Prediction minus label of all models.
    own : int
        The place of the asker's model.
    metric : str
    kept : arrays that neighbourhoods of the same rows have made before
    """

    def __init__(self, rows: Any, residuals: Array, own: int, metric: str, kept: dict[str, Any] | None = None) -> None:
        self.n, self.Q, self.K = residuals.shape
        self.rows, self.own, self.metric = rows, own, metric
        ones = np.broadcast_to(np.eye(self.Q), (self.n, self.Q, self.Q))
        self._augmented = as_kernel_array(np.concatenate([residuals, ones], axis=-1))
        self._kept = kept
        self._near: dict[NeighbourhoodSpec, tuple[Neighbourhoods, Array]] = {}
        self.bias, self.centred_gram = centre(residuals)
        self.gram = np.einsum("nqj,nql->jl", residuals, residuals) / self.n

    def among(self, members: NDArray[np.intp]) -> "OwnRows":
        """The same evidence of some of the models, in their order; the asker's own is one of them."""
        some, pairs = copy(self), np.ix_(members, members)
        some.K, some.own = len(members), int(np.flatnonzero(members == self.own)[0])
        places = np.concatenate([members, np.arange(self.K, self.K + self.Q)])
        some._augmented, some._near = as_kernel_array(self._augmented[..., places]), {}
        some.bias, some.gram, some.centred_gram = self.bias[members], self.gram[pairs], self.centred_gram[pairs]
        return some

    def look(self, spec: NeighbourhoodSpec) -> tuple[Neighbourhoods, Array]:
        """Neighbourhoods of that kind and the residuals that go with them; wide ones among a sample of the rows."""
        if spec not in self._near:
            rows, residuals, kept = self.rows, self._augmented, self._kept
            if spec in PULL and self.n > SAMPLED_ROWS:
                some = np.sort(np.random.default_rng(0).choice(self.n, SAMPLED_ROWS, replace=False))
                rows, residuals, kept = rows[some], as_kernel_array(residuals[some]), None
            size = spec.size(len(residuals))
            self._near[spec] = Neighbourhoods(rows, size, self.metric, spec.kernel, kept=kept), residuals
        return self._near[spec]

    def measure(self, spec: NeighbourhoodSpec, points: Any) -> Moments:
        """What is found near `points` (M, d), on one thread."""
        near, residuals = self.look(spec)
        M, models = points.shape[0], self.K + self.Q
        packed, spread, effective = np.empty((M, 1, models * (models + 1) // 2)), np.empty((M, 1)), np.empty((M, 1))
        near.moments_into(packed, 0, points, residuals, None, spread, effective)
        return Moments(packed[:, 0], effective[:, 0], spread[:, 0])

    def weigh(
        self, candidates: Sequence[Candidate], points: Any, found: dict[Any, Moments] | None = None,
        without: int = EVERYBODY,
    ) -> tuple[Array, Array]:  # fmt: skip
        """Weights (C, M, K) and shifts (C, M, Q) of the candidates at `points`; what was `found` is used and added."""
        weights, shifts = self.weigh_without_each(candidates, points, {} if found is None else found, [without])
        return weights[:, 0], shifts[:, 0]

    def weigh_without_each(
        self, candidates: Sequence[Candidate], points: Any, found: dict[Any, Moments], without: Sequence[int] | Places
    ) -> tuple[Array, Array]:
        """The same without each of D models in turn: weights (C, D, M, K) and shifts (C, D, M, Q)."""
        C, D, M, places = len(candidates), len(without), points.shape[0], np.asarray(without, np.int64)
        weights, shifts = np.empty((C, D, M, self.K)), np.empty((C, D, M, self.Q))
        for c, candidate in enumerate(candidates):
            if candidate.spec is not None and candidate.spec not in found:
                found[candidate.spec] = self.measure(candidate.spec, points)
            near = None if candidate.spec is None else found[candidate.spec]
            candidate.weigh(self, near, places, weights[c], shifts[c])
        return weights, shifts


def list_candidates(
    settings: RuleSettings, n_rows: int, n_models: int, *, classes: bool = False
) -> tuple[Candidate, ...]:
    """The candidates of an asker with so many rows, under a rule; of one model alone, only that."""
    if n_models == 1:
        return (Candidate(OWN, None, _take_own),)
    ridge = RIDGE if settings.ridge is None else settings.ridge
    stacked = settings.reach if settings.rule == "stacking" else STACKING_NEIGHBOURHOOD
    found = [Candidate(OWN, None, _take_own), Candidate(LOCAL, stacked, _stack_locally(ridge))]
    if settings.rule != "stacking":
        equal = settings.definition.uses == NOTHING
        found.append(Candidate(EQUAL, None, _average) if equal else Candidate(TRUST, settings.reach, _weigh_by_trust))
    found.append(Candidate(CENTRED, None, _stack_centred))
    found += [Candidate(LOCALLY_CENTRED[spec], spec, _stack_centred_locally(pull)) for spec, pull in PULL.items()]
    if n_rows < FEW_ROWS or classes:
        found += [Candidate(GLOBAL, None, _stack_globally), Candidate(INVERSE, None, _weigh_by_inverse_error)]
        found += [Candidate(AVERAGE, None, _average)] if all(each.name != EQUAL for each in found) else []
    return tuple(found)


def without_model(candidates: Sequence[Candidate], model: int, own: int) -> list[Candidate]:
    """The candidates that remain when a model is left out: without the asker's own, it is none by itself."""
    remaining = [each for each in candidates if each.name != OWN or model != own]
    return remaining or [Candidate(AVERAGE, None, _average)]


def centre(residuals: Array) -> tuple[Array, Array]:
    """Biases (K, Q), shrunk where they may be chance, and the second moments (K, K) about them.

    Each has at least the error that rounding may hide: a model that is always off by 1e20 is not right but for 1e20.
    """
    n = len(residuals)
    mean = residuals.mean(axis=0)
    variance = residuals.var(axis=0, ddof=1) if n > 1 else np.zeros_like(mean)
    square = mean**2
    share = np.divide(square, square + variance / n, out=np.zeros_like(mean), where=square > 0.0)
    bias = mean * share
    centred = residuals - bias
    rounding = ROUNDING * np.abs(residuals).max(axis=0)
    centred[np.abs(centred) <= rounding] = 0.0
    gram = np.einsum("nqj,nql->jl", centred, centred) / n + np.diag((rounding**2).sum(axis=0))
    return bias.T.copy(), gram


def _take_own(rows: OwnRows, _found: Moments | None, _without: Places, weights: Array, shifts: Array) -> None:
    weights[:], shifts[:] = 0.0, 0.0
    weights[..., rows.own] = 1.0


def _average(rows: OwnRows, _found: Moments | None, without: Places, weights: Array, shifts: Array) -> None:
    weights[:], shifts[:] = 1.0 / rows.K, 0.0
    _drop_models(weights, without)


def _weigh_by_inverse_error(
    rows: OwnRows, _found: Moments | None, without: Places, weights: Array, shifts: Array
) -> None:
    weights[:], shifts[:] = inverse_error_weights(np.diag(rows.gram).copy()), 0.0
    _drop_models(weights, without)


def _stack_globally(rows: OwnRows, _found: Moments | None, without: Places, weights: Array, shifts: Array) -> None:
    weights[:], shifts[:] = _stack(rows.gram, rows.n, without)[:, None], 0.0


def _stack_centred(rows: OwnRows, _found: Moments | None, without: Places, weights: Array, shifts: Array) -> None:
    same = _stack(rows.centred_gram, rows.n, without)
    weights[:], shifts[:] = same[:, None], 0.0
    _add_shifts(same, rows.bias, shifts)


def _weigh_by_trust(rows: OwnRows, found: Moments | None, without: Places, weights: Array, shifts: Array) -> None:
    weights[:], shifts[:] = inverse_error_weights(_require(found).errors(rows.K)), 0.0
    _drop_models(weights, without)


def _stack_locally(ridge: float) -> Callable[..., None]:
    def weigh(_rows: OwnRows, found: Moments | None, without: Places, weights: Array, shifts: Array) -> None:
        near = _require(found)
        _stack_locally_into(near.packed, near.effective, ridge, without, weights)
        shifts[:] = 0.0

    return weigh


def _stack_centred_locally(pull: float) -> Callable[..., None]:
    def weigh(rows: OwnRows, found: Moments | None, without: Places, weights: Array, shifts: Array) -> None:
        near = _require(found)
        _stack_centred_into(
            near.packed, near.effective, rows.bias, rows.centred_gram, pull, float(rows.n), without, weights, shifts
        )

    return weigh


def _require(found: Moments | None) -> Moments:
    if found is None:
        raise ValueError("A local candidate must know what is near the points; it does not.")
    return found


def _stack(gram: Array, n: int, without: Places) -> Array:
    """Weights (D, K) on all rows."""
    weights = np.empty((len(without), len(gram)))
    _stack_into(gram, float(n), without, weights)
    return weights


@compiled_for("f8[3] i8[1]")
def _drop_models(weights: Array, without: Places) -> None:
    """Let weights (D, M, K) sum to 1 without the model at each of the places (D,)."""
    D, M, _ = weights.shape
    for d in range(D):
        if without[d] >= 0:
            for m in range(M):
                weights[d, m, without[d]] = 0.0
                weights[d, m] /= weights[d, m].sum()


@compiled_for("f8[2] f8 i8[1] f8[2]")
def _stack_into(gram: Array, n: float, without: Places, weights: Array) -> None:
    room, support = rooms(len(gram))
    for d in range(len(without)):
        minimise(gram, (len(gram) - (without[d] >= 0)) / n, without[d], 0, room, support, weights[d])


@compiled_for("f8[2] f8[2] f8[3]")
def _add_shifts(weights: Array, bias: Array, shifts: Array) -> None:
    """Add the biases (K, Q) times weights (D, K) to shifts (D, M, Q).

    In an order of sums that does not depend on D: a product of BLAS may have another last bit where D is 1.
    """
    D, K = weights.shape
    for d in range(D):
        for m in range(shifts.shape[1]):
            for k in range(K):
                for q in range(shifts.shape[2]):
                    shifts[d, m, q] += weights[d, k] * bias[k, q]


@compiled_for("f8[2] f8[1] f8 i8[1] f8[3]")
def _stack_locally_into(packed: Array, effective: Array, ridge: float, without: Places, weights: Array) -> None:
    D, M, K = weights.shape
    room, support = rooms(K)
    gram = np.empty((K, K))
    for m in range(M):
        at = 0
        for j in range(K):
            for k in range(j + 1):
                gram[j, k] = gram[k, j] = packed[m, at]
                at += 1
        for d in range(D):
            left_out = without[d]
            shrinkage = ridge * (K - (left_out >= 0)) / effective[m] if effective[m] > 0.0 else np.inf
            minimise(gram, shrinkage, left_out, 0, room, support, weights[d, m])


@compiled_for("f8[2] f8[1] f8[2] f8[2] f8 f8 i8[1] f8[3] f8[3]")
def _stack_centred_into(
    packed: Array, effective: Array, bias: Array, centred: Array, pull: float, n: float, without: Places,
    weights: Array, shifts: Array,
) -> None:  # fmt: skip
    D, M, K = weights.shape
    Q = shifts.shape[2]
    room, support = rooms(K)
    gram, mean, rounding = np.empty((K, K)), np.empty((K, Q)), np.empty(K)
    for m in range(M):
        near = effective[m]
        share = near / (near + pull)
        for j in range(K):
            rounding[j] = np.sqrt(ROUNDING * max(packed[m, j * (j + 3) // 2], 0.0))
        at = K * (K + 1) // 2
        for q in range(Q):
            for j in range(K):
                mean[j, q] = packed[m, at + j]
            at += K + q + 1
        at = 0
        for j in range(K):
            for k in range(j + 1):
                common = packed[m, at]
                for q in range(Q):
                    common -= mean[j, q] * mean[k, q]
                if abs(common) <= rounding[j] * rounding[k]:
                    common = 0.0
                if j == k:
                    common += rounding[j] * rounding[j]
                gram[j, k] = gram[k, j] = share * common + (1.0 - share) * centred[j, k]
                at += 1
        for d in range(D):
            left_out = without[d]
            minimise(gram, (K - (left_out >= 0)) / min(near + pull, n), left_out, 0, room, support, weights[d, m])
            for q in range(Q):
                shifts[d, m, q] = 0.0
                for j in range(K):
                    shifts[d, m, q] += weights[d, m, j] * (share * mean[j, q] + (1.0 - share) * bias[j, q])
