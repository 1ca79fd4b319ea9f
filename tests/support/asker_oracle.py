"""The asker's view, word for word and slowly: what `degroot.asker` and `AskerView` have to agree with.

Written from DESIGN.md section 7 and the documentation, not from the package, of which it takes nothing but the folds.
Points, rows, models and candidates are plain loops; leaving a model out is computing without its column.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from support.oracle import distances, kernel_weights, trust_row

from degroot.asker import assign_folds

FEW = 50  # rows, below which three more candidates are tried, as for classes


@dataclass(frozen=True)
class Near:
    """What is found on rows near a point: mean residuals (K, Q), second moments (K, K) and how many rows count."""

    means: np.ndarray
    gram: np.ndarray
    effective: float
    spread: float


def look(rows, residuals, x, size, kernel="tricube", metric="euclidean"):
    """Kernel-weighted moments of residuals (n, Q, K) on the `size` rows nearest to `x`."""
    gaps = distances(np.asarray(rows, float), np.asarray(x, float), metric).astype(float)
    nearest = np.argsort(gaps, kind="stable")[: min(size, len(gaps))]
    k = kernel_weights(gaps[nearest], kernel)
    Q, K = residuals.shape[1:]
    means, gram = np.zeros((K, Q)), np.zeros((K, K))
    for weight, row in zip(k / k.sum(), nearest, strict=True):
        means += weight * residuals[row].T
        for q in range(Q):
            gram += weight * np.outer(residuals[row, q], residuals[row, q])
    return Near(means, gram, k.sum() ** 2 / (k**2).sum(), float((k * gaps[nearest] ** 2).sum() / k.sum()))


def share_of(n, fraction, least, most=None):
    """A fraction of n rows, rounded down, within bounds."""
    return min(n, max(least, int(np.floor(fraction * n + 1e-9))), most or n)


def least_form(gram, shrinkage):
    """argmin of w'Gw + shrinkage min diag(G) |w|² on the simplex, by trying every set of models with weight.

    Models without any error share alike, and so do all where nobody errs.
    """
    K, perfect = len(gram), np.diag(gram) == 0
    if perfect.any():
        return perfect / perfect.sum()
    matrix = penalised(gram, shrinkage)
    tried = [np.eye(K)[j] for j in range(K)]
    for size in range(2, K + 1):
        for members in map(list, combinations(range(K), size)):
            z = np.linalg.lstsq(matrix[np.ix_(members, members)], np.ones(size), rcond=None)[0]
            if (z >= 0).all() and z.sum() > 0:
                tried.append(np.zeros(K))
                tried[-1][members] = z / z.sum()
    return min(tried, key=lambda w: w @ matrix @ w)


def penalised(gram, shrinkage):
    return gram + shrinkage * np.diag(gram).min() * np.eye(len(gram))


def about_mean(moments, product):
    """Second moments minus products of means, with what rounding may hide of them: one part in 1e13."""
    root = np.sqrt(np.diag(moments))
    left = moments - product
    left = np.where(np.abs(left) <= 1e-13 * np.outer(root, root), 0.0, left)
    return left + 1e-13 * np.diag(root**2)


def about_biases(residuals, b):
    """Second moments (K, K) about biases (K, Q), with what rounding may hide of them."""
    largest = 1e-13 * np.abs(residuals).max(axis=0)
    off = residuals - b.T
    return global_moments(np.where(np.abs(off) <= largest, 0.0, off)) + np.diag((largest**2).sum(axis=0))


def biases(residuals):
    """Mean residuals, shrunk by how far they are beyond chance, (K, Q)."""
    n, Q, K = residuals.shape
    found = np.zeros((K, Q))
    for j in range(K):
        for q in range(Q):
            mean = residuals[:, q, j].mean()
            variance = residuals[:, q, j].var(ddof=1) if n > 1 else 0.0
            if mean != 0:
                found[j, q] = mean * mean**2 / (mean**2 + variance / n)
    return found


def global_moments(residuals):
    gram = np.zeros((residuals.shape[2],) * 2)
    for row in residuals:
        for output in row:
            gram += np.outer(output, output) / len(residuals)
    return gram


def problems_at(rows, residuals, x, *, rule="stacking", neighbours=None, kernel=None, ridge=1.0, metric="euclidean"):
    """For each stacked candidate: the matrix, the shrinkage, and the biases (K, Q) that predictions are shifted by."""
    n, Q, K = residuals.shape
    none, b = np.zeros((K, Q)), biases(residuals)
    G_c = about_biases(residuals, b)
    size = share_of(n, 0.05, 20, 500)
    if rule == "stacking" and neighbours is not None:
        size = how_many(n, neighbours, 2)
    near = look(rows, residuals, x, size, (kernel if rule == "stacking" else None) or "tricube", metric)
    found = {
        "local stacking": (near.gram, (ridge if rule == "stacking" else 1.0) * K / near.effective, none),
        "centred": (G_c, K / n, b),
        "global stacking": (global_moments(residuals), K / n, none),
    }
    for name, fraction, least, m in (("15 %", 0.15, 40, 20.0), ("40 %", 0.4, 60, 50.0)):
        near = look(rows, residuals, x, share_of(n, fraction, least), "tricube", metric)
        n_x = near.effective
        G = (n_x * about_mean(near.gram, near.means @ near.means.T) + m * G_c) / (n_x + m)
        b_x = (n_x * near.means + m * b) / (n_x + m)
        found[f"locally centred, {name}"] = G, K / min(n_x + m, n), b_x
    return found


def how_many(n, neighbours, least):
    return min(n, neighbours) if isinstance(neighbours, int) else share_of(n, neighbours, least)


def candidates_at(rows, residuals, own, x, *, rule="stacking", few=None, **settings):
    """Weights (K,) and shifts (Q,) of all candidates at one point; `own` None: the own model was left out."""
    n, Q, K = residuals.shape
    few = n < FEW if few is None else few
    solved = {
        name: (least_form(G, shrinkage), b)
        for name, (G, shrinkage, b) in problems_at(rows, residuals, x, rule=rule, **settings).items()
    }
    found = {name: (w, b.T @ w) for name, (w, b) in solved.items() if few or name != "global stacking"}
    nothing = np.zeros(Q)
    if own is not None:
        found["own"] = np.eye(K)[own], nothing
    if rule == "average":
        found["equal weights"] = np.full(K, 1 / K), nothing
    elif rule != "stacking":
        neighbours = settings.get("neighbours")
        size = share_of(n, 0.01, 6) if neighbours is None else how_many(n, neighbours, 2)
        kernel, metric = settings.get("kernel") or "uniform", settings.get("metric", "euclidean")
        near = look(rows, residuals, x, size, kernel, metric)
        found["trust row"] = trust_row(np.diag(near.gram)), nothing
    if few:
        found["inverse error"] = trust_row(np.diag(global_moments(residuals))), nothing
        if rule != "average":
            found["average"] = np.full(K, 1 / K), nothing
    return found


def standard_error(values, units):
    """Of the mean of values (n,) over rows, clustered: what whole units change."""
    distinct = sorted(set(units.tolist()))
    if len(distinct) < 2:
        return np.inf
    total = 0.0
    for unit in distinct:
        total += sum(values[i] - values.mean() for i in range(len(values)) if units[i] == unit) ** 2
    return np.sqrt(len(distinct) / (len(distinct) - 1) * total) / len(values)


def mix(losses, units):
    """Shares by name, from losses by name: exp(-½ max(0, Δ/se)²), and nothing below one in a thousand.

    Candidates that differ by rounding alone do alike.
    """
    best = min(losses, key=lambda name: losses[name].mean())
    raw = {}
    for name, each in losses.items():
        behind = (each - losses[best]).mean()
        error = standard_error(each - losses[best], units)
        if behind <= 1e-12 * each.mean():
            raw[name] = 1.0
        else:
            raw[name] = np.exp(-0.5 * (behind / error) ** 2) if error > 0 else 0.0
    total = sum(raw.values())
    kept = {name: share / total if share / total >= 1e-3 else 0.0 for name, share in raw.items()}
    return {name: share / sum(kept.values()) for name, share in kept.items()}


def distribution(values):
    clipped = np.clip(values, 0.0, 1.0)
    return clipped / clipped.sum() if clipped.sum() > 0 else np.full(len(values), 1 / len(values))


class View:
    """The view of an asker whose rows, labels (n, Q) and everybody's predictions of them (n, Q, K) are these."""

    def __init__(self, rows, labels, predictions, own, units=None, classes=False, **settings):
        self.rows, self.labels, self.own = np.asarray(rows, float), labels, own
        self.residuals = predictions - labels[..., None]
        self.units = np.arange(len(rows)) if units is None else np.asarray(units)
        self.folds = assign_folds(self.units)
        self.classes, self.settings = classes, settings | {"few": len(rows) < FEW or classes}
        self.errors = self.leave_out()
        self.losses = {name: (each**2).sum(axis=1) for name, each in self.errors.items()}
        self.shares = mix(self.losses, self.units)

    def leave_out(self):
        """Errors (n, Q) of all candidates, by name, each row's fold left out."""
        errors = {}
        for i, fold in enumerate(self.folds):
            kept = self.folds != fold
            at = candidates_at(self.rows[kept], self.residuals[kept], self.own, self.rows[i], **self.settings)
            for name, (w, shift) in at.items():
                off = self.residuals[i] @ w - shift
                if self.classes:
                    off = distribution(self.labels[i] + off) - self.labels[i]
                errors.setdefault(name, np.empty(self.labels.shape))[i] = off
        return errors

    def left_out(self):
        """Errors (n, Q) of the mixture, each fold with the shares that the others give."""
        mixed = np.zeros(self.labels.shape)
        for fold in np.unique(self.folds):
            at, others = self.folds == fold, self.folds != fold
            shares = mix({name: each[others] for name, each in self.losses.items()}, self.units[others])
            for name, share in shares.items():
                mixed[at] += share * self.errors[name][at]
        return mixed

    def answer(self, x, beliefs):
        """Value (Q,) and weights (K,) at a point of which models say beliefs (K, Q)."""
        at = candidates_at(self.rows, self.residuals, self.own, x, **self.settings)
        value, weights = np.zeros(beliefs.shape[1]), np.zeros(len(beliefs))
        for name, share in self.shares.items():
            w, shift = at[name]
            value += share * (w @ beliefs - shift)
            weights += share * w
        return (distribution(value) if self.classes else value), weights

    def without(self, j):
        """The same view, had model j never been there."""
        keep = [k for k in range(self.residuals.shape[2]) if k != j]
        predictions = self.residuals + self.labels[..., None]
        own = None if j == self.own else keep.index(self.own)
        return View(self.rows, self.labels, predictions[..., keep], own, self.units, self.classes, **self.settings)


@dataclass(frozen=True)
class Held:
    beliefs: np.ndarray
    replaced: np.ndarray
    alone: bool
    reach: float


def bound_beliefs(beliefs, expected, spread, error, own, *, clip, beyond, reach):
    """What models say at one point, beliefs (K, Q), held to differences (K, Q) to the own model that are expected."""
    K, Q = beliefs.shape
    said, replaced = beliefs.copy(), np.zeros(K, bool)
    for j in range(K):
        if j == own:
            continue
        off = [beliefs[j, q] - beliefs[own, q] - expected[j, q] for q in range(Q)]
        replaced[j] = any(abs(off[q]) > beyond * spread[j, q] + error for q in range(Q))
        for q in range(Q):
            moved = 0.0 if replaced[j] else min(max(off[q], -clip * spread[j, q]), clip * spread[j, q])
            said[j, q] = beliefs[own, q] + expected[j, q] + moved
    return Held(said, replaced, K > 1 and 2 * replaced.sum() >= K - 1, reach * error)


def features_left_out(kernel, targets, folds, penalty):
    """Ridge regression of targets (n, T) on features, each fold predicted by what was learned on the others."""
    left = np.empty_like(targets)
    for fold in np.unique(folds):
        known = kernel[folds != fold]
        ridge = known.T @ known + penalty * np.eye(kernel.shape[1])
        left[folds == fold] = kernel[folds == fold] @ np.linalg.solve(ridge, known.T @ targets[folds != fold])
    return left
