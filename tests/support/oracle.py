"""The paper's two algorithms, word for word and slowly: what every fast path has to agree with.

Written from the paper (Mendler-Dünner, Guo, Bates, Jordan, *Test-time collective prediction*, NeurIPS 2021) and the
documentation, not from the package: it imports nothing of it. Points, agents and rows are plain loops; models are
called anew on every neighbourhood.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.sparse import issparse

EPS, TINY = np.finfo(float).eps, np.finfo(float).tiny


@dataclass(frozen=True)
class Party:
    """An agent: `predict` and `space` take rows; `space` says where distances are taken."""

    predict: Callable
    X: object
    y: np.ndarray
    space: Callable | None = None


@dataclass(frozen=True)
class Answer:
    value: np.ndarray
    standard_error: np.ndarray
    weights: np.ndarray
    beliefs: np.ndarray
    trust: np.ndarray
    influence: np.ndarray


def consult(parties, X, neighbours, metric="euclidean", kernel="uniform"):
    """Everything a collective says about the points `X`."""
    answers = [consult_about(parties, X[m : m + 1], neighbours, metric, kernel) for m in range(X.shape[0])]
    return Answer(*(np.array([np.asarray(answer[k], float) for answer in answers]) for k in range(6)))


def consult_about(parties, x, neighbours, metric, kernel):
    """The same for one point, a table of one row."""
    errors = np.array([local_errors(party, parties, x, neighbours, metric, kernel) for party in parties])
    beliefs = np.array([float(np.asarray(party.predict(x)).ravel()[0]) for party in parties])
    trust = np.array([trust_row(row) for row in errors])
    weights = stationary(trust)
    value = weights @ beliefs
    without = values_without(trust, beliefs)
    K = len(parties)
    error = np.sqrt((K - 1) / K * ((without - without.mean()) ** 2).sum()) if K > 1 else np.nan
    return value, error, weights, beliefs, trust, value - without


def local_errors(party, parties, x, neighbours, metric, kernel):
    """MSE_ij for one i and all j: the models are called on the N rows of `party` that are nearest to `x`."""
    transformed = dense(party.space(party.X) if party.space else party.X)
    point = dense(party.space(x) if party.space else x)[0]
    gaps = distances(transformed, point, metric)
    nearest = np.argsort(gaps, kind="stable")[: how_many(neighbours, len(transformed))]
    importance = kernel_weights(gaps[nearest], kernel)
    squares = [(np.asarray(other.predict(party.X[nearest]), float) - party.y[nearest]) ** 2 for other in parties]
    return [(importance * square).sum() / importance.sum() for square in squares]


def dense(X):
    return np.asarray(X.toarray() if issparse(X) else X, float)


def how_many(neighbours, n_rows):
    """A number as it is; of a fraction of the rows, rounded down, at least 2 rows."""
    if isinstance(neighbours, int):
        return neighbours
    return min(n_rows, max(2, int(np.floor(neighbours * n_rows + 1e-9))))


def distances(rows, point, metric):
    """Distances from `point` to all `rows`, from the differences."""
    if metric == "euclidean":
        return np.sqrt(((rows - point) ** 2).sum(axis=1))
    if metric == "manhattan":
        return np.abs(rows - point).sum(axis=1)
    return cosine(rows, point)


def cosine(rows, point):
    """1 - x'y / |x||y|; what has no direction is at distance 1 from everything but its like."""
    rows, point = rows.astype(np.longdouble), point.astype(np.longdouble)
    lengths, length = np.sqrt((rows**2).sum(axis=1)), np.sqrt((point**2).sum())
    if length == 0:
        return np.where(lengths == 0, 0, 1).astype(np.longdouble)
    return np.where(lengths == 0, 1, 1 - rows @ point / (np.where(lengths == 0, 1, lengths) * length))


def kernel_weights(gaps, kernel):
    """How much each of the neighbours counts, given their distances."""
    farthest = gaps.max()
    u = gaps / farthest if farthest > 0 else np.zeros_like(gaps)
    weights = {"uniform": np.ones_like(u), "tricube": (1 - u**3) ** 3, "gaussian": np.exp(-(u**2) / 2)}[kernel]
    return weights if weights.sum() > 0 else np.ones_like(u)


def trust_row(errors):
    """Inverse errors that sum to 1, where errors below EPS times the largest count as just that."""
    errors = np.asarray(errors, float)
    floored = np.maximum(errors, max(EPS * errors.max(), TINY))
    inverse = floored.min() / floored  # in units in which sums cannot overflow
    return inverse / inverse.sum()


def stationary(trust, kind=np.longdouble):
    """w with wT = w and sum 1, for each of the matrices (..., K, K).

    By the elimination of Grassmann, Taksar and Heyman (1985), as they print it, which subtracts nothing.
    """
    flow = np.array(trust, kind)
    K = flow.shape[-1]
    for k in range(K - 1, 0, -1):
        flow[..., :k, k] /= flow[..., k, :k].sum(axis=-1, keepdims=True)
        flow[..., :k, :k] += flow[..., :k, k, None] * flow[..., None, k, :k]
    weights = np.ones(flow.shape[:-1], kind)
    for k in range(1, K):
        weights[..., k] = (weights[..., :k] * flow[..., :k, k]).sum(axis=-1)
    return (weights / weights.sum(axis=-1, keepdims=True)).astype(float)


def values_without(trust, beliefs):
    """The consensus of the others, for every agent: strike it out, let the rows sum to 1 again, solve."""
    K = len(beliefs)
    if K == 1:
        return np.array([np.nan])
    values = []
    for i in range(K):
        others = [j for j in range(K) if j != i]
        left = np.array([[trust[j, k] for k in others] for j in others])
        left = left / left.sum(axis=1, keepdims=True)
        values.append(stationary(left) @ beliefs[others])
    return np.array(values)


# -- local stacking ----------------------------------------------------------------------------------------------------


def stacked_weights(parties, x, neighbours, ridge, exclude_row=None):
    """The weights of local stacking for one point: minimise w'Gw + penalty |w|² over the simplex.

    G is the mean of the agents' second moments of residuals near the point, weighted by coverage, the inverse of the
    mean squared distance to their neighbours. `exclude_row` is (party, row): it is not among that party's neighbours.
    """
    moments, spread, effective = [], [], []
    for k, party in enumerate(parties):
        gaps = distances(dense(party.X), dense(x)[0], "euclidean")
        order = np.argsort(gaps, kind="stable")
        if exclude_row is not None and exclude_row[0] == k:
            order = order[order != exclude_row[1]]
        nearest = order[: min(neighbours, len(order))]
        importance = kernel_weights(gaps[nearest], "tricube")
        importance = importance / importance.sum()
        residuals = np.array([residuals_of(other, party)[nearest] for other in parties])
        moments.append((importance * residuals) @ residuals.T)
        spread.append((importance * gaps[nearest] ** 2).sum())
        effective.append(1 / (importance**2).sum())
    share = trust_row(spread)
    gram = sum(c * moment for c, moment in zip(share, moments, strict=True))
    K = len(parties)
    penalty = ridge * K * (share**2 / effective).sum() * np.diag(gram).min()
    return on_the_simplex(gram + penalty * np.eye(K))


def residuals_of(other, party):
    """Of its own model, by the predictions that it declares honest, if any."""
    if other is party and getattr(party, "own", None) is not None:
        return np.asarray(party.own, float) - party.y
    return np.asarray(other.predict(party.X), float) - party.y


def on_the_simplex(gram):
    """argmin w'Gw with w >= 0, sum w = 1, by trying every set of agents that may have weight."""
    K = len(gram)
    best, least = None, np.inf
    for members in range(1, 2**K):
        chosen = [k for k in range(K) if members >> k & 1]
        solved = np.linalg.lstsq(gram[np.ix_(chosen, chosen)], np.ones(len(chosen)), rcond=None)[0]
        if (solved < 0).any() or solved.sum() <= 0:
            continue
        weights = np.zeros(K)
        weights[chosen] = solved / solved.sum()
        if weights @ gram @ weights < least:
            best, least = weights, weights @ gram @ weights
    return best
