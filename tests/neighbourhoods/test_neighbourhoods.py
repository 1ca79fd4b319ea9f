import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, csr_matrix
from scipy.sparse import random as random_sparse
from support.neighbourhoods import (
    KINDS,
    METRICS_AND_KINDS,
    PRECISIONS,
    assert_means,
    assert_told,
    brute,
    clusters_of_unlike_scale,
    constant_features,
    few_distinct,
    identical,
    normal,
    outliers,
    rows_and_strangers,
    told,
    told_near,
    whole_numbers,
)

from degroot.neighbourhoods import KERNELS, METRICS, Neighbourhoods
from degroot.neighbourhoods.kdtree import TreeIndex

MODULE = "degroot.neighbourhoods.neighbourhoods"
PATHS = ("dense", "tree", "sparse")
SAMPLE = 2048  # from more rows than this the dense search takes its threshold from a sample


def forced(monkeypatch, path):
    """Neighbourhoods that take `path`, whatever would be the fastest."""

    def build(rows, size, metric="euclidean", kernel="uniform"):
        if size == rows.shape[0] and kernel == "uniform":
            expected = "everything"
        elif size == rows.shape[0] and path == "tree":
            expected = "dense"  # a tree is asked for one row more than it has to find
        else:
            expected = path
        with monkeypatch.context() as patch:
            tree = TreeIndex if expected == "tree" else lambda *_: None
            patch.setattr(f"{MODULE}._tree_if_faster", tree)
            patch.setattr(f"{MODULE}.SPARSE_BELOW", 2.0)
            neighbourhoods = Neighbourhoods(csr_array(rows) if path == "sparse" else rows, size, metric, kernel)
        assert neighbourhoods.path == expected
        return neighbourhoods

    return build


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("metric", "rows_of"), METRICS_AND_KINDS)
def test_means_are_those_over_the_nearest_rows(monkeypatch, path, metric, rows_of):
    build = forced(monkeypatch, path)
    for n, d, size in [(700, 4, 7), (2500, 3, 1), (2500, 5, 60), (3001, 2, 3000), (300, 6, 300), (4200, 8, 400)]:
        rng = np.random.default_rng(n)
        rows, queries = rows_of(rng, n, d)
        kernel = list(KERNELS)[size % 3]
        assert_means(build(rows, size, metric, kernel), rows, queries, atol=1e-12)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("size", [1, 2, 9, 149, 150])
def test_every_kernel_and_metric_on_every_path(monkeypatch, path, metric, kernel, size):
    rows, queries = normal(np.random.default_rng(size), 150, 3)
    neighbourhoods = forced(monkeypatch, path)(rows, size, metric, kernel)
    assert_means(neighbourhoods, rows, queries)


# Beyond SAMPLE rows, candidates come from the sample and from the others: neither may be forgotten.
@pytest.mark.parametrize("n", [SAMPLE - 1, SAMPLE, SAMPLE + 1, SAMPLE + 16, SAMPLE + 100, SAMPLE + 500, 3000, 6000])
@pytest.mark.parametrize("rows_of", [normal, few_distinct, identical, whole_numbers, constant_features])
@pytest.mark.parametrize("metric", ["euclidean", "manhattan"])
def test_the_sample_of_the_rows_counts_as_much_as_the_others(monkeypatch, n, rows_of, metric):
    build = forced(monkeypatch, "dense")
    rows, queries = rows_of(np.random.default_rng(n), n, 4)
    for size in (1, 20, 300, n - 1):
        assert_means(build(rows, size, metric), rows, queries, atol=1e-12)


@pytest.mark.parametrize("n", [SAMPLE + 100, SAMPLE + 552, 4000, 10_000])
def test_of_rows_that_are_repeated_very_often_the_first_are_taken(n):
    """More rows of the sample are within the threshold than there is room for."""
    rows = np.repeat(np.random.default_rng(0).normal(size=(2, 30)), n // 2, axis=0)
    values = np.arange(float(n))[:, None]
    for size in (1, 50, 400):
        neighbourhoods = Neighbourhoods(rows, size)
        assert neighbourhoods.path == "dense"
        np.testing.assert_allclose(neighbourhoods.means(rows[:1], values), (size - 1) / 2)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("away", [1e3, 1e5, 1e6, 1e8, 1e9, 1e12])
def test_neighbours_of_far_away_queries(monkeypatch, path, metric, away):
    build = forced(monkeypatch, path)
    for n, size in [(500, 9), (2500, 50), (2500, 1), (6000, 300)]:
        rng = np.random.default_rng(n)
        rows, queries = normal(rng, n, 5)
        assert_means(build(rows, size, metric), rows, away * queries, atol=1e-12)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("metric", ["euclidean", "manhattan"])
def test_queries_at_the_end_of_the_world_get_some_of_the_rows(monkeypatch, path, kernel, metric):
    """Seen from 1e200 away all rows are equally far: the first ones are taken, with equal weights."""
    rows, values = normal(np.random.default_rng(0), 400, 3)[0], np.arange(400.0)[:, None]
    found = forced(monkeypatch, path)(rows, 5, metric, kernel).means(np.full((3, 3), 1e200), values)
    np.testing.assert_allclose(found, 2.0)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("unit", [1e-310, 1e-200, 1e-100, 1e100, 1e150, 1e200])
def test_the_unit_of_the_features_does_not_matter(monkeypatch, path, metric, unit):
    rows, queries = (unit * part for part in normal(np.random.default_rng(1), 600, 3))
    for kernel in KERNELS:
        assert_means(forced(monkeypatch, path)(rows, 12, metric, kernel), rows, queries)


@pytest.mark.parametrize("unit", [1e-40, 1e-25, 1e15, 1e25, 1e37])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(("n", "d"), [(20_000, 2), (600, 20)])
def test_single_precision_rows_of_any_size(unit, metric, n, d):
    rows, queries = ((unit * part).astype(np.float32) for part in normal(np.random.default_rng(1), n, d))
    assert_means(Neighbourhoods(rows, 5, metric), rows, queries[:9])


# ------------------------------------------------------------------------------------------------- chosen paths


@pytest.mark.parametrize(
    ("n", "d", "size", "path"),
    [
        (20_000, 1, 1, "tree"),
        (20_000, 1, 200, None),
        (20_000, 2, 10, "tree"),
        (20_000, 2, 2000, "dense"),
        (20_000, 15, 200, "dense"),
        (20_000, 100, 200, "dense"),
        (20_000, 100, 19_999, "dense"),
        (20_000, 5, 20_000, "everything"),
        (50, 3, 50, "everything"),
        (1, 1, 1, "everything"),
    ],
)
@pytest.mark.parametrize("metric", METRICS)
def test_the_path_that_is_chosen_is_right(n, d, size, path, metric):
    if metric == "cosine" and d == 1:
        pytest.skip("on a line there are two directions")
    rng = np.random.default_rng(d)
    rows, queries = rng.normal(size=(n, d)), rng.normal(size=(9, d))
    neighbourhoods = Neighbourhoods(rows, size, metric)
    if path is not None and metric == "euclidean":
        assert neighbourhoods.path == path
    assert_means(neighbourhoods, rows, queries)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(("density", "sparse"), [(0.03, True), (0.4, False)])
@pytest.mark.parametrize("form", [csr_array, csr_matrix])
def test_sparse_rows_are_searched_as_such_or_made_dense(metric, density, sparse, form):
    rng = np.random.default_rng(3)
    table = random_sparse(330, 120, density=density, random_state=rng, format="csr").toarray()
    table[:, :2] = rng.normal(size=(330, 2))  # no two directions are equal or at a right angle
    rows, queries = table[:300], table[300:]
    for size in (1, 20, 299):
        for kernel in KERNELS:
            neighbourhoods = Neighbourhoods(form(rows), size, metric, kernel)
            assert (neighbourhoods.path == "sparse") == sparse
            assert_means(neighbourhoods, rows, queries)
    values = rng.normal(size=(300, 2))
    from_dense, from_sparse = neighbourhoods.means(queries, values), neighbourhoods.means(form(queries), values)
    np.testing.assert_array_equal(from_dense, from_sparse)


def test_stored_zeros_unsorted_and_repeated_entries_do_not_matter(monkeypatch):
    rng = np.random.default_rng(0)
    rows, queries, values = rng.normal(size=(40, 6)), rng.normal(size=(9, 6)), rng.normal(size=(40, 1))
    rows[:, 2] = 0.0

    def messy(table):
        m, d = table.shape
        columns = np.tile(np.r_[np.arange(d)[::-1], np.arange(d)], m)
        halves = np.hstack([table[:, ::-1] / 2, table / 2]).ravel()
        return csr_array((halves, columns, np.arange(0, 2 * m * d + 1, 2 * d)), shape=table.shape)

    monkeypatch.setattr(f"{MODULE}.SPARSE_BELOW", 10.0)
    for metric in METRICS:
        stored, asked = messy(rows), messy(queries)
        neighbourhoods = Neighbourhoods(stored, 4, metric)
        assert neighbourhoods.path == "sparse"
        np.testing.assert_allclose(neighbourhoods.means(asked, values), brute(rows, queries, values, 4, metric))
        assert stored.nnz == 2 * rows.size  # what was given is left alone


@pytest.mark.parametrize("metric", METRICS)
def test_whole_number_tables_far_apart_on_the_sparse_path(monkeypatch, metric):
    """Large norms and small differences: the scores alone cannot tell these rows apart."""
    rng = np.random.default_rng(5)
    rows, queries = 1e6 + rng.normal(size=(900, 4)), 1e6 + rng.normal(size=(33, 4))
    if metric == "cosine":
        rows[:, 0], queries[:, 0] = rng.normal(size=900), rng.normal(size=33)
    assert_means(forced(monkeypatch, "sparse")(rows, 30, metric), rows, queries)


# ---------------------------------------------------------------------------------------------------------- ties


@settings(max_examples=150)
@given(
    data=st.data(), n=st.integers(1, 200), d=st.integers(1, 4), side=st.integers(0, 4), seed=st.integers(0, 2**32 - 1)
)
def test_among_equals_the_earlier_row_is_taken(data, n, d, side, seed):
    """On whole numbers distances are exact, and so is the mean of powers of two that name the rows."""
    metric, path = data.draw(st.sampled_from(["euclidean", "manhattan"])), data.draw(st.sampled_from(PATHS))
    size = data.draw(st.integers(1, n))
    rng = np.random.default_rng(seed)
    rows = rng.integers(-side, side + 1, size=(n, d)).astype(float)
    queries = rng.integers(-side - 1, side + 2, size=(9, d)).astype(float)
    with pytest.MonkeyPatch.context() as patch:
        neighbourhoods = forced(patch, path)(rows, size, metric)
    asked = csr_array(queries) if path == "sparse" else queries
    found = neighbourhoods.means(asked, np.eye(n)) > 0
    for query, chosen in zip(queries, found, strict=True):
        gaps = np.abs(rows - query).sum(axis=1) if metric == "manhattan" else ((rows - query) ** 2).sum(axis=1)
        np.testing.assert_array_equal(np.flatnonzero(chosen), np.sort(np.argsort(gaps, kind="stable")[:size]))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("metric", ["euclidean", "manhattan"])
def test_masses_of_ties(monkeypatch, path, metric):
    """A grid of 3 x 3 points with thousands of rows on each."""
    rng = np.random.default_rng(0)
    rows = rng.integers(-1, 2, size=(9000, 2)).astype(float)
    queries = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 2.0], [0.5, 0.5], [-7.0, 0.0]])
    for size in (1, 10, 999, 1000, 1001, 5000, 8999):
        assert_means(forced(monkeypatch, path)(rows, size, metric), rows, queries, rtol=1e-12)


# --------------------------------------------------------------------------------------------- rows without direction


@pytest.mark.parametrize("path", PATHS)
def test_a_row_of_zeros_is_at_a_right_angle_to_every_other(monkeypatch, path):
    rows = np.array([[1.0, 0.1], [-1.0, 0.1], [0.0, 0.0], [0.9, 0.0], [-0.1, -1.0], [2.0, 2.0]])
    by_distance = [3, 0, 5, 2, 4, 1]  # from the first axis: 0, a little, 45 degrees, none, more than 90, opposite
    query = np.array([[5.0, 0.0]])
    for size in range(1, 6):
        build = forced(monkeypatch, path)(rows, size, "cosine")
        chosen = np.flatnonzero(build.means(csr_array(query) if path == "sparse" else query, np.eye(6))[0])
        np.testing.assert_array_equal(chosen, np.sort(by_distance[:size]))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_query_of_zeros_is_at_a_right_angle_to_every_row(monkeypatch, path, kernel):
    rows, values = np.random.default_rng(0).normal(size=(50, 3)), np.arange(50.0)[:, None]
    rows /= np.abs(rows).max(axis=1, keepdims=True)
    query, size = np.zeros((1, 3)), 50 if kernel != "uniform" else 49
    found = forced(monkeypatch, path)(rows, size, "cosine", kernel).means(
        csr_array(query) if path == "sparse" else query, values
    )
    assert np.isfinite(found).all()
    if kernel == "gaussian":
        np.testing.assert_allclose(found, values.mean())


@pytest.mark.parametrize("path", PATHS)
def test_cosine_rows_of_zeros_among_others(monkeypatch, path):
    rng = np.random.default_rng(0)
    rows, queries = rng.normal(size=(300, 3)), rng.normal(size=(40, 3))
    rows[::7] = 0.0
    for kernel in KERNELS:
        for size in (5, 120, 299):
            assert_means(forced(monkeypatch, path)(rows, size, "cosine", kernel), rows, queries)


# -------------------------------------------------------------------------------------------- precision, layout, size


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(("rows_as", "queries_as"), PRECISIONS)
@pytest.mark.parametrize("n", [400, 2300])
def test_single_and_double_precision_may_be_mixed(monkeypatch, path, metric, rows_as, queries_as, n):
    for away in (0.0, 1e4):
        rows, queries = (part + away for part in normal(np.random.default_rng(2), n, 6))
        if metric == "cosine":
            rows, queries = rows - away, queries - away
        rows, queries = rows.astype(rows_as), queries.astype(queries_as)
        assert_means(forced(monkeypatch, path)(rows, 17, metric), rows, queries)


@pytest.mark.parametrize("path", PATHS)
def test_any_memory_layout_gives_the_same(monkeypatch, path):
    rng = np.random.default_rng(2)
    rows, queries, values = rng.normal(size=(500, 4)), rng.normal(size=(70, 4)), rng.normal(size=(500, 3))
    build = forced(monkeypatch, path)
    expected = build(rows, 9).means(queries, values)
    for part in (rows, queries, values):
        part.flags.writeable = False
    for change in (
        np.asfortranarray,
        lambda x: np.repeat(x, 2, axis=0)[::2],
        lambda x: x,
        lambda x: x[::-1].copy()[::-1],
    ):
        np.testing.assert_array_equal(build(change(rows), 9).means(change(queries), change(values)), expected)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("metric", METRICS)
def test_answers_do_not_depend_on_what_is_asked_together(monkeypatch, path, metric):
    rng = np.random.default_rng(9)
    rows, queries, values = rng.normal(size=(2500, 3)), rng.normal(size=(20_000, 3)), rng.normal(size=(2500, 2))
    if path == "sparse":
        queries = queries[:3000]
    neighbourhoods = forced(monkeypatch, path)(rows, 25, metric)
    asked = csr_array(queries) if path == "sparse" else queries
    found = neighbourhoods.means(asked, values)
    for m in [*range(0, len(queries), 331), len(queries) - 1]:
        np.testing.assert_array_equal(neighbourhoods.means(asked[m : m + 1], values)[0], found[m])
    for count in (0, 1, 3, 63, 64, 65, 67, 129, 1025):
        np.testing.assert_array_equal(neighbourhoods.means(asked[:count], values), found[:count])
    np.testing.assert_array_equal(neighbourhoods.means(asked, values), found)


@pytest.mark.parametrize("path", [*PATHS, "everything"])
def test_all_columns_of_values_are_averaged(monkeypatch, path):
    rng = np.random.default_rng(4)
    rows, queries = rng.normal(size=(90, 3)), rng.normal(size=(5, 3))
    neighbourhoods = forced(monkeypatch, path)(rows, 90 if path == "everything" else 8)
    for columns in (1, 2, 17):
        values = rng.normal(size=(90, columns))
        found = neighbourhoods.means(queries, values)
        np.testing.assert_allclose(found, brute(rows, queries, values, neighbourhoods.size), rtol=1e-12)


@pytest.mark.parametrize(("n", "d"), [(1, 1), (1, 5), (2, 1), (3, 200)])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_very_few_rows(n, d, metric, kernel):
    rng = np.random.default_rng(n)
    rows, queries = rng.exponential(size=(n, d)), rng.exponential(size=(5, d))
    if d == 1 and metric == "cosine":
        kernel = "uniform"  # all rows have one direction
    for size in range(1, n + 1):
        assert_means(Neighbourhoods(rows, size, metric, kernel), rows, queries)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("metric", ["euclidean", "manhattan"])
def test_many_random_tables(monkeypatch, seed, metric):
    rng = np.random.default_rng(seed)
    n, d = int(10 ** rng.uniform(0, 4.3)), int(10 ** rng.uniform(0, 2))
    rows_of = KINDS[rng.integers(len(KINDS))]
    if rows_of in {clusters_of_unlike_scale, outliers}:
        d = min(d, 7)  # seen from afar rows differ by rounding only, and more features can be summed in several orders
    rows, queries = rows_of(rng, n, d)
    for path in PATHS[: 3 if n < 5000 else 2]:
        size = int(rng.integers(1, n + 1)) if rng.random() < 0.5 else max(1, n // 100)
        assert_means(forced(monkeypatch, path)(rows, size, metric), rows, queries[:30], atol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("form", [np.asarray, csr_array, np.float32])
def test_rows_that_are_equally_far_but_for_rounding_count_alike(kernel, form):
    """Directions at a right angle to all rows are at distance 1 from each, whatever their lengths round to."""
    rows = np.zeros((40, 200))
    rows[:, :100] = np.random.default_rng(0).random((40, 100)) * (np.random.default_rng(1).random((40, 100)) < 0.1)
    query, values = np.zeros((1, 200)), np.arange(40.0)[:, None]
    query[0, 150] = 3.0
    found = Neighbourhoods(form(rows), 40, "cosine", kernel).means(form(query), values)
    np.testing.assert_allclose(found, values.mean(), rtol=1e-9)


# --------------------------------------------------------------------- moments, spread, effective number, rows left out


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("size", [1, 2, 9, 149, 150])
def test_moments_spread_and_effective_number_on_every_path(monkeypatch, path, metric, kernel, size):
    rng = np.random.default_rng(size)
    rows, queries = normal(rng, 150, 3)
    queries, exclude_row = rows_and_strangers(rng, rows, queries)
    neighbourhoods = forced(monkeypatch, path)(rows, size, metric, kernel)
    for shape in [(1, 5), (3, 2)]:
        assert_told(neighbourhoods, rows, queries, shape=shape)
        assert_told(neighbourhoods, rows, queries, exclude_row, shape=shape)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("metric", "rows_of"), METRICS_AND_KINDS)
def test_moments_of_every_kind_of_rows_with_rows_left_out(monkeypatch, path, metric, rows_of):
    build = forced(monkeypatch, path)
    for n, d, size, kernel in [(700, 4, 35, "tricube"), (2500, 9, 125, "gaussian"), (300, 2, 300, "uniform")]:
        rng = np.random.default_rng(n)
        rows, queries = rows_of(rng, n, d)
        points, exclude_row = rows_and_strangers(rng, rows, queries, 4)
        assert_told(build(rows, size, metric, kernel), rows, points, exclude_row)


@pytest.mark.parametrize("models", [*range(1, 34), 63, 64, 65])
@pytest.mark.parametrize("outputs", [1, 2])
def test_every_number_of_models_and_outputs(models, outputs):
    """Few rows, so that the last ones, after which the memory ends, are among the neighbours."""
    rng = np.random.default_rng(models)
    for n in (1, 2, 9, 70):
        rows, queries = rng.normal(size=(n, 2)), rng.normal(size=(3, 2))
        neighbourhoods = Neighbourhoods(rows, max(1, n - 1), kernel="gaussian")
        assert_told(neighbourhoods, rows, queries, shape=(outputs, models), seed=models)


def test_moments_are_of_the_neighbours_alone(monkeypatch):
    """Rows that stand beside the neighbours in memory may hold anything."""
    rng = np.random.default_rng(0)
    rows, queries, size = rng.normal(size=(200, 3)), rng.normal(size=(30, 3)), 6
    for K in (1, 3, 5, 12, 17):
        clean = rng.normal(size=(200, 2, K))
        for query in queries:
            near = np.argsort(((rows - query) ** 2).sum(axis=1))[:size]
            residuals = np.full_like(clean, np.nan)
            residuals[near] = clean[near]
            for path in PATHS:
                neighbourhoods = forced(monkeypatch, path)(rows, size)
                found = told(neighbourhoods, query[None], residuals)[0]
                np.testing.assert_array_equal(found, told(neighbourhoods, query[None], clean)[0])


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_row_that_is_left_out_might_as_well_not_be_there(monkeypatch, path, kernel):
    rng = np.random.default_rng(0)
    for n, size in [(40, 5), (40, 39), (2300, 60)]:
        rows, residuals = rng.normal(size=(n, 3)), rng.normal(size=(n, 1, 4))
        build = forced(monkeypatch, path)
        found = told(build(rows, size, kernel=kernel), rows[:5], residuals, np.arange(5))
        for i in range(5):
            others, left = np.delete(rows, i, axis=0), np.delete(residuals, i, axis=0)
            expected = told(build(others, size, kernel=kernel), rows[i : i + 1], left)
            for part, what in zip(found, expected, strict=True):
                np.testing.assert_allclose(part[i], what[0], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("metric", METRICS)
def test_means_with_more_asked_are_the_same_means(monkeypatch, path, kernel, metric):
    """And the spread and the effective number do not depend on what else is asked, nor with what."""
    rng = np.random.default_rng(1)
    rows, queries, residuals = rng.normal(size=(400, 3)), rng.normal(size=(130, 3)), rng.normal(size=(400, 1, 3))
    exclude_row, values = rng.integers(400, size=130), np.ascontiguousarray(residuals[:, 0] ** 2)
    for size in (20, 400):
        neighbourhoods = forced(monkeypatch, path)(rows, size, metric, kernel)
        asked = csr_array(queries) if neighbourhoods.sparse else queries
        for without in (None, exclude_row):
            means, spread, effective = np.empty((130, 2, 3)), np.empty((130, 2)), np.empty((130, 2))
            neighbourhoods.means_into(means, 1, asked, values, without, spread, effective)
            if size < 400 or kernel != "uniform" or without is not None:
                np.testing.assert_array_equal(means[:, 1], neighbourhoods.means(asked, values, without))
            else:
                np.testing.assert_allclose(means[:, 1], neighbourhoods.means(asked, values), rtol=1e-12)
            moments, also_spread, also_effective = told(neighbourhoods, queries, residuals, without)
            np.testing.assert_array_equal(spread[:, 1], also_spread)
            np.testing.assert_array_equal(effective[:, 1], also_effective)
            np.testing.assert_allclose(moments[:, [0, 2, 5]], means[:, 1], rtol=1e-12)
            for m in (0, 64, 129):
                row = None if without is None else without[m : m + 1]
                alone = told(neighbourhoods, queries[m : m + 1], residuals, row)
                for part, what in zip(alone, (moments, also_spread, also_effective), strict=True):
                    np.testing.assert_array_equal(part[0], what[m])


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("unit", [1e-310, 1e-200, 1e-100, 1e100, 1e150, 1e200])
def test_the_spread_is_in_the_units_of_the_rows(monkeypatch, path, metric, unit):
    """Up to infinity, and down to 0."""
    rng = np.random.default_rng(1)
    rows, queries = (unit * part for part in normal(rng, 300, 3))
    queries, exclude_row = rows_and_strangers(rng, rows, queries, 5)
    for kernel in KERNELS:
        assert_told(forced(monkeypatch, path)(rows, 12, metric, kernel), rows, queries[5:], exclude_row[5:])
    spread = told(forced(monkeypatch, path)(rows, 300, metric), queries, np.ones((300, 1, 1)))[1]
    expected = [told_near(rows, query, np.ones((300, 1, 1)), 300, metric, "uniform")[1] for query in queries]
    np.testing.assert_allclose(spread, expected, rtol=1e-12)


@pytest.mark.parametrize("unit", [1e-30, 1.0, 1e30])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("path", PATHS)
def test_moments_of_single_precision_rows(monkeypatch, path, metric, unit):
    rng = np.random.default_rng(1)
    rows, queries = ((unit * part).astype(np.float32) for part in normal(rng, 500, 20))
    queries, exclude_row = rows_and_strangers(rng, rows, queries, 5)
    assert_told(forced(monkeypatch, path)(rows, 25, metric, "tricube"), rows, queries[5:], exclude_row[5:])
    assert_told(forced(monkeypatch, path)(rows, 25, metric, "tricube"), rows, queries[5:].astype(float))


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_moments_of_sparse_rows(metric, kernel):
    rng = np.random.default_rng(3)
    table = random_sparse(330, 120, density=0.03, random_state=rng, format="csr").toarray()
    table[:, :2] = rng.normal(size=(330, 2))
    rows, queries = table[:300], table[300:]
    for size in (1, 20, 299, 300):
        neighbourhoods = Neighbourhoods(csr_array(rows), size, metric, kernel)
        assert neighbourhoods.sparse
        assert_told(neighbourhoods, rows, queries, np.arange(30))


@settings(max_examples=150)
@given(
    data=st.data(), n=st.integers(1, 120), d=st.integers(1, 9), side=st.integers(0, 4), seed=st.integers(0, 2**32 - 1)
)
def test_among_equals_the_earlier_of_the_other_rows_is_taken(data, n, d, side, seed):
    """Whole numbers again: sums are exact, whatever their order."""
    metric, path = data.draw(st.sampled_from(["euclidean", "manhattan"])), data.draw(st.sampled_from(PATHS))
    size = data.draw(st.integers(1, n))
    rng = np.random.default_rng(seed)
    rows = rng.integers(-side, side + 1, size=(n, d)).astype(float)
    queries = np.vstack([rows[rng.integers(n, size=5)], rng.integers(-side - 1, side + 2, size=(5, d))])
    exclude_row = rng.integers(n, size=10)
    residuals = rng.integers(-9, 10, size=(n, 2, 3)).astype(float)
    with pytest.MonkeyPatch.context() as patch:
        neighbourhoods = forced(patch, path)(rows, size, metric)
    found = neighbourhoods.means(csr_array(queries) if path == "sparse" else queries, np.eye(n), exclude_row)
    moments, spread, effective = told(neighbourhoods, queries, residuals, exclude_row)
    for m, (query, left) in enumerate(zip(queries, exclude_row, strict=True)):
        gaps = np.abs(rows - query).sum(axis=1) if metric == "manhattan" else ((rows - query) ** 2).sum(axis=1)
        nearest = np.array([i for i in np.argsort(gaps, kind="stable") if i != left][:size], int)
        np.testing.assert_array_equal(np.flatnonzero(found[m]), np.sort(nearest))
        assert effective[m] == len(nearest)
        if len(nearest):
            sums = np.einsum("nqj,nqk->jk", residuals[nearest], residuals[nearest])[np.tril_indices(3)]
            np.testing.assert_allclose(moments[m], sums / len(nearest), rtol=1e-14)
            squares = gaps[nearest] ** (2 if metric == "manhattan" else 1)
            np.testing.assert_allclose(spread[m], squares.mean(), rtol=1e-14)


@settings(max_examples=60)
@given(data=st.data(), n=st.integers(2, 90), K=st.integers(1, 20), seed=st.integers(0, 2**32 - 1))
def test_laws_of_moments(data, n, K, seed):
    """They are of a positive semidefinite matrix; rows count for at least one and at most as many as there are."""
    size, kernel = data.draw(st.integers(1, n)), data.draw(st.sampled_from(list(KERNELS)))
    metric, leaves_out = data.draw(st.sampled_from(list(METRICS))), data.draw(st.booleans())
    rng = np.random.default_rng(seed)
    rows, queries, residuals = rng.normal(size=(n, 4)), rng.normal(size=(7, 4)), rng.normal(size=(n, 2, K))
    exclude_row = rng.integers(n, size=7) if leaves_out else None
    neighbourhoods = Neighbourhoods(rows, size, metric, kernel)
    moments, spread, effective = told(neighbourhoods, queries, residuals, exclude_row)
    whole = np.zeros((7, K, K))
    whole[:, *np.tril_indices(K)] = moments
    diagonal = np.einsum("mjj->mj", whole)
    symmetric = whole + np.swapaxes(whole, 1, 2) - np.eye(K) * diagonal[:, None]
    assert (np.linalg.eigvalsh(symmetric) >= -1e-12 * diagonal.sum(axis=1, keepdims=True)).all()
    most = min(size, n - leaves_out)
    assert (effective >= 1 - 1e-12).all()
    assert (effective <= most * (1 + 1e-12)).all()
    assert (spread > 0).all()
    if kernel == "uniform":
        np.testing.assert_allclose(effective, most, rtol=1e-14)
    scaled = told(neighbourhoods, queries, -3 * residuals, exclude_row)[0]
    np.testing.assert_allclose(scaled, 9 * moments, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("metric", METRICS)
def test_leaving_out_the_only_row_leaves_nothing(monkeypatch, path, kernel, metric):
    rows, queries, residuals = np.array([[1.0, 2.0]]), np.array([[1.0, 2.0], [3.0, 5.0]]), np.ones((1, 1, 3))
    neighbourhoods = forced(monkeypatch, path)(rows, 1, metric, kernel)
    moments, spread, effective = told(neighbourhoods, queries, residuals, np.zeros(2, np.intp))
    assert (moments == 0).all()
    assert (spread == np.inf).all()
    assert (effective == 0).all()
    assert (neighbourhoods.means(queries, np.ones((1, 2)), np.zeros(2, np.intp)) == 0).all()


@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_what_is_left_of_everything_does_not_depend_on_what_was_left_out(form):
    """No trace remains of a residual of 1e150, which a subtraction would leave."""
    rng = np.random.default_rng(0)
    rows, residuals = rng.normal(size=(60, 30)) * (rng.random((60, 30)) < 0.05), rng.normal(size=(60, 2, 5))
    neighbourhoods = Neighbourhoods(form(rows), 60)
    assert neighbourhoods.path == "everything"
    residuals[7] = 1e150
    moments = told(neighbourhoods, rows[:3], residuals, np.full(3, 7))[0]
    others = np.delete(residuals, 7, axis=0)
    expected = np.einsum("nqj,nqk->jk", others, others)[np.tril_indices(5)] / 59
    np.testing.assert_allclose(moments, np.tile(expected, (3, 1)), rtol=1e-12, atol=1e-13)
    means = neighbourhoods.means(rows[:3], residuals[:, 0], np.full(3, 7))
    np.testing.assert_allclose(means, np.tile(others[:, 0].mean(axis=0), (3, 1)), rtol=1e-12, atol=1e-13)


def test_moments_of_everything_without_distances():
    rng = np.random.default_rng(0)
    rows, residuals = rng.normal(size=(300, 2)), rng.normal(size=(300, 2, 9))
    moments, effective = np.empty((4, 2, 45)), np.empty((4, 2))
    Neighbourhoods(rows, 300).moments_into(moments, 1, rows[:4], residuals, effective=effective)
    expected = np.einsum("nqj,nqk->jk", residuals, residuals)[np.tril_indices(9)] / 300
    np.testing.assert_allclose(moments[:, 1], np.tile(expected, (4, 1)), rtol=1e-12, atol=1e-14)
    assert (effective[:, 1] == 300).all()


@pytest.mark.parametrize("size", [7, 40])
def test_neighbourhoods_can_be_copied_and_kept(size):
    rng = np.random.default_rng(0)
    rows, queries, residuals = rng.normal(size=(40, 2)), rng.normal(size=(5, 2)), rng.normal(size=(40, 1, 3))
    neighbourhoods = Neighbourhoods(rows, size)
    expected = told(neighbourhoods, queries, residuals)
    for again in (pickle.loads(pickle.dumps(neighbourhoods)), Neighbourhoods(rows, size)):
        for part, what in zip(told(again, queries, residuals), expected, strict=True):
            np.testing.assert_array_equal(part, what)
