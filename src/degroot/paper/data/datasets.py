"""The paper's data sets, from a folder, from the packages that carry them, or from LIBSVM's site; and one of ours."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from degroot.exceptions import InvalidInput
from degroot.paper.data import beijing, libsvm, packaged
from degroot.paper.data import download as site

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
    fingerprint: str  # sha256 of what is in X and y


@dataclass(frozen=True)
class Known:
    """What a data set has to be like."""

    title: str
    rows: int
    columns: int
    file: str  # as LIBSVM, or UCI, calls it
    stems: tuple[str, ...]  # of npz archives
    sparse: bool = False
    gaps: bool = False  # features may be missing: NaN

    @property
    def published(self) -> str:
        """The file that is published."""
        return self.file if self.file.endswith(".zip") else f"{self.file}.bz2"


KNOWN = {
    "boston": Known("Boston", 506, 13, "housing", ("boston",)),
    "abalone": Known("Abalone", 4177, 8, "abalone", ("abalone",)),
    "cpusmall": Known("cpusmall", 8192, 12, "cpusmall", ("cpusmall",)),
    "e2006": Known("E2006-tfidf", 16087, 150360, "E2006.train", ("e2006",), sparse=True),
    "yearprediction": Known(
        "YearPredictionMSD", 463715, 90, "YearPredictionMSD", ("yearprediction", "yearpredictionmsd")
    ),
}
NAMES: tuple[str, ...] = tuple(KNOWN)
OURS = {  # not in the paper: for studies of our own
    "beijing_air": Known("Beijing air quality", 412029, 15, beijing.ARCHIVE, ("beijing_air",), gaps=True)
}


def load(name: str, folder: Path | None = None, *, download: bool = False) -> Data:
    """The data set called `name`, its rows and columns counted.

    It is looked for in `folder`, if given, as LIBSVM's file, plain or bz2, as ``<name>.npz``, and as
    ``<name>_subset.npz``, which need not be complete. Then in the packages of the extra ``[paper]``; the large
    sets among earlier downloads and, with `download`, on LIBSVM's site, Beijing's stations on UCI's. Downloads are
    checked against the sums in `degroot.paper.data.download`, which are third parties': the sites publish none.

    A file that is found has to be right: another source never takes its place.
    """
    known = KNOWN.get(name) or OURS.get(name)
    if known is None:
        raise InvalidInput(f"The data sets are {', '.join(NAMES)}; got {name!r}.")
    path = None if folder is None else _found(Path(folder), known)
    if path is not None:
        return _checked(name, _read(path), path.name, complete=not path.stem.endswith("_subset"))
    return _packaged(name) if name in packaged.PLACES else _downloaded(name, known, download)


def _found(folder: Path, known: Known) -> Path | None:
    """The first file in `folder` that should hold the data set."""
    try:
        present = {path.name for path in folder.iterdir()}
    except OSError as error:
        raise InvalidInput(f"The folder of data must be one that can be read; {folder}: {error.strerror}.") from error
    names = [known.file, f"{known.file}.bz2"]
    names += [stem + ending for ending in (".npz", "_subset.npz") for stem in known.stems]
    return next((folder / name for name in names if name in present), None)


def _read(path: Path) -> libsvm.Table:
    if path.suffix != ".zip":
        return libsvm.read(path)
    stations = beijing.read(path)
    return stations.X, stations.y


def _packaged(name: str) -> Data:
    try:
        table, source = packaged.read(name)
    except FileNotFoundError as error:
        raise DataMissing(f"{KNOWN[name].title} is not at hand: {error}") from error
    return _checked(name, table, source)


def _downloaded(name: str, known: Known, download: bool) -> Data:
    file = known.published
    missing, by_hand = f"{known.title} is not at hand", f"put {file} into a folder and give it: --data DIR."
    try:
        path = site.kept(file) or (site.fetch(file) if download else None)
    except ImportError as error:
        raise DataMissing(f"{missing}, and {error.name} is not installed: {packaged.INSTALL}") from error
    except OSError as error:
        raise DataMissing(f"{missing}, and downloading {site.address(file)} failed ({error}): {by_hand}") from error
    if path is None:
        raise DataMissing(f"{missing}: download it from {site.address(file)}, or {by_hand}")
    return _checked(name, _read(path), file)


def _checked(name: str, table: libsvm.Table, source: str, *, complete: bool = True) -> Data:
    """The table as `Data`, if it has the rows and columns that it should have, all finite."""
    known, (X, y) = KNOWN.get(name) or OURS[name], table
    full, counts = f"{known.rows:,} x {known.columns:,}", f"{X.shape[0]:,} x {X.shape[1]:,}"
    if complete and X.shape != (known.rows, known.columns):
        raise InvalidInput(f"{source} must hold {full} features of {known.title} (rows x columns); it holds {counts}.")
    if not (1 <= X.shape[0] <= known.rows and 1 <= X.shape[1] <= known.columns):
        raise InvalidInput(f"{source} must hold some of {full} features of {known.title}; it holds {counts}.")
    if len(y) != X.shape[0]:
        raise InvalidInput(f"{source} must hold a target for each of {X.shape[0]:,} rows; it holds {len(y):,}.")
    X, y = _sparse(X) if known.sparse else _dense(X), np.array(y, dtype=np.float64)
    for what, values in (("features", X.data if known.sparse else X), ("targets", y)):
        wrong = np.count_nonzero(np.isinf(values) if known.gaps and values is X else ~np.isfinite(values))
        if wrong:
            raise InvalidInput(f"{source} must hold finite numbers; {wrong:,} of its {what} are nan or infinite.")
    source = source if complete else f"{source} ({counts} of {full})"
    return Data(name, known.title, X, y, complete, source, _fingerprint(X, y))


def _dense(X: Any) -> Array:
    return np.ascontiguousarray(X.toarray() if issparse(X) else X, dtype=np.float64)


def _sparse(X: Any) -> csr_array:
    table = csr_array(X, dtype=np.float64)
    table.sum_duplicates()
    table.indices = table.indices.astype(np.int32)  # scikit-learn's solvers take no longer ones
    table.indptr = table.indptr.astype(np.int32)
    return table


def _fingerprint(X: Any, y: Array) -> str:
    content = hashlib.sha256(repr(X.shape).encode())
    for array in (X.data, X.indices, X.indptr, y) if issparse(X) else (X, y):
        content.update(array.tobytes())
    return content.hexdigest()
