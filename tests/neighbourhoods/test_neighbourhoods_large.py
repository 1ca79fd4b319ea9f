"""Large sets of rows: every way through them finds what looking at all of them finds."""

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from support.neighbourhoods import (
    METRICS_AND_KINDS,
    PRECISIONS,
    assert_means,
    assert_told,
    normal,
    rows_and_strangers,
)

from degroot.neighbourhoods import KERNELS, METRICS, Neighbourhoods
from degroot.neighbourhoods.large import clusters
from degroot.neighbourhoods.large import rows as large
from degroot.neighbourhoods.large.cost_model import principal

PATHS = ("blocked", "clustered", "screened")


def ways(path):
    """What `large.cheapest` gives, so that the search takes `path`."""

    def chosen(sample, size, n, metric):
        d = sample.rows.shape[1]
        centres = large.centres_of(sample, n) if path == "clustered" else np.empty((0, d))
        screen = principal(sample.rows.astype(float))[:4] if path == "screened" else np.empty((0, d))
        return centres, screen.astype(np.float32)

    return chosen


def build(path, rows, size, metric="euclidean", kernel="uniform", **settings):
    """Neighbourhoods of rows that are taken for a large set."""
    rows = np.ascontiguousarray(rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large, "LARGE", -1)
        patch.setattr(large, "cheapest", ways(path))
        patch.setattr(clusters, "ROWS_EACH", 40)  # many clusters, in many parts
        patch.setattr(clusters, "SAMPLED_EACH", 4)
        patch.setattr(clusters, "PART", 64)
        found = Neighbourhoods(rows, size, metric, kernel, **settings)
    assert found.path == ("everything" if size == len(rows) and kernel == "uniform" else path)
    return found


# ------------------------------------------------------------------------------------------------------------ exact


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("metric", "rows_of"), METRICS_AND_KINDS)
def test_means_are_those_over_the_nearest_rows(path, metric, rows_of):
    if metric == "manhattan" and path == "screened":
        pytest.skip("directions bound Euclidean distances only")
    for n, d, size in [(700, 17, 7), (2500, 20, 1), (3001, 16, 3000), (300, 15, 300), (4200, 33, 400)]:
        rows, queries = rows_of(np.random.default_rng(n), n, d)
        kernel = list(KERNELS)[size % 3]
        assert_means(build(path, rows, size, metric, kernel), rows, queries, atol=1e-12)


@pytest.mark.parametrize("path", ["blocked", "clustered"])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("d", [1, 3])
def test_few_features(path, metric, kernel, d):
    rows, queries = normal(np.random.default_rng(d), 2500, d)
    if metric == "cosine" and d == 1:
        rows, queries = np.abs(rows), np.abs(queries)  # one direction: the first rows are taken
    for size in (1, 9, 2499):
        assert_means(build(path, rows, size, metric, kernel), rows, queries)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("rows_as", "queries_as"), PRECISIONS)
@pytest.mark.parametrize("away", [0.0, 1e4])
def test_single_and_double_precision_may_be_mixed(path, rows_as, queries_as, away):
    rows, queries = (part + away for part in normal(np.random.default_rng(2), 2300, 18))
    rows, queries = rows.astype(rows_as), queries.astype(queries_as)
    assert_means(build(path, rows, 17), rows, queries)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("away", [1e3, 1e6, 1e9, 1e12])
def test_neighbours_of_far_away_queries(path, away):
    for n, size in [(500, 9), (6000, 300)]:
        rows, queries = normal(np.random.default_rng(n), n, 16)
        assert_means(build(path, rows, size), rows, away * queries, atol=1e-12)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("unit", [1e-25, 1e-8, 1e15, 1e25])
def test_the_unit_of_the_features_does_not_matter(path, unit):
    rows, queries = ((unit * part).astype(np.float32) for part in normal(np.random.default_rng(1), 600, 20))
    assert_means(build(path, rows, 12), rows, queries)


@pytest.mark.parametrize("unit", [1e-40, 1e36, 1e200])
def test_rows_beyond_single_precision_are_searched_as_small_sets_are(monkeypatch, unit):
    monkeypatch.setattr(large, "LARGE", -1)
    rows, queries = (unit * part for part in normal(np.random.default_rng(1), 600, 20))
    neighbourhoods = Neighbourhoods(rows, 12)
    assert neighbourhoods.path == "dense"
    assert_means(neighbourhoods, rows, queries)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_moments_spread_and_rows_that_are_left_out(path, metric, kernel):
    if metric == "manhattan" and path == "screened":
        pytest.skip("directions bound Euclidean distances only")
    rng = np.random.default_rng(1)
    rows, queries = normal(rng, 900, 19)
    queries, exclude_row = rows_and_strangers(rng, rows, queries, 5)
    for size in (1, 25, 899, 900):
        assert_told(build(path, rows, size, metric, kernel), rows, queries, exclude_row)


@pytest.mark.parametrize("path", PATHS)
def test_answers_do_not_depend_on_what_is_asked_together(path):
    rng = np.random.default_rng(9)
    rows, queries, values = rng.normal(size=(2500, 16)), rng.normal(size=(3000, 16)), rng.normal(size=(2500, 2))
    neighbourhoods = build(path, rows, 25)
    found = neighbourhoods.means(queries, values)
    for m in [*range(0, len(queries), 131), len(queries) - 1]:
        np.testing.assert_array_equal(neighbourhoods.means(queries[m : m + 1], values)[0], found[m])


@settings(max_examples=100)
@given(data=st.data(), n=st.integers(2, 400), side=st.integers(0, 4), seed=st.integers(0, 2**32 - 1))
def test_among_equals_the_earlier_row_is_taken(data, n, side, seed):
    """On whole numbers distances are exact."""
    path = data.draw(st.sampled_from(PATHS))
    metric = "euclidean" if path == "screened" else data.draw(st.sampled_from(["euclidean", "manhattan"]))
    size, d = data.draw(st.integers(1, n - 1)), data.draw(st.sampled_from([15, 16, 31, 32]))
    rng = np.random.default_rng(seed)
    rows = rng.integers(-side, side + 1, size=(n, d)).astype(float)
    queries = rng.integers(-side - 1, side + 2, size=(9, d)).astype(float)
    found = build(path, rows, size, metric).means(queries, np.eye(n)) > 0
    for query, chosen in zip(queries, found, strict=True):
        gaps = np.abs(rows - query).sum(axis=1) if metric == "manhattan" else ((rows - query) ** 2).sum(axis=1)
        np.testing.assert_array_equal(np.flatnonzero(chosen), np.sort(np.argsort(gaps, kind="stable")[:size]))


@settings(max_examples=60)
@given(data=st.data(), n=st.integers(20, 3000), d=st.integers(15, 40), seed=st.integers(0, 2**32 - 1))
def test_rows_in_heaps_and_on_planes(data, n, d, seed):
    """Where there is something to pass over: heaps of unlike size and distance, in few dimensions or many."""
    path, size = data.draw(st.sampled_from(PATHS)), data.draw(st.integers(1, n))
    rng = np.random.default_rng(seed)
    inner = data.draw(st.integers(1, d))
    heaps = rng.normal(size=(data.draw(st.integers(1, 30)), inner)) * 10.0 ** rng.integers(-2, 3)
    flat = heaps[rng.integers(len(heaps), size=n + 30)] + rng.normal(size=(n + 30, inner)) * rng.exponential()
    points = flat @ rng.normal(size=(inner, d)) + 1e-3 * rng.normal(size=(n + 30, d)) + rng.normal(size=d)
    kernel = data.draw(st.sampled_from(list(KERNELS)))
    assert_means(build(path, points[:n], size, kernel=kernel), points[:n], points[n:], atol=1e-12)


# ------------------------------------------------------------------------------------------------- which way is chosen


def heaps(rng, n, d):
    centres = 10 * rng.normal(size=(20, d))
    return (centres[rng.integers(20, size=n)] + rng.normal(size=(n, d))).astype(np.float32)


def flat(rng, n, d):
    return (rng.normal(size=(n, 3)) @ rng.normal(size=(3, d)) + 0.01 * rng.normal(size=(n, d))).astype(np.float32)


def noise(rng, n, d):
    return rng.normal(size=(n, d)).astype(np.float32)


@pytest.mark.parametrize(("rows_of", "path"), [(heaps, "clustered"), (flat, "screened"), (noise, "blocked")])
def test_the_way_that_is_chosen_depends_on_the_rows(monkeypatch, rows_of, path):
    monkeypatch.setattr(large, "LARGE", 1 << 19)
    monkeypatch.setattr(clusters, "ROWS_EACH", 200)
    rows = rows_of(np.random.default_rng(0), 20_030, 12 if rows_of is heaps else 40)
    neighbourhoods = Neighbourhoods(rows[:20_000], 100)
    assert neighbourhoods.path == path
    assert_means(neighbourhoods, rows[:20_000], rows[20_000:])


def test_small_sparse_and_scattered_rows_are_not_large_sets(monkeypatch):
    rows = np.random.default_rng(0).normal(size=(500, 20))
    assert Neighbourhoods(rows, 9).path == "dense"
    assert Neighbourhoods(rows, 9).kept() == {}
    monkeypatch.setattr(large, "LARGE", -1)
    assert Neighbourhoods(rows[:, ::2], 9).path == "dense"
    assert Neighbourhoods(csr_array(rows * (rows > 2)), 9).path == "sparse"


@pytest.mark.parametrize("path", PATHS)
def test_what_was_kept_is_not_made_again(monkeypatch, path):
    rng = np.random.default_rng(0)
    rows, queries, values = rng.normal(size=(900, 16)), rng.normal(size=(40, 16)), rng.normal(size=(900, 2))
    first = build(path, rows, 20)
    for made in ("extremes", "draw", "cheapest", "centres_of", "layout_of"):
        monkeypatch.setattr(large, made, None)
    monkeypatch.setattr(large, "LARGE", -1)
    again = Neighbourhoods(rows, 20, kept=first.kept())
    assert again.path == path
    np.testing.assert_array_equal(again.means(queries, values), first.means(queries, values))


def test_what_was_kept_of_other_rows_is_made_again(monkeypatch):
    rng = np.random.default_rng(0)
    rows, other = rng.normal(size=(900, 16)), rng.normal(size=(800, 17))
    kept = build("clustered", other, 20).kept()
    assert_means(build("clustered", rows, 20, kept=kept), rows, rows[:9] + 0.1)


# ------------------------------------------------------------------------------------------------------ where rows lie


@pytest.mark.parametrize("mode", ["r", "c"])
@pytest.mark.parametrize("path", PATHS)
def test_rows_in_a_file_are_not_copied(tmp_path, mode, path):
    rng = np.random.default_rng(0)
    rows, queries = rng.normal(size=(900, 16)).astype(np.float32), rng.normal(size=(40, 16))
    np.save(tmp_path / "rows.npy", rows)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode=mode)
    neighbourhoods = build(path, mapped, 20)
    assert np.shares_memory(neighbourhoods._index.rows, mapped)
    del mapped
    assert_means(neighbourhoods, rows, queries)
    again = pickle.loads(pickle.dumps(neighbourhoods))
    np.testing.assert_array_equal(again.means(queries, rows), neighbourhoods.means(queries, rows))


MEMORY = """
import sys, threading, time
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
from degroot.neighbourhoods import Neighbourhoods

def own():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon"))

rng = np.random.default_rng(0)
def ask(rows):
    for size in (100, len(rows) // 100):
        values, out = np.ones((len(rows), 2)), np.empty((100, 1, 2))
        near = Neighbourhoods(rows, size)
        near.means_into(out, 0, rng.normal(size=(100, rows.shape[1])), values)

mapped = np.load(sys.argv[1], mmap_mode="r")
small = np.array(mapped[:300_000])
ask(small)  # code and constants
before = own()
most, done = before, False
def watch():
    global most
    while not done:
        most = max(most, own())
        time.sleep(0.01)
watcher = threading.Thread(target=watch)
watcher.start()
ask(mapped)
done = True
watcher.join()
print((most - before) // 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is counted by Linux")
def test_memory_does_not_grow_with_the_rows(tmp_path):
    """A file of 400 MB, of which the search holds no copy, not even for a while."""
    rows = np.lib.format.open_memmap(tmp_path / "rows.npy", "w+", np.float32, (1_000_000, 100))
    for start in range(0, len(rows), 100_000):
        rows[start : start + 100_000] = heaps(np.random.default_rng(0), 100_000, 100)
    rows.flush()
    done = subprocess.run([sys.executable, "-c", MEMORY, tmp_path / "rows.npy"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 200
