"""Residuals on disk: what peers' models were off by on this node's rows, one file for each model.

Those of a model that is being scored are memory-mapped; whole ones are read, and checked, once.
"""

import hashlib
import io
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array
from degroot.exceptions import DeGrootError, describe_error
from degroot.files.atomic import save_durably
from degroot.files.checksums import LOST_FILE_ERRORS, DamagedFile, digest_file, read_record, save_record
from degroot.node.protocol.codec import Model

FOLDER = "residuals"  # in the state folder
SUFFIXES = (".npy", ".part", ".done", ".json")  # the record last: without it the others would be damaged
BLOCK = 1 << 17  # numbers written at once


class StorageError(DeGrootError):
    """The state folder cannot be written, or read."""


Tell = Callable[[str, Path, str], None]  # of a damaged file: whose model it is of, where it is, and what is wrong


def _tell_nobody(_name: str, _path: Path, _reason: str) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Residuals:
    """A folder with the residuals, (n, Q) each, of models on n rows that do not change.

    Of each model there is a record (.json) and the residuals (.npy); until all chunks are scored, what is there of them
    (.part), and a checksum of each chunk (.done). What does not match its checksum is removed, and `tell` is called.
    What cannot be read now is a StorageError: it may be whole.
    """

    folder: Path
    shape: tuple[int, int]
    tell: Tell = _tell_nobody

    @classmethod
    def at(cls, state: Path, X: Array, y: Array, schema: str = "", tell: Tell = _tell_nobody) -> "Residuals":
        """Those of these rows, by the schema with this digest; what was kept of other rows is removed."""
        content = np.ascontiguousarray(X).tobytes() + np.ascontiguousarray(y).tobytes() + schema.encode()
        digest = hashlib.sha256(content).hexdigest()[:16]
        everything, folder = state / FOLDER, state / FOLDER / digest
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for other in everything.iterdir():
                if other != folder:
                    _remove(other)
        except OSError as error:
            raise _refusal(folder, error) from error
        return cls(folder, (len(X), y.shape[1] if y.ndim == 2 else 1), tell)

    def find_complete(self) -> set[Model]:
        """The models that are wholly scored, of each peer the one that was scored last."""
        newest: dict[str, tuple[Model, int]] = {}
        for values in self.folder.glob("*.npy"):
            try:
                record = _read_about(values.with_suffix(".json"))
            except DamagedFile as error:
                self._drop(values, error)
                continue
            except OSError as error:
                raise _refusal(values, error) from error
            model, written = Model(record["name"], record["version"]), values.stat().st_mtime_ns
            if model.name not in newest or written > newest[model.name][1]:
                newest[model.name] = model, written
        return {model for model, _ in newest.values()}

    def read(self, model: Model) -> Array | None:
        """The residuals of a model that is wholly scored; None: they are damaged, and were removed."""
        values = self.folder / f"{_file_name(model)}.npy"
        try:
            record = _read_about(values.with_suffix(".json"))
            with values.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size != record.get("bytes"):
                    raise DamagedFile(values, f"it has {size} bytes instead of {record.get('bytes')}")
                if hashlib.file_digest(file, "sha256").hexdigest() != record["digest"]:
                    raise DamagedFile(values, "its checksum does not match")
                file.seek(0)
                residuals: Array = np.lib.format.read_array(file, allow_pickle=False)
        except DamagedFile as error:
            self._drop(values, error)
            return None
        except OSError as error:
            if error.errno not in LOST_FILE_ERRORS:
                raise _refusal(values, error) from error
            self._drop(values, DamagedFile(values, str(error.strerror)))
            return None
        return residuals

    def begin(self, model: Model, chunk: int) -> "UnfinishedResiduals":
        """Room for a model's residuals; if it was begun before, with all that is finished.

        What was begun of other versions is removed: a peer whose model changes all the time fills no disk.
        """
        about = self.folder / f"{_file_name(model)}.json"
        try:
            self._forget_unfinished(model)
            try:
                return self._go_on(about)
            except DamagedFile as error:
                if any(about.with_suffix(suffix).exists() for suffix in SUFFIXES):
                    self._drop(about, error)
            return self._begin_anew(about, model, chunk)
        except OSError as error:
            raise _refusal(about, error) from error

    def _begin_anew(self, about: Path, model: Model, chunk: int) -> "UnfinishedResiduals":
        _allocate(about.with_suffix(".part"), self.shape, np.float64)
        _allocate(about.with_suffix(".done"), (-(-self.shape[0] // chunk),), np.uint64)
        save_record(about, {"name": model.name, "version": model.version, "chunk": chunk, "seed": _seed()})
        return self._go_on(about)

    def _go_on(self, about: Path) -> "UnfinishedResiduals":
        """What was begun before, with the chunks that are whole."""
        record = _read_about(about)
        order, chunk = np.random.default_rng(record["seed"]).permutation(self.shape[0]), record["chunk"]
        part = _map_array(about.with_suffix(".part"), self.shape, np.float64)
        done = _map_array(about.with_suffix(".done"), (-(-self.shape[0] // chunk),), np.uint64)
        work = UnfinishedResiduals(about, order, chunk, part, done)
        damaged = work.forget_damaged()
        if damaged:
            self.tell(record["name"], about.with_suffix(".part"), f"{damaged} chunks do not match their checksums")
        return work

    def forget_earlier(self, model: Model) -> None:
        """Remove what is kept of other versions of a model."""
        for path in sorted(self._others(model), key=lambda path: path.suffix == ".json"):
            path.unlink(missing_ok=True)

    def _forget_unfinished(self, model: Model) -> None:
        """Remove what is kept of other versions of a model, unless they are wholly scored."""
        for path in self._others(model):
            if path.suffix not in (".json", ".npy") or not path.with_suffix(".npy").exists():
                path.unlink(missing_ok=True)

    def _others(self, model: Model) -> list[Path]:
        """The files of other versions of a model."""
        of_name = [path for path in self.folder.iterdir() if _find_owner(path) == model.name]
        return [path for path in of_name if path.stem != _file_name(model)]

    def _drop(self, path: Path, error: DamagedFile) -> None:
        """Remove all that is kept of a model of which something is damaged, and tell it."""
        try:
            _forget(path)
        except OSError as failure:
            raise _refusal(path, failure) from failure
        self.tell(_find_owner(path), error.path, error.reason)


@dataclass(frozen=True, slots=True)
class UnfinishedResiduals:
    """A model that is being scored, in shuffled chunks of rows. What is done stays done if the process is killed."""

    about: Path
    order: NDArray[np.intp]
    chunk: int
    part: Any  # (n, Q) on disk
    done: Any  # a checksum for each chunk, on disk; 0: it is not scored

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
        self.done[chunk] = self.digest_chunk(chunk)
        self.done.flush()

    def forget_damaged(self) -> int:
        """Count chunks as not done whose checksum does not match; how many these are."""
        damaged = [int(k) for k in np.flatnonzero(self.done) if self.done[k] != self.digest_chunk(int(k))]
        self.done[damaged] = 0
        return len(damaged)

    def finish(self) -> None:
        """From now on it is complete."""
        part, values = self.about.with_suffix(".part"), self.about.with_suffix(".npy")
        try:
            whole = {"bytes": part.stat().st_size, "digest": digest_file(part)}
            save_record(self.about, _read_about(self.about) | whole)
            os.replace(part, values)
            self.about.with_suffix(".done").unlink(missing_ok=True)
        except OSError as error:
            raise _refusal(self.about, error) from error

    def digest_chunk(self, chunk: int) -> int:
        """The checksum of a chunk as it is on disk; not 0."""
        content = np.ascontiguousarray(self.part[self.rows(chunk)]).tobytes()
        digest = hashlib.sha256(f"{chunk} ".encode() + content).digest()
        return int.from_bytes(digest[:8], "little") or 1


def _read_about(about: Path) -> dict[str, Any]:
    """The record of a model, which has to be in the file of its name."""
    record = read_record(about)
    if about.stem != _file_name(Model(record["name"], record["version"])):
        raise DamagedFile(about, "it is of another model")
    return record


def _map_array(path: Path, shape: tuple[int, ...], dtype: type) -> Any:
    """The array in a file, which is written to."""
    try:
        array = np.load(path, mmap_mode="r")  # to write to a file that is too short would make it longer
    except FileNotFoundError as error:
        raise DamagedFile(path, str(error.strerror)) from error
    except OSError:
        raise
    except Exception as error:  # which a damaged file can raise
        raise DamagedFile(path, f"it is no array ({describe_error(error)})") from error
    if array.shape != shape or array.dtype != dtype:
        raise DamagedFile(path, f"it holds {array.shape} of {array.dtype} instead of {shape} of {np.dtype(dtype)}")
    return np.load(path, mmap_mode="r+")


def _find_owner(path: Path) -> str:
    """Whose model a file is of."""
    return path.stem.rpartition("-")[0]


def _forget(path: Path) -> None:
    """Remove all files of a model."""
    for suffix in SUFFIXES:
        path.with_suffix(suffix).unlink(missing_ok=True)


def adopt(state: Path) -> list[str]:
    """Give a checksum to what a version before has kept without one, as it is now; whose models these are.

    What makes no sense is left as it is: it is noticed when it is read.
    """
    adopted = list[str]()
    for about in sorted((state / FOLDER).glob("*/*.json")):
        with suppress(DamagedFile):
            read_record(about)
            continue
        with suppress(DamagedFile, AttributeError, EOFError, FileNotFoundError, KeyError, TypeError, ValueError):
            told = json.loads(about.read_bytes())
            record = {key: told[key] for key in ("name", "version", "chunk", "seed")}
            values, part = about.with_suffix(".npy"), about.with_suffix(".part")
            if values.exists():
                record |= {"bytes": values.stat().st_size, "digest": digest_file(values)}
            else:
                _adopt_chunks(about, np.load(part, mmap_mode="r"), record)
            save_record(about, record)
            adopted.append(_find_owner(about))
    return adopted


def _adopt_chunks(about: Path, part: Any, record: Mapping[str, Any]) -> None:
    """Write down a checksum for each chunk that a version before has marked by 1."""
    path = about.with_suffix(".done")
    marks = np.load(path)
    if marks.dtype != np.uint8:
        return  # it was interrupted after this was done
    order = np.random.default_rng(record["seed"]).permutation(len(part))
    work = UnfinishedResiduals(about, order, record["chunk"], part, np.zeros(len(marks), np.uint64))
    for chunk in np.flatnonzero(marks == 1):
        work.done[chunk] = work.digest_chunk(int(chunk))
    content = io.BytesIO()
    np.save(content, work.done)
    save_durably(path, content.getvalue())


def _file_name(model: Model) -> str:
    return f"{model.name}-{hashlib.sha256(model.version.encode()).hexdigest()[:12]}"


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
    return StorageError(f"The state folder must have room, and be readable and writable; {path}: {error.strerror}.")
