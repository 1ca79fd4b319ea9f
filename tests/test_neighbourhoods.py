import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, csr_matrix
from scipy.sparse import random as random_sparse

from degroot.neighbourhoods import KERNELS, METRICS, Neighbourhoods, index

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
            tree = index.TreeIndex if expected == "tree" else lambda *_: None
            patch.setattr(index, "_tree_if_faster", tree)
            patch.setattr(index, "SPARSE_BELOW", 2.0)
            neighbourhoods = Neighbourhoods(csr_array(rows) if path == "sparse" else rows, size, metric, kernel)
        assert neighbourhoods.path == expected
        return neighbourhoods

    return build


def brute(rows, queries, values, size, metric="euclidean", kernel="uniform"):
    """Means over the nearest rows, by looking at all of them; ties go to the earlier row."""
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
    rows, query = rows.astype(float), query.astype(float)
    unit = -int(np.frexp(max(np.abs(rows).max(), np.abs(query).max()))[1])
    rows, query = np.ldexp(rows, unit), np.ldexp(query, unit)
    if metric == "cosine":
        return oracle.cosine(rows, query)
    gaps = np.ascontiguousarray(rows - query)
    return np.abs(gaps).sum(axis=1) if metric == "manhattan" else (gaps**2).sum(axis=1)


def assert_means(neighbourhoods, rows, queries, seed=0, **tolerance):
    values = np.random.default_rng(seed).exponential(size=(len(rows), 3))
    asked = csr_array(queries) if neighbourhoods.sparse else queries
    found = neighbourhoods.means(asked, values)
    expected = brute(rows, queries, values, neighbourhoods.size, neighbourhoods.metric, neighbourhoods.kernel)
    assert found.shape == expected.shape == (len(queries), 3)
    np.testing.assert_allclose(found, expected.astype(float), **{"rtol": 1e-9, **tolerance})


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


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("rows_of", KINDS)
def test_means_are_those_over_the_nearest_rows(monkeypatch, path, metric, rows_of):
    if metric == "cosine" and rows_of in WITHOUT_DIRECTION:
        rows_of = normal
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
    assert_means(forced(monkeypatch, path)(rows, size, metric, kernel), rows, queries)


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

    monkeypatch.setattr(index, "SPARSE_BELOW", 10.0)
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
    found = neighbourhoods.means(csr_array(queries) if path == "sparse" else queries, np.eye(n)) > 0
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
@pytest.mark.parametrize(("rows_as", "queries_as"), [("f4", "f8"), ("f8", "f4"), ("f4", "f4")])
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
