"""Folders for what is written: made and tried out first, and filled with whole files only."""

import errno
import os
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import TextIO

from degroot.exceptions import InvalidInput

PRIVATE = 0o700  # rights of a folder that only its owner may look into
SYNCING = 16  # files that the disk is given at once
WINDOWS = os.name == "nt"


def make_folder(path: Path, *, mode: int = 0o777) -> Path:
    """Make the folder if it is not there, with these rights, and make sure that files can be written to it."""
    try:
        path.mkdir(mode, parents=True, exist_ok=True)
        with TemporaryFile(dir=path):
            return path
    except OSError as error:
        raise _refusal(path, error) from error


def read_regular(path: Path) -> bytes:
    """All of a file; OSError where it is none that ends, such as a pipe, which would be waited for."""
    if not stat.S_ISREG(mode := path.stat().st_mode) and not stat.S_ISDIR(mode):  # to read a folder says what it is
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return path.read_bytes()


def find_stamp(path: Path) -> tuple[int, int, int] | None:
    """By which a changed file is known: when it was written, its size and its number; None: it is not there."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def is_free(path: Path) -> bool:
    """Whether a new folder can be made there: nothing is there, or an empty folder."""
    return not path.exists() or (path.is_dir() and not any(path.iterdir()))


def save(path: Path, content: bytes) -> None:
    """Write a file: all of it or, if that fails, nothing."""
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        unfinished.write_bytes(content)
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise _refusal(path, error) from error


def save_durably(path: Path, content: bytes, *, mode: int = 0o666) -> None:
    """Write a file with these rights, all of it or nothing; it is on the disk when this returns."""
    unfinished = path.with_name(f"{path.name}.unfinished")
    try:
        unfinished.unlink(missing_ok=True)
        with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(content)
        publish(unfinished, path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise


@contextmanager
def write_whole(path: Path) -> Iterator[TextIO]:
    """A text file of any length to write to, which gets its name once it is whole; if that fails, nothing is left."""
    unfinished = path.parent / f"{path.name}.{os.getpid()}"
    try:
        with unfinished.open("w", encoding="utf-8", newline="") as file:
            yield file
        publish(unfinished, path)
    except OSError as error:
        raise _refusal(path, error) from error
    finally:
        with suppress(OSError):
            unfinished.unlink()


def publish(unfinished: Path, place: Path) -> None:
    """Give a whole file its name. Both shall survive a power cut."""
    sync(unfinished)
    unfinished.replace(place)
    sync(place.parent)


def settle(path: Path) -> None:
    """Wait until a folder is on the disk, with all that is in it."""
    with ThreadPoolExecutor(SYNCING) as pool:
        for done in [pool.submit(sync, each) for each in (*path.rglob("*"), path)]:
            done.result()


def sync(path: Path) -> None:
    """Wait until a file is on the disk, or the list of what a folder holds.

    Windows opens no folders, whose lists it writes by itself, and syncs only files that are open for writing.
    """
    if WINDOWS and path.is_dir():
        return
    place = os.open(path, os.O_RDWR if WINDOWS else os.O_RDONLY)
    try:
        os.fsync(place)
    finally:
        os.close(place)


def _refusal(path: Path, error: OSError) -> InvalidInput:
    return InvalidInput(f"The output must go to a folder that can be written; {path}: {error.strerror}.")
