"""Residuals on disk: what peers' models were off by on this node's rows, memory-mapped, one file for each model."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array
from degroot.exceptions import DeGrootError
from degroot.files.atomic import save
from degroot.node.protocol.codec import Model

BLOCK = 1 << 17  # numbers written at once


class StorageError(DeGrootError):
    """The state folder cannot be written."""


@dataclass(frozen=True, slots=True)
class Residuals:
    """A folder with the residuals, (n, Q) each, of models on n rows that do not change."""

    folder: Path
    shape: tuple[int, int]

    @classmethod
    def at(cls, state: Path, X: Array, y: Array, schema: str = "") -> "Residuals":
        """Those of these rows, by the schema with this digest; what was kept of other rows is removed."""
        content = np.ascontiguousarray(X).tobytes() + np.ascontiguousarray(y).tobytes() + schema.encode()
        digest = hashlib.sha256(content).hexdigest()[:16]
        everything, folder = state / "residuals", state / "residuals" / digest
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for other in everything.iterdir():
                if other != folder:
                    _remove(other)
        except OSError as error:
            raise _refusal(folder, error) from error
        return cls(folder, (len(X), y.shape[1] if y.ndim == 2 else 1))

    def complete(self) -> Mapping[Model, Array]:
        """The models that are wholly scored, of each peer the one that was scored last."""
        newest: dict[str, tuple[Model, Path]] = {}
        kept = [(about, about.with_suffix(".npy")) for about in self.folder.glob("*.json")]
        for about, values in sorted((pair for pair in kept if pair[1].exists()), key=lambda pair: _written(pair[1])):
            told = json.loads(about.read_text())
            newest[told["name"]] = Model(told["name"], told["version"]), values
        return {model: np.load(values, mmap_mode="r") for model, values in newest.values()}

    def begun(self, model: Model, chunk: int) -> "UnfinishedResiduals":
        """Room for a model's residuals; if it was begun before, with all that is finished.

        What was begun of other versions is removed: a peer whose model changes all the time fills no disk.
        """
        about = self.folder / f"{_file_name(model)}.json"
        files = part, done = about.with_suffix(".part"), about.with_suffix(".done")
        try:
            self._forget_unfinished(model)
            if not all(path.exists() for path in (about, *files)):
                about.unlink(missing_ok=True)  # it must not tell of other chunks than those that follow
                _allocate(part, self.shape, np.float64)
                _allocate(done, (-(-self.shape[0] // chunk),), np.uint8)
                told = {"name": model.name, "version": model.version, "chunk": chunk, "seed": _seed()}
                save(about, json.dumps(told).encode())
            told = json.loads(about.read_text())
            order = np.random.default_rng(told["seed"]).permutation(self.shape[0])
            return UnfinishedResiduals(about, order, told["chunk"], *(np.load(path, mmap_mode="r+") for path in files))
        except OSError as error:
            raise _refusal(about, error) from error

    def forget_earlier(self, model: Model) -> None:
        """Remove what is kept of other versions of a model."""
        for path in self._others(model):
            path.unlink(missing_ok=True)

    def _forget_unfinished(self, model: Model) -> None:
        """Remove what is kept of other versions of a model, unless they are wholly scored."""
        for path in self._others(model):
            if path.suffix not in (".json", ".npy") or not path.with_suffix(".npy").exists():
                path.unlink(missing_ok=True)

    def _others(self, model: Model) -> list[Path]:
        """The files of other versions of a model."""
        of_name = [path for path in self.folder.iterdir() if path.stem.rpartition("-")[0] == model.name]
        return [path for path in of_name if path.stem != _file_name(model)]


@dataclass(frozen=True, slots=True)
class UnfinishedResiduals:
    """A model that is being scored, in shuffled chunks of rows. What is done stays done if the process is killed."""

    about: Path
    order: NDArray[np.intp]
    chunk: int
    part: Any  # (n, Q) on disk
    done: Any  # a byte for each chunk, on disk

    @property
    def progress(self) -> float:
        """The share of chunks that are done."""
        return float(np.mean(self.done != 0))

    def remaining(self) -> list[int]:
        """The chunks that are not done."""
        return [int(k) for k in np.flatnonzero(self.done == 0)]

    def rows(self, chunk: int) -> NDArray[np.intp]:
        """The numbers of the rows in a chunk."""
        return self.order[chunk * self.chunk : (chunk + 1) * self.chunk]

    def write(self, chunk: int, residuals: Array) -> None:
        """Keep the residuals of a chunk: first they, then that they are there."""
        self.part[self.rows(chunk)] = residuals
        self.part.flush()
        self.done[chunk] = 1
        self.done.flush()

    def finish(self) -> None:
        """From now on it is complete."""
        try:
            os.replace(self.about.with_suffix(".part"), self.about.with_suffix(".npy"))
            self.about.with_suffix(".done").unlink(missing_ok=True)
        except OSError as error:
            raise _refusal(self.about, error) from error


def _file_name(model: Model) -> str:
    return f"{model.name}-{hashlib.sha256(model.version.encode()).hexdigest()[:12]}"


def _written(path: Path) -> int:
    return path.stat().st_mtime_ns


def _seed() -> int:
    return int.from_bytes(os.urandom(8), "little")


def _allocate(path: Path, shape: tuple[int, ...], dtype: type) -> None:
    """A file with zeros, all of it on disk: to map more than there is room for ends the process."""
    about = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
    block: NDArray[Any] = np.zeros(BLOCK, dtype)
    left = int(np.prod(shape))
    try:
        with path.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, about)
            while left > 0:
                file.write(block[:left].tobytes())
                left -= BLOCK
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        path.unlink(missing_ok=True)
        raise


def _remove(path: Path) -> None:
    for each in path.iterdir():
        each.unlink()
    path.rmdir()


def _refusal(path: Path, error: OSError) -> StorageError:
    return StorageError(f"The state folder must have room and be writable; {path}: {error.strerror}.")
