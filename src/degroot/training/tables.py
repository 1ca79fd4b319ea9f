"""Tables: the columns of each file, how it writes them, and the organisation that has each row."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from degroot.compute.progress import progress
from degroot.exceptions import InvalidInput
from degroot.files.columns import Columns, as_texts, check_readable, missing_column_error, read_columns
from degroot.files.encoding import names_read_as_text
from degroot.partitions import by_group
from degroot.schema.schema import Schema
from degroot.schema.sites import AS_SHARED, SITE_SUFFIX, Site, read_site, site_beside


@dataclass(frozen=True, slots=True)
class Sheet:
    """The columns of one organisation: a file of its own, or its rows of a shared one."""

    name: str  # of the organisation
    path: Path
    columns: Columns
    site: Site = AS_SHARED
    rows: NDArray[np.intp] | None = None  # of the file that are its own; None: all

    @property
    def n_rows(self) -> int:
        """How many rows it has."""
        return len(next(iter(self.columns.values()), ()))

    @property
    def where(self) -> str:
        """How messages call it."""
        return str(self.path) if self.rows is None else f"{self.path} ({self.name})"

    def need(self, name: str) -> str:
        """What the file calls this column, which must be there."""
        own = self.site.find_name(name)
        if own not in self.columns:
            raise missing_column_error(self.path, own, self.columns)
        return own

    def name_site_file(self) -> str:
        """Where it says how it writes columns, with the option that a part of a shared file takes."""
        if self.rows is None:
            return str(self.site.path or site_beside(self.path))
        site = f"{self.name}{SITE_SUFFIX}"
        return f"{site}, for --site {shlex.quote(f'{self.name}={site}')}"

    def number_row(self, row: int) -> int:
        """The number, from 1, of a row in the file."""
        return row + 1 if self.rows is None else int(self.rows[row]) + 1


def parse_sites(given: Iterable[str]) -> dict[str, Path]:
    """Sites as they are given, ``NAME=FILE``, by the names of organisations."""
    sites = {}
    for text in given:
        name, mark, file = text.partition("=")
        if not (name and mark and file):
            raise InvalidInput(f"--site must be NAME=FILE; got {text!r}.")
        sites[name] = Path(file)
    return sites


def read_files(
    files: Sequence[Path], labels: Sequence[str], sites: Mapping[str, Path], schema: Schema | None
) -> list[Sheet]:
    """One organisation for each file, called as the file is. The columns `labels` stay text."""
    for file in files:
        check_readable(file)
    if len(files) < 2:
        raise InvalidInput(
            "A collective must have two organisations or more: a file for each, or one file and --group COLUMN; "
            f"got {len(files)} file{'' if len(files) == 1 else 's'}."
        )
    names = name_files(files)
    _check_known(sites, names)
    sheets = []
    with progress("Reading files", len(files)) as work:
        for name, file in zip(names, files, strict=True):
            work.name_step(str(file))
            sheets.append(read_sheet(name, file, labels, sites.get(name), schema))
            work()
    return sheets


def deal_file(
    files: Sequence[Path], labels: Sequence[str], group: str, sites: Mapping[str, Path], schema: Schema | None
) -> tuple[Sheet, list[Sheet]]:
    """A single file, and one organisation for each value of its column `group`. The columns `labels` stay text.

    Rows without a group are nobody's.
    """
    if len(files) != 1:
        raise InvalidInput(f"--group must come with one file, which it deals; got {len(files)} files.")
    with progress(f"Reading {files[0]}"):
        whole = read_sheet(files[0].stem, files[0], [*labels, group], sites.get(files[0].stem), schema)
    members = np.array(as_texts(whole.columns[whole.need(group)]))
    owned = np.flatnonzero(members != "")
    if not len(owned):
        raise InvalidInput(f"Column {group!r} of {whole.path} must say whose row it is; it is empty.")
    rest = {name: column for name, column in whole.columns.items() if name != whole.need(group)}
    dealt = [
        Sheet(str(name), whole.path, {key: column[rows] for key, column in rest.items()}, whole.site, rows)
        for name, rows in ((name, owned[places]) for name, places in zip(*by_group(members[owned]), strict=True))
    ]
    _check_known(sites, [whole.name, *(sheet.name for sheet in dealt)])
    dealt = [replace(sheet, site=read_site(sites[sheet.name])) if sheet.name in sites else sheet for sheet in dealt]
    return replace(whole, columns=rest), dealt


def read_sheet(name: str, file: Path, labels: Sequence[str], site_file: Path | None, schema: Schema | None) -> Sheet:
    """The columns of a file with its site: the one that is given, or the one beside it."""
    beside = site_beside(file)
    site = read_site(site_file or beside) if site_file is not None or beside.exists() else AS_SHARED
    own = [site.find_name(label) for label in labels]
    if schema is not None:
        schema.check_site(site)
        own += names_read_as_text(schema, site)
    return Sheet(name, file, read_columns(file, own), site)


def _check_known(sites: Mapping[str, Path], names: Sequence[str]) -> None:
    for name in sites:
        if name not in names:
            raise InvalidInput(f"--site must name an organisation, NAME=FILE; there is no {name!r}.")


def name_files(files: Sequence[Path]) -> list[str]:
    """What organisations are called: as their files, or as the folders of files that are all called alike."""
    for names in ([file.stem for file in files], [file.absolute().parent.name for file in files]):
        if len(set(names)) == len(names):
            return names
    raise InvalidInput(f"Every file must have a name of its own; got {', '.join(map(str, files))}.")
