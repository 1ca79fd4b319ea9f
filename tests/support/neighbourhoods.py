"""Rows of many kinds, and what neighbourhoods of them have to find, by looking at all rows."""

from functools import lru_cache

import numpy as np
import pytest
from scipy.sparse import csr_array
from support import oracle

from degroot.neighbourhoods import METRICS

# Of rows and queries. Kernels are compiled for each pair, which takes long: the second mixed one is slow.
PRECISIONS = [("f8", "f4"), ("f4", "f4"), pytest.param("f4", "f8", marks=pytest.mark.slow)]


def brute(rows, queries, values, size, metric="euclidean", kernel="uniform"):
    """Means over the nearest rows, by looking at all of them; ties go to the earlier row."""
    tables = ((table.tobytes(), table.dtype.str, table.shape) for table in (rows, queries, values))
    return brute_of_bytes(*tables, size, metric, kernel)


@lru_cache(maxsize=16)  # the paths of one test ask the same
def brute_of_bytes(rows, queries, values, size, metric, kernel):
    tables = (np.frombuffer(data, kind).reshape(shape) for data, kind, shape in (rows, queries, values))
    rows, queries, values = tables
    return np.array([mean_near(rows, query, values, size, metric, kernel) for query in queries])


def mean_near(rows, query, values, size, metric, kernel):
    gaps = gaps_to(rows, query, metric)
    nearest = np.argsort(gaps, kind="stable")[:size]
    weights = oracle.kernel_weights(np.sqrt(gaps[nearest]) if metric == "euclidean" else gaps[nearest], kernel)
    return (weights[:, None] * values[nearest]).sum(axis=0) / weights.sum()


def gaps_to(rows, query, metric):
    """Distances, squared if Euclidean (a root could make two of them equal).

    In units in which nothing overflows or underflows.
    """
    unit = unit_of(rows, query)
    rows, query = np.ldexp(rows.astype(float), unit), np.ldexp(query.astype(float), unit)
    if metric == "cosine":
        return oracle.cosine(rows, query)
    gaps = np.ascontiguousarray(rows - query)
    return np.abs(gaps).sum(axis=1) if metric == "manhattan" else (gaps**2).sum(axis=1)


def unit_of(rows, query):
    """The power of 2 that takes all numbers to between -1 and 1."""
    return -int(np.frexp(max(float(np.abs(rows).max()), float(np.abs(query).max())))[1])


def assert_means(neighbourhoods, rows, queries, seed=0, **tolerance):
    values = np.random.default_rng(seed).exponential(size=(len(rows), 3))
    asked = csr_array(queries) if neighbourhoods.sparse else queries
    found = neighbourhoods.means(asked, values)
    expected = brute(rows, queries, values, neighbourhoods.size, neighbourhoods.metric, neighbourhoods.kernel)
    assert found.shape == expected.shape == (len(queries), 3)
    np.testing.assert_allclose(found, expected.astype(float), **{"rtol": 1e-9, **tolerance})


def told_near(rows, query, residuals, size, metric, kernel, exclude_row=None):
    """Packed moments, spread and effective number of the nearest rows, by looking at all of them."""
    gaps, unit = gaps_to(rows, query, metric), unit_of(rows, query) if metric != "cosine" else 0
    nearest = np.array([i for i in np.argsort(gaps, kind="stable") if i != exclude_row][:size], int)
    K = residuals.shape[2]
    if len(nearest) == 0:
        return np.zeros(K * (K + 1) // 2), np.inf, 0.0
    distances = np.sqrt(gaps[nearest]) if metric == "euclidean" else gaps[nearest]
    weights = oracle.kernel_weights(distances, kernel)
    moments = [
        [(weights * (residuals[nearest, :, j] * residuals[nearest, :, k]).sum(axis=1)).sum() / weights.sum()
         for k in range(j + 1)] for j in range(K)
    ]  # fmt: skip
    with np.errstate(over="ignore", under="ignore"):
        spread = np.ldexp(float((weights * distances**2).sum() / weights.sum()), -2 * unit)
    return np.concatenate(moments).astype(float), spread, float(weights.sum() ** 2 / (weights**2).sum())


def told(neighbourhoods, queries, residuals, exclude_row=None):
    """What `moments_into` tells, in the middle of three places, of which it must leave the others alone."""
    m, K = queries.shape[0], residuals.shape[2]
    moments, spread, effective = np.full((m, 3, K * (K + 1) // 2), 7.0), np.full((m, 3), 7.0), np.full((m, 3), 7.0)
    asked = csr_array(queries) if neighbourhoods.sparse else queries
    neighbourhoods.moments_into(moments, 1, asked, residuals, exclude_row, spread, effective)
    for array in (moments, spread, effective):
        assert (array[:, [0, 2]] == 7.0).all()
    return moments[:, 1], spread[:, 1], effective[:, 1]


def assert_told(neighbourhoods, rows, queries, exclude_row=None, shape=(2, 3), seed=0, rtol=1e-9, atol=1e-12):
    residuals = np.random.default_rng(seed).normal(size=(len(rows), *shape))
    found = told(neighbourhoods, queries, residuals, exclude_row)
    settings = (residuals, neighbourhoods.size, neighbourhoods.metric, neighbourhoods.kernel)
    left = [None] * len(queries) if exclude_row is None else exclude_row
    expected = [told_near(rows, query, *settings, row) for query, row in zip(queries, left, strict=True)]
    tiny = 1e-30 if neighbourhoods.metric == "cosine" else 0.0  # 1 - cosine of a row with itself is 0 but for rounding
    for part, what, small in zip(found, zip(*expected, strict=True), (atol, tiny, 0.0), strict=True):
        np.testing.assert_allclose(part, np.array(what), rtol=rtol, atol=small)


def rows_and_strangers(rng, rows, queries, count=12):
    """Some rows and some queries, and for each a row to leave out: itself, or any."""
    own = rng.integers(len(rows), size=count)
    points = np.vstack([rows[own], queries[:count]])
    return points, np.r_[own, rng.integers(len(rows), size=len(points) - count)].astype(np.intp)


# ------------------------------------------------------------------------------------------------- kinds of rows


def normal(rng, n, d):
    return rng.normal(size=(n, d)), rng.normal(size=(70, d))


def offset(rng, n, d):
    return 1e6 + rng.normal(size=(n, d)), 1e6 + rng.normal(size=(70, d))


def sorted_in_time(rng, n, d):
    time = np.arange(n + 70.0)[:, None]
    rows = np.hstack([time, np.cumsum(rng.normal(size=(n + 70, d)), axis=0)])[:, :d]
    return rows[:n], rows[n // 2 : n // 2 + 70] + 0.3


def clusters_of_unlike_scale(rng, n, d):
    scales = 10.0 ** np.linspace(-8, 8, 9)
    centres = rng.normal(size=(9, d)) * 10 * scales[:, None]
    rows, which = rng.normal(size=(n + 70, d)), rng.integers(9, size=n + 70)
    points = centres[which] + rows * scales[which, None]
    return points[:n], points[n:]


def identical(rng, n, d):
    return np.tile(rng.normal(size=d), (n, 1)), rng.normal(size=(70, d))


def identical_and_asked_there(rng, n, d):
    row = rng.normal(size=d)
    return np.tile(row, (n, 1)), np.tile(row, (7, 1))


def few_distinct(rng, n, d):
    distinct = rng.normal(size=(4, d))
    return distinct[rng.integers(4, size=n)], np.vstack([rng.normal(size=(66, d)), distinct])


def constant_features(rng, n, d):
    rows, queries = rng.normal(size=(n, d)), rng.normal(size=(70, d))
    rows[:, 1:] = queries[:, 1:] = 1e5
    queries[::2, -1] -= 3
    return rows, queries


def outliers(rng, n, d):
    rows = rng.normal(size=(n, d))
    rows[rng.integers(n, size=max(1, n // 500))] *= 1e9
    return rows, np.vstack([rng.normal(size=(60, d)), rows[:10]])


def duplicates_of_queries(rng, n, d):
    rows = np.repeat(rng.normal(size=(n, d)), 5, axis=0)[:n]
    return rng.permutation(rows), rows[::-1][:70]


def whole_numbers(rng, n, d):
    return rng.integers(-3, 4, size=(n, d)).astype(float), rng.integers(-4, 5, size=(70, d)).astype(float)


def large_whole_numbers(rng, n, d):
    return 1e6 + rng.integers(0, 5, size=(n, d)), 1e6 + rng.integers(-1, 6, size=(70, d))


KINDS = [
    normal,
    offset,
    sorted_in_time,
    clusters_of_unlike_scale,
    identical,
    identical_and_asked_there,
    few_distinct,
    constant_features,
    outliers,
    duplicates_of_queries,
    whole_numbers,
    large_whole_numbers,
]
# Directions that are equal, or equally far, in exact arithmetic need not be after rounding: the order is undecided.
WITHOUT_DIRECTION = {offset, sorted_in_time, clusters_of_unlike_scale, constant_features, outliers, whole_numbers}
WITHOUT_DIRECTION |= {identical_and_asked_there, duplicates_of_queries, large_whole_numbers, few_distinct}
METRICS_AND_KINDS = [
    (metric, rows_of)
    for rows_of in KINDS
    for metric in METRICS
    if metric != "cosine" or rows_of not in WITHOUT_DIRECTION
]
