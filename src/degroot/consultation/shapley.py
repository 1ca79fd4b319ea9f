r"""Who contributes to whom: the Shapley value of each other member in an asker's gain, on the asker's rows alone.

For a set S of other members, :math:`L(S)` is the mean loss, on the asker's scored rows, of the mixture that is made of
its own model and the models of S: candidates with folds of whole units left out, shares from the other folds, and no
correction, as in `AskerView.left_out`. The value of S is :math:`v(S) = L(\emptyset) - L(S)`. Of P other members, member
j contributes

.. math:: \phi_j = \sum_{S \not\ni j} \frac{|S|!\,(P - |S| - 1)!}{P!} \bigl(v(S \cup \{j\}) - v(S)\bigr).

With nobody else the candidates still centre the own model on the asker's rows. What that brings, the own model's loss
minus :math:`L(\emptyset)`, is the asker's own contribution: no member is credited with it. All contributions, the
asker's own among them, sum to its gain, the own model's loss minus that of the mixture with everybody; members with the
same predictions contribute the same; nothing that a member says of itself enters. Beyond 11 other members the sum is
the mean over pairs of an ordering and its reverse, drawn with a fixed seed, in which members come one after the other:
it is unbiased, and still sums to the gain.

Shapley, *A value for n-person games*, 1953. Castro, Gómez and Tejada, *Polynomial calculation of the Shapley value
based on sampling*, 2009. Mitchell, Cooper, Frank and Holmes, *Sampling permutations for Shapley value estimation*,
2022.
"""

from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import NDArray

from degroot.asker.candidates import places_among
from degroot.asker.mixture import clustered_standard_error
from degroot.compute.compiled import Array, in_blocks
from degroot.compute.progress import Advance
from degroot.consultation.asker import AskerView, Fold

EXACT = 11  # other members up to whom all sets of them are tried
PAIRS = 50  # of orderings and their reverses, beyond
SEED = 0
NOBODY = 0  # the place of the empty set among all that are tried
BLOCK = 8  # sets that a thread takes at once

Sets = NDArray[np.bool_]  # (S, P) who of the others takes part
Places = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Coalitions:
    """Sets of the other members, and what their losses count for in each member's contribution."""

    sets: Sets
    coefficients: Array  # (S, P) of the losses
    orders: Places | None = None  # (2 pairs, P) sampled orderings; each of the second half reverses one of the first
    paths: Places | None = None  # (2 pairs, P + 1) the sets that they pass through

    def sampling_error(self, losses: Array) -> Array:
        """The standard error, (P,), that comes of having sampled orderings, from the losses (S,) of the sets."""
        P = self.sets.shape[1]
        if self.orders is None or self.paths is None:
            return np.zeros(P)
        steps = losses[self.paths[:, :-1]] - losses[self.paths[:, 1:]]
        marginal = np.empty((len(self.orders), P))
        np.put_along_axis(marginal, self.orders, steps, axis=1)
        pairs = marginal.reshape(2, -1, P).mean(axis=0)
        error: Array = pairs.std(axis=0, ddof=1) / np.sqrt(len(pairs))
        return error


def list_coalitions(P: int) -> Coalitions:
    """All sets of P other members, or those that sampled orderings pass through.

    Examples
    --------
    >>> made = list_coalitions(2)
    >>> made.sets.astype(int).tolist(), made.coefficients.tolist()
    ([[0, 0], [1, 0], [0, 1], [1, 1]], [[0.5, 0.5], [-0.5, 0.5], [0.5, -0.5], [-0.5, -0.5]])
    """
    return _all_sets(P) if P <= EXACT else _sampled_sets(P)


def _all_sets(P: int) -> Coalitions:
    sets = (np.arange(2**P)[:, None] >> np.arange(P)) & 1 == 1
    size = sets.sum(axis=1)
    weight = np.array([1.0 / (P * comb(P - 1, s)) for s in range(P)] or [0.0])  # of joining a set of size s
    joined, absent = -weight[np.maximum(size - 1, 0)], weight[np.minimum(size, P - 1)]
    return Coalitions(sets, np.where(sets, joined[:, None], absent[:, None]))


def _sampled_sets(P: int) -> Coalitions:
    random = np.random.default_rng(SEED)
    drawn = np.array([random.permutation(P) for _ in range(PAIRS)])
    orders = np.concatenate([drawn, drawn[:, ::-1]])
    known: dict[bytes, int] = {}
    sets: list[Sets] = []
    paths = np.empty((len(orders), P + 1), np.intp)
    for o, order in enumerate(orders):
        present = np.zeros(P, np.bool_)
        for step in range(P + 1):
            if step:
                present[order[step - 1]] = True
            key = present.tobytes()
            if key not in known:
                known[key] = len(sets)
                sets.append(present.copy())
            paths[o, step] = known[key]
    coefficients = np.zeros((len(sets), P))
    np.add.at(coefficients, (paths[:, :-1], orders), 1.0 / len(orders))
    np.add.at(coefficients, (paths[:, 1:], orders), -1.0 / len(orders))
    return Coalitions(np.array(sets), coefficients, orders, paths)


def measure_contributions(view: AskerView, advance: Advance) -> tuple[Array, Array]:
    """What each member contributes to the asker's gain, (K,), the asker itself among them, and the standard errors.

    Contributions are means over the scored rows. Their standard errors are clustered by units and, where orderings were
    sampled, include what that leaves open. `advance` is told of every set.
    """
    made = list_coalitions(view.K - 1)
    losses = measure_losses(view, made.sets, advance)
    by_row = np.empty((len(view.sample), view.K))  # each row's share in the contributions
    others = np.arange(view.K) != view.place
    by_row[:, others] = losses.T @ made.coefficients
    by_row[:, view.place] = (view.own_errors**2).sum(axis=1) - losses[NOBODY]
    errors = clustered_standard_error(by_row, view.units[view.sample])
    errors[others] = np.hypot(errors[others], made.sampling_error(losses.mean(axis=1)))
    return by_row.mean(axis=0), errors


def measure_losses(view: AskerView, sets: Sets, advance: Advance) -> Array:
    """Losses (S, m) on the asker's scored rows of the mixture among its own model and those of each set of others."""
    folds = [view.measure_fold(fold) for fold in np.unique(view.folds[view.sample])]
    others = np.delete(np.arange(view.K), view.place)
    losses = np.empty((len(sets), len(view.sample)))

    def block(start: int, stop: int) -> None:
        for s in range(start, stop):
            members = np.sort(np.append(others[sets[s]], view.place))
            losses[s] = (_leave_out(view, folds, members) ** 2).sum(axis=1)
        advance(stop - start)

    in_blocks(block, len(sets), BLOCK, view.n_jobs)
    return losses


def _leave_out(view: AskerView, folds: list[Fold], members: Places) -> Array:
    """Errors (m, Q) of the mixture among some models on the scored rows, folds of whole units left out."""
    errors = np.empty((len(view.sample), len(view.candidates), view.Q))
    members = np.intersect1d(members, view.distinct)
    among = np.searchsorted(view.distinct, members)
    places = places_among(among, len(view.distinct), view.Q)
    for fold in folds:
        found = {spec: near.take(places) for spec, near in fold.found.items()}
        weighed = fold.evidence.among(among).weigh(view.candidates, fold.points, found)
        errors[fold.at] = view.errors_at(fold, *weighed, members)
    return view.cross_mix(errors)
