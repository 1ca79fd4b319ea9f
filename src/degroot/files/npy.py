"""Arrays in files: mapped into memory, so that nothing is read before it is used, and all processes share it."""

from collections.abc import Sequence
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.exceptions import InvalidInput, describe_error

one_at_a_time = RLock()


def mapped(path: Path) -> NDArray[Any]:
    """The array in a .npy file. What is written to it stays in this process."""
    try:
        with one_at_a_time:
            array = np.lib.format.open_memmap(path, mode="c")
    except OSError as error:
        raise InvalidInput(f"An array must be in a file that can be read; {path}: {error.strerror}.") from error
    except Exception as error:
        raise InvalidInput(f"{path} must be a whole .npy file of numbers; {describe_error(error)}.") from error
    if not array.flags.c_contiguous:
        raise InvalidInput(f"{path} must hold its rows one after the other (C order); it is in Fortran order.")
    return np.asarray(array)


def mapped_table(paths: Sequence[Path], width: int) -> Any:
    """A dense table in one file; or a sparse one in three, its numbers, their columns and where rows begin."""
    if len(paths) == 1:
        return mapped(paths[0])
    numbers, columns, starts = (mapped(path) for path in paths)
    if starts.ndim != 1 or not len(starts) or numbers.shape != columns.shape or starts[-1] != len(numbers):
        raise InvalidInput(f"{paths[0]} and the two files beside it must be those of one sparse table; they are not.")
    from scipy.sparse import csr_matrix

    return csr_matrix((numbers, columns, starts), shape=(len(starts) - 1, width), copy=False)


def check_shape(path: Path, array: Any, shape: tuple[int | None, ...], kinds: str = "f") -> None:
    """Refuse an array of another shape, None: any, or that does not hold numbers of these kinds."""
    fits = len(array.shape) == len(shape) and all(b in (None, a) for a, b in zip(array.shape, shape, strict=True))
    if not fits or array.dtype.kind not in kinds:
        wanted = " x ".join("any" if size is None else str(size) for size in shape)
        came = " x ".join(map(str, array.shape))
        raise InvalidInput(f"{path} must hold {wanted} numbers; it holds {came} of {array.dtype}.")
