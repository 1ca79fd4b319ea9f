"""Tables: the columns of each organisation, from a file of its own or from its part of a shared one."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from degroot.exceptions import InvalidInput
from degroot.files.columns import Columns, as_texts, missing_column_error, read_columns
from degroot.partitions import by_group

NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def is_numeric_text(text: str) -> bool:
    """Whether a text reads as a finite number."""
    return NUMBER.fullmatch(text) is not None and np.isfinite(float(text))


@dataclass(frozen=True, slots=True)
class Sheet:
    """The columns of one organisation."""

    name: str  # of the organisation
    path: Path
    columns: Columns

    def need(self, name: str) -> None:
        """Refuse to go on without this column."""
        if name not in self.columns:
            raise missing_column_error(self.path, name, self.columns)


def of_files(files: Sequence[Path], labels: Sequence[str]) -> list[Sheet]:
    """One organisation for each file, called as the file is. The columns `labels` stay text."""
    if len(files) < 2:
        raise InvalidInput(
            "A collective must have two organisations or more: a file for each, or one file and --group COLUMN; "
            f"got {len(files)} file{'' if len(files) == 1 else 's'}."
        )
    return [Sheet(name, file, read_columns(file, labels)) for name, file in zip(_names(files), files, strict=True)]


def of_groups(files: Sequence[Path], labels: Sequence[str], group: str) -> list[Sheet]:
    """One organisation for each value of the column `group` of a single file. The columns `labels` stay text."""
    if len(files) != 1:
        raise InvalidInput(f"--group must come with one file, which it deals; got {len(files)} files.")
    whole = Sheet(files[0].stem, files[0], read_columns(files[0], labels))
    whole.need(group)
    members = np.array(as_texts(whole.columns[group]))
    if (members == "").any():
        row = int(np.flatnonzero(members == "")[0]) + 1
        raise InvalidInput(f"Column {group!r} of {whole.path} must say whose row it is; row {row} is empty.")
    rest = {name: column for name, column in whole.columns.items() if name != group}
    return [
        Sheet(str(name), whole.path, {key: column[rows] for key, column in rest.items()})
        for name, rows in zip(*by_group(members), strict=True)
    ]


def _names(files: Sequence[Path]) -> list[str]:
    """What organisations are called: as their files, or as the folders of files that are all called alike."""
    for names in ([file.stem for file in files], [file.absolute().parent.name for file in files]):
        if len(set(names)) == len(names):
            return names
    raise InvalidInput(f"Every file must have a name of its own; got {', '.join(map(str, files))}.")
