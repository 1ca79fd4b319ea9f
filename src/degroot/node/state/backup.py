"""Backups: a node's state folder in one archive, as it is at one moment, also while the node runs.

An archive is a ZIP file whose manifest has the checksum of every other. It is not encrypted.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import degroot
from degroot.exceptions import InvalidInput
from degroot.files.atomic import publish
from degroot.files.checksums import encode_record
from degroot.files.lock import wait_for_lock
from degroot.node.config import Configuration, IdentityFiles
from degroot.node.page import tokens
from degroot.node.records.journal import rotated_path
from degroot.node.records.ledger import beside_path, find_damage, journal_path, opened
from degroot.node.state.version import SET_BY, check_version

FORMAT = 1  # of archives
MANIFEST, STATE, CONFIGURATION, IDENTITY = "manifest.json", "state/", "node.toml", "identity/"
LEFT_OUT = ("lock", tokens.FILE, tokens.LOCK, tokens.EARLIER_FILE)  # whoever has a token may ask
LEDGER_OF_SQLITE = ("ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm")
WAITING = ("ledger.journal", "ledger.journal.moving", "ledger.beside", "ledger.beside.taking")
BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Backup:
    """What was backed up."""

    files: int
    size: int  # bytes of the archive
    last_record: int  # of the ledger


def write_backup(configuration: Configuration, out: Path, *, with_key: bool = False) -> Backup:
    """Write an archive of a node's state and configuration; `with_key`: with its certificate and private key too."""
    state, path = configuration.state, configuration.ledger
    if not path.is_file():
        raise InvalidInput(f"A backup must be of a node that has run; {path} is not there.")
    check_version(state)
    damage = find_damage(path)
    if damage:
        raise InvalidInput(f"A backup must be of a whole ledger; {path}: {damage}.")
    if with_key and configuration.identity is None:
        raise InvalidInput(f"--with-key must be of a node with a table [identity]; {configuration.path} has none.")
    if out.exists():
        raise InvalidInput(f"An archive is not overwritten; {out} is there already.")
    if out.resolve().is_relative_to(state.resolve()):
        raise InvalidInput(f"An archive must go elsewhere than into the state folder, {state}; got {out}.")
    if not out.absolute().parent.is_dir():
        raise InvalidInput(f"An archive must go to a folder that is there; {out.absolute().parent} is not.")
    try:
        with TemporaryDirectory(dir=out.absolute().parent, prefix=".degroot-backup-") as folder:
            unfinished = Path(folder) / "archive"
            with _hold_maps(configuration):
                names = _write_archive(configuration, Path(folder), unfinished, with_key=with_key)
            with opened(Path(folder) / "ledger.sqlite") as connection:
                (last,) = connection.execute("SELECT coalesce(max(number), 0) FROM records").fetchone()
            size = unfinished.stat().st_size
            publish(unfinished, out)
    except OSError as error:
        raise InvalidInput(f"A backup must be readable here and writable there; {_describe(error, out)}.") from error
    return Backup(names, size, int(last))


def _write_archive(configuration: Configuration, folder: Path, unfinished: Path, *, with_key: bool) -> int:
    """Copy what is to be kept, then write it with its checksums; how many files there are."""
    kept = dict(_copy_ledger(configuration, folder))
    kept |= {f"{STATE}{name}": path for name, path in _find_files(configuration.state)}
    kept[CONFIGURATION] = configuration.path
    if with_key and configuration.identity is not None:
        kept |= {f"{IDENTITY}{what}": path for what, path in list_identity(configuration.identity).items()}
    files: dict[str, Any] = {}
    unfinished.touch(0o600)
    with ZipFile(unfinished, "w", ZIP_DEFLATED) as archive:
        for name, path in sorted(kept.items()):
            found = _add(archive, name, path)
            files |= {} if found is None else {name: found}
        told = {
            "format": FORMAT, "node": configuration.name, "degroot": degroot.__version__,
            "made": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", "files": files,
        }  # fmt: skip
        archive.writestr(MANIFEST, encode_record(told))
    return len(files)


def list_identity(identity: IdentityFiles) -> dict[str, Path]:
    """The files of an identity, by the names that they have in an archive."""
    return {"ca.pem": identity.ca, "certificate.pem": identity.certificate, "private.key": identity.key}


def _copy_ledger(configuration: Configuration, folder: Path) -> Iterator[tuple[str, Path]]:
    """The ledger as it is at one moment. In the order in which records move: what moves meanwhile is there twice."""
    path = configuration.ledger
    beside, journal = beside_path(path), journal_path(path)
    for waiting in ((beside, beside.with_name(f"{beside.name}.taking")), (journal, rotated_path(journal))):
        copy = folder / waiting[0].name
        copy.write_bytes(b"".join(map(_read_lines, waiting)))
        yield f"{STATE}{copy.name}", copy
    copy = folder / path.name
    try:
        with (
            closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as source,
            closing(sqlite3.connect(copy)) as target,
        ):
            source.backup(target)
            target.execute("PRAGMA journal_mode = DELETE")  # all in one file
    except sqlite3.Error as error:
        raise InvalidInput(f"The ledger must be readable; {path}: {error}.") from error
    yield f"{STATE}{path.name}", copy


def _read_lines(path: Path) -> bytes:
    """The whole lines of a file, if it is there: what is being written is not."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return b""
    return content[: content.rfind(b"\n") + 1]


def _find_files(state: Path) -> Iterator[tuple[str, Path]]:
    """The files of a state folder but the ledger's, by their names in it."""
    for path in state.rglob("*"):
        name = path.relative_to(state)
        taken = name.as_posix() in (*LEFT_OUT, *LEDGER_OF_SQLITE, *WAITING) or name.parts[0].startswith((SET_BY, "."))
        if path.is_file() and not taken and path.suffix != ".unfinished" and path.name != "lock":
            yield name.as_posix(), path


@contextmanager
def _hold_maps(configuration: Configuration) -> Iterator[None]:
    """Keep the node from publishing a map meanwhile: what is spent and what was published have to agree."""
    if not configuration.maps_folder.is_dir():
        yield
        return
    with (configuration.maps_folder / "lock").open("ab") as file:
        wait_for_lock(file)
        yield


def _add(archive: ZipFile, name: str, path: Path) -> dict[str, Any] | None:
    """Add a file; its size and checksum. None: the node has removed it meanwhile."""
    digest, size = sha256(), 0
    try:
        source = path.open("rb")
    except FileNotFoundError:
        return None
    with source, archive.open(name, "w", force_zip64=True) as target:
        while block := source.read(BLOCK_BYTES):
            digest.update(block)
            size += len(block)
            target.write(block)
    return {"bytes": size, "sha256": digest.hexdigest()}


def _describe(error: OSError, out: Path) -> str:
    return f"{error.filename or out}: {error.strerror}"
