"""Inputs: the files that are meant by paths, folders and patterns, in a fixed order."""

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatch
from os.path import abspath
from pathlib import Path

from degroot.batch.formats import SUFFIXES
from degroot.exceptions import InvalidInput


def find(given: Sequence[str]) -> list[Path]:
    """The files, sorted, each once. A folder means all files in it and below that have a known suffix."""
    files = sorted({abspath(file): file for each in given for file in _meant(each)}.values())
    for file in files:
        if file.suffix.lower() not in SUFFIXES:
            raise InvalidInput(f"The input must be {', '.join(SUFFIXES)} files; got {file}.")
    if not files:
        raise InvalidInput("The input must be one file or more; got none.")
    return files


def check_apart(given: Iterable[str], files: Iterable[Path], output: Path) -> None:
    """Refuse an output that is read too, or would be when the same is asked again."""
    place = abspath(output)
    clash = any(abspath(file) == place or _same(file, output) for file in files)
    if clash or any(_covers(each, place) for each in given):
        raise InvalidInput(f"The output must not be among the input; got {output}.")


def _meant(given: str) -> list[Path]:
    path = Path(given)
    if path.is_dir():
        found = [file for file in _below(path) if file.suffix.lower() in SUFFIXES]
        if not found:
            raise InvalidInput(f"A folder must hold {', '.join(SUFFIXES)} files; {given} has none.")
        return found
    if path.exists():
        return [path]
    if not glob.has_magic(given):
        raise InvalidInput(f"The input must be files, folders or patterns of files; there is no {given}.")
    matching = [Path(file) for file in glob.glob(given, recursive=True) if Path(file).is_file()]
    if not matching:
        raise InvalidInput(f"The input must be files, folders or patterns of files; no file matches {given}.")
    return matching


def _below(folder: Path) -> Iterator[Path]:
    """The files in a folder and below. A folder that may not be looked into is refused, not left out."""

    def refuse(error: OSError) -> None:
        raise InvalidInput(
            f"The input must be folders that can be read; {error.filename}: {error.strerror}."
        ) from error

    for place, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = filter(_visible, folders)
        yield from (Path(place, name) for name in filter(_visible, names) if Path(place, name).is_file())


def _visible(name: str) -> bool:
    """Whether a name hides nothing, as ``_temporary``, ``.cache`` and ``x.unfinished`` do."""
    return not name.startswith((".", "_")) and not name.endswith(".unfinished")


def _covers(given: str, place: str) -> bool:
    inside = Path(given).is_dir() and Path(place).is_relative_to(Path(given).resolve())
    return inside or (glob.has_magic(given) and not Path(given).exists() and fnmatch(place, abspath(given)))


def _same(file: Path, output: Path) -> bool:
    return output.exists() and file.samefile(output)
