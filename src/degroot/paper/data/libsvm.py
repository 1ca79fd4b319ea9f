"""Reading data files: LIBSVM's text format, plain or bz2, and npz archives.

Whatever is wrong with a file is said in one line: the file, what was expected and what was found.
"""

import bz2
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.datasets import load_svmlight_file

from degroot.exceptions import InvalidInput

Array = NDArray[np.float64]
Table: TypeAlias = tuple[Any, Array]  # X, (n, d) array or CSR, and y, (n,)

DENSE = ("X", "y")
SPARSE = ("data", "indices", "indptr", "shape", "y")
LONGEST = 200  # letters quoted of what a foreign error says


def read(path: Path) -> Table:
    """The features and targets in the file: an npz archive if it is called so, or else text in LIBSVM's format."""
    return _parsed(path, "an npz archive", _npz) if path.suffix == ".npz" else _parsed(path, "LIBSVM text", _text)


def _parsed(path: Path, expected: str, parse: Callable[[Path], Table]) -> Table:
    """What `parse` makes of the file; the many ways in which foreign code gives up become one."""
    if path.is_dir():
        raise InvalidInput(f"{path.name} must be {expected}; it is a folder.")
    try:
        return parse(path)
    except InvalidInput:
        raise
    except EOFError as error:
        raise InvalidInput(f"{path.name} must be {expected}; it ends too early: it is cut short.") from error
    except OSError as error:
        raise InvalidInput(f"{path.name} must be {expected}; it cannot be read: {error.strerror or error}.") from error
    except Exception as error:
        reason = (str(error) or type(error).__name__)[:LONGEST]
        raise InvalidInput(f"{path.name} must be {expected}; it cannot be read: {reason}") from error


def _text(path: Path) -> Table:
    """Rows of ``target index:value ...``. Columns count from 1, or from 0 where there is a column 0."""
    with bz2.open(path) if path.suffix == ".bz2" else path.open("rb") as file:
        if not file.read(1):
            raise InvalidInput(f"{path.name} must be LIBSVM text; it is empty.")
        if path.suffix != ".bz2":
            _require_last_line_end(path, file)  # bz2 has its own marker of the end
        file.seek(0)
        X, y = load_svmlight_file(file)
    return X, y


def _require_last_line_end(path: Path, file: Any) -> None:
    file.seek(-1, 2)
    if file.read(1) != b"\n":
        raise InvalidInput(f"{path.name} must end with a line end; its last line has none, as if it was cut short.")


def _npz(path: Path) -> Table:
    """The arrays `X` and `y`, or those of a CSR matrix and `y`."""
    with path.open("rb") as file:
        if not file.read(1):
            raise InvalidInput(f"{path.name} must be an npz archive; it is empty.")
        if not zipfile.is_zipfile(file):
            raise InvalidInput(f"{path.name} must be an npz archive; it is none, or it is cut short.")
        file.seek(0)
        archive = np.load(file, allow_pickle=False)
        for layout in (DENSE, SPARSE):
            if set(layout) <= set(archive.files):
                return _assembled(path, {name: archive[name] for name in layout})
        found = ", ".join(archive.files) or "nothing"
    raise InvalidInput(f"{path.name} must hold {', '.join(DENSE)} or {', '.join(SPARSE)}; it holds {found}.")


def _assembled(path: Path, arrays: Mapping[str, NDArray[Any]]) -> Table:
    for name, array in arrays.items():
        allowed = "iu" if name in ("indices", "indptr", "shape") else "biuf"
        dimensions = 2 if name == "X" else 1
        if array.dtype.kind not in allowed or array.ndim != dimensions:
            kind = "integers" if allowed == "iu" else "numbers"
            raise InvalidInput(
                f"{path.name}: {name} must hold {kind} in {dimensions} dimension{'s'[: dimensions - 1]}; "
                f"it has dtype {array.dtype} and shape {array.shape}."
            )
    if "X" in arrays:
        return arrays["X"], arrays["y"]
    return _csr(path, arrays), arrays["y"]


def _csr(path: Path, arrays: Mapping[str, NDArray[Any]]) -> csr_array:
    shape = tuple(arrays["shape"].tolist())
    if len(shape) != 2:
        raise InvalidInput(f"{path.name}: shape must be rows and columns; it is {shape}.")
    try:
        X = csr_array((arrays["data"], arrays["indices"], arrays["indptr"]), shape=shape)
        X.check_format(full_check=True)
    except ValueError as error:
        raise InvalidInput(f"{path.name} must hold rows in CSR form; {error}") from error
    return X
