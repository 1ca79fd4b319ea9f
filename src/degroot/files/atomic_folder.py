"""Files on their way into a folder: written beside it, and renamed when all are there."""

import ctypes
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.exceptions import InvalidInput
from degroot.files.atomic import settle, sync

BLOCK = 1 << 24  # bytes written at once
HERE, EXCHANGE = -100, 2  # arguments of renameat2: AT_FDCWD, RENAME_EXCHANGE


@dataclass(frozen=True, slots=True)
class Kept:
    """A folder that is being filled, and the digests of its files."""

    folder: Path
    digests: dict[str, str] = field(default_factory=dict)

    def file(self, name: str, content: bytes) -> str:
        """Keep this content, and give back the name."""
        self._write(name, [content])
        return name

    def array(self, name: str, array: NDArray[Any]) -> str:
        """Keep an array as .npy file, in C order, block by block: it may be larger than memory."""
        about = {"descr": np.lib.format.dtype_to_descr(array.dtype), "fortran_order": False, "shape": array.shape}
        self._write(name, _blocks(array), about)
        return name

    def table(self, name: str, table: Any) -> str | list[str]:
        """Keep a dense table as one .npy file, a sparse one as three."""
        if not hasattr(table, "indptr"):
            return self.array(f"{name}.npy", table)
        parts = {"numbers": table.data, "columns": table.indices, "starts": table.indptr}
        return [self.array(f"{name}.{part}.npy", array) for part, array in parts.items()]

    def _write(self, name: str, blocks: Any, header: dict[str, Any] | None = None) -> None:
        path, digest = self.folder / name, sha256()
        path.parent.mkdir(exist_ok=True)
        with path.open("wb+") as file:
            if header is not None:
                np.lib.format.write_array_header_1_0(file, header)
                file.seek(0)
                digest.update(file.read())
            for block in blocks:
                file.write(block)
                digest.update(block)
        self.digests[name] = digest.hexdigest()


@contextmanager
def replacing(folder: Path) -> Iterator[Kept]:
    """A folder to fill, which takes the place of `folder` once all is in it; nothing remains of one that fails."""
    unfinished = folder.with_name(f".{folder.name}.{os.getpid()}.unfinished")
    try:
        unfinished.mkdir(parents=True)
        yield Kept(unfinished)
        _put(unfinished, folder)
    except OSError as error:
        raise InvalidInput(f"The folder must have room and be writable; {folder}: {error.strerror}.") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _put(unfinished: Path, folder: Path) -> None:
    """Put a folder where another may be, which is then removed."""
    settle(unfinished)
    if not folder.exists():
        unfinished.rename(folder)
    elif not _exchanged(unfinished, folder):
        old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
        folder.rename(old)
        unfinished.rename(folder)
        shutil.rmtree(old, ignore_errors=True)
    sync(folder.parent)


def _exchanged(one: Path, two: Path) -> bool:
    """Whether two folders could be exchanged in one step, so that nobody ever finds none: Linux can."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform == "linux" else None
    return rename is not None and rename(HERE, os.fsencode(one), HERE, os.fsencode(two), EXCHANGE) == 0


def _blocks(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    step = max(1, BLOCK // max(1, array[:1].nbytes))
    for start in range(0, len(array), step):
        yield np.ascontiguousarray(array[start : start + step])
