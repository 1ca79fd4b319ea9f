"""Restoring: a state folder from a backup, in which the roster and what maps have cost are not older than before.

Of both the newer is kept, that of the state folder or that of the backup. Records that the ledger loses are noticed:
peers hold signatures of them, and the ledger has a note that it was restored.
"""

import errno
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any
from zipfile import ZipFile

from degroot.exceptions import DeGrootError, InvalidInput, describe_error
from degroot.files.atomic import PRIVATE, make_folder, save_durably, settle, sync
from degroot.files.checksums import DamagedFile, decode_record, digest_file
from degroot.maps import LifetimeBudget
from degroot.node.config import Configuration, read
from degroot.node.peers.roster import read_newest
from degroot.node.records.ledger import note_beside
from degroot.node.server.lock import lock_state
from degroot.node.state.backup import (
    BLOCK_BYTES,
    CONFIGURATION,
    FORMAT,
    IDENTITY,
    LEFT_OUT,
    MANIFEST,
    STATE,
    list_identity,
)
from degroot.node.state.owner import check_owner
from degroot.node.state.version import RESTORING, SET_BY, check_version
from degroot.node.tls.roster import FILE as ROSTER
from degroot.node.tls.roster import SignedRoster

RESTORED = "restored from a backup"  # a note of the ledger
UNFINISHED = ".restoring"  # in the state folder
MAPS = "maps"
MAX_MANIFEST_BYTES = 1 << 26
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)  # which an error while the archive is read cannot be


@dataclass(frozen=True, slots=True)
class Restored:
    """What was restored, and what was kept of what was there."""

    made: str  # when the backup was
    files: int
    kept: tuple[str, ...]  # sentences
    moved: Path | None  # where the state before is


def restore_backup(path: Path, archive: Path, *, force: bool = False) -> Restored:
    """Restore the state of the node whose configuration is at `path`, which is restored as well where it is missing.

    `force`: also where there is state already, which is moved aside.
    """
    if archive.exists() and not archive.is_file():
        raise InvalidInput(f"An archive must be a file that `degroot node backup` wrote; {archive} is none.")
    try:
        with ZipFile(archive) as opened, ExitStack() as undo:  # what was made, where it is refused
            manifest = _read_manifest(opened, archive)
            if not path.exists():
                save_durably(path, _read_entry(opened, archive, CONFIGURATION, manifest["files"]))
                undo.callback(path.unlink)
            configuration = read(path)
            if manifest["node"] != configuration.name:
                raise InvalidInput(
                    f"An archive must be of the node that is restored, {configuration.name!r}; {archive} is of "
                    f"{manifest['node']!r}."
                )
            check_owner(_find_existing(configuration.state))
            if not configuration.state.exists():
                undo.callback(shutil.rmtree, configuration.state, ignore_errors=True)
            with lock_state(make_folder(configuration.state, mode=PRIVATE)):
                restored = _restore(configuration, opened, archive, manifest, force=force)
            undo.pop_all()
            told = _restore_identity(configuration, opened, archive, manifest["files"])
            return replace(restored, kept=(*restored.kept, *told))
    except DeGrootError:
        raise
    except OSError as error:
        where = error.filename or (path.parent if error.errno in NO_ROOM else archive)
        raise InvalidInput(
            f"A backup must be readable, and the state folder writable; {where}: {error.strerror}."
        ) from error
    except Exception as error:  # which a damaged archive can raise
        raise _make_damage_error(archive, describe_error(error)) from error


def _restore(
    configuration: Configuration, opened: ZipFile, archive: Path, manifest: Mapping[str, Any], *, force: bool
) -> Restored:
    state = configuration.state
    present = [each for each in state.iterdir() if each.name not in ("lock", UNFINISHED, RESTORING)]
    if present and not force:
        raise InvalidInput(f"A state folder must be empty, or --force be given, which moves aside what is in {state}.")
    unfinished, complete = state / UNFINISHED, state / RESTORING
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        unfinished.mkdir(mode=PRIVATE)
        files = manifest["files"]
        for name in files:
            _extract(opened, archive, name, files, unfinished)
        restored = unfinished / STATE
        check_version(restored)
        kept = [*_keep_roster(configuration, restored), *_keep_spending(configuration, restored)]
        told = f"made at {manifest['made']} by degroot {manifest['degroot']}, sha256 {digest_file(archive)}"
        note_beside(restored / configuration.ledger.name, RESTORED, told)
        settle(unfinished)
        shutil.rmtree(complete, ignore_errors=True)  # of one that was interrupted
        restored.rename(complete)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    moved = _move_aside(state, present)
    for each in list(complete.iterdir()):
        each.rename(state / each.name)
    complete.rmdir()
    sync(state)
    return Restored(manifest["made"], len(files), tuple(kept), moved)


def _find_existing(state: Path) -> Path:
    """The state folder, or the nearest folder above it that is there."""
    return next(each for each in (state, *state.absolute().parents) if each.exists())


def _read_manifest(opened: ZipFile, archive: Path) -> dict[str, Any]:
    """The manifest of an archive of a kind that is known, whose entries are where they may be."""
    try:
        info = opened.getinfo(MANIFEST)
        if info.file_size > MAX_MANIFEST_BYTES:
            raise _make_damage_error(archive, "its manifest is too large")
        manifest = decode_record(opened.read(info), archive)
    except KeyError:
        raise _make_damage_error(archive, "it has no manifest") from None
    except DamagedFile as error:
        raise _make_damage_error(archive, f"of its manifest, {error.reason}") from error
    if manifest["format"] != FORMAT:
        raise InvalidInput(f"An archive must be of format {FORMAT}; {archive} is of format {manifest['format']}.")
    for name in (each.filename for each in opened.infolist()):
        place = PurePosixPath(name)
        inside = ".." not in place.parts and "\\" not in name and name == str(place)
        if not inside or not (name in (MANIFEST, CONFIGURATION) or name.startswith((STATE, IDENTITY))):
            raise InvalidInput(f"Paths in an archive must stay in the state folder; {archive} has {name[:100]!r}.")
    names = {each.filename for each in opened.infolist()} - {MANIFEST}
    if names != manifest["files"].keys():
        raise _make_damage_error(archive, "its entries are not those of its manifest")
    return manifest


def _read_entry(opened: ZipFile, archive: Path, name: str, files: Mapping[str, Any]) -> bytes:
    return b"".join(_read_blocks(opened, archive, name, files))


def _extract(opened: ZipFile, archive: Path, name: str, files: Mapping[str, Any], folder: Path) -> None:
    target = folder / name
    target.parent.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    with target.open("xb") as file:
        target.chmod(0o600)
        for block in _read_blocks(opened, archive, name, files):
            file.write(block)


def _read_blocks(opened: ZipFile, archive: Path, name: str, files: Mapping[str, Any]) -> Iterator[bytes]:
    """The content of an entry, which is no longer than its manifest says; it is checked at the end."""
    digest, left = sha256(), int(files[name]["bytes"])
    with opened.open(name) as source:
        while block := source.read(min(BLOCK_BYTES, left + 1)):
            digest.update(block)
            left -= len(block)
            if left < 0:
                break
            yield block
    if left or digest.hexdigest() != files[name]["sha256"]:
        raise _make_damage_error(archive, f"{name} does not match its checksum")


def _list_states(state: Path) -> list[Path]:
    """The state folder, and where restores have moved what was in it, or left it when they were interrupted."""
    return [state, state / RESTORING, *sorted(state.glob(f"{SET_BY}*"))]


def _keep_roster(configuration: Configuration, restored: Path) -> Iterator[str]:
    """Keep the roster with the highest number that is there: nobody who was revoked is let in again."""
    then = _find_roster(replace(configuration, state=restored))
    found = {each: _find_roster(replace(configuration, state=each)) for each in _list_states(configuration.state)}
    rosters = [each for each in found.values() if each is not None]
    now = max(rosters, key=lambda roster: roster.number, default=None)
    if now is not None and (then is None or now.number > then.number):
        save_durably(restored / ROSTER, now.content)
        yield f"the roster stays at number {now.number}"
    if any(roster is None and (folder / ROSTER).exists() for folder, roster in found.items()):
        yield "the roster that was there cannot be read: whether it had a higher number is not known"


def _find_roster(configuration: Configuration) -> SignedRoster | None:
    with suppress(InvalidInput):  # it is damaged, or there is no CA to check it by
        return read_newest(configuration)
    return None


def _keep_spending(configuration: Configuration, restored: Path) -> Iterator[str]:
    """Keep the maps that are there where more was spent: what has left has left."""
    then = _read_spending(restored / MAPS)
    folders = [each / MAPS for each in _list_states(configuration.state)]
    folder = max(folders, key=lambda each: len(_read_spending(each)))
    now = _read_spending(folder)
    if then[: len(now)] == now:
        if len(now) < len(then):
            yield "what maps have cost is as of the backup: what was published after it is not counted"
        return
    if now[: len(then)] != then:
        raise InvalidInput(
            "What maps have cost must be of one history in the archive and in the state folder; it is not: "
            "restored elsewhere, this node has published other maps."
        )
    shutil.rmtree(restored / MAPS, ignore_errors=True)
    shutil.copytree(folder, restored / MAPS)
    terms = configuration.maps
    spent = ""
    if terms is not None:
        with suppress(InvalidInput):  # a damaged record stays: no map is published then
            budget = LifetimeBudget(folder, terms.lifetime_epsilon, terms.lifetime_delta)
            spent = f", epsilon {budget.spent()[0]:g}"
    yield f"what maps have cost stays as it is{spent}"


def _read_spending(folder: Path) -> list[bytes]:
    try:
        return (folder / "spent.jsonl").read_bytes().splitlines()
    except FileNotFoundError:
        return []


def _restore_identity(
    configuration: Configuration, opened: ZipFile, archive: Path, files: Mapping[str, Any]
) -> Iterator[str]:
    """Put certificate, key and CA in their places, all three or none: those of different times do not fit together."""
    places = {} if configuration.identity is None else list_identity(configuration.identity)
    names = {place: f"{IDENTITY}{name}" for name, place in places.items()}
    if not any(name in files for name in names.values()):
        return
    what = "certificate, key and CA"
    with ExitStack() as undo:
        try:
            there = [place for place in names if place.exists()]
            if there:
                yield f"{what} are not restored, since {there[0]} is there already"
                return
            if not all(name in files for name in names.values()):
                yield f"{what} are not restored, since the archive does not have all three"
                return
            for place, name in names.items():
                save_durably(place, _read_entry(opened, archive, name, files), mode=0o600)
                undo.callback(place.unlink)
        except OSError as error:
            raise InvalidInput(
                f"The places of {what} must be writable; {error.filename or configuration.path}: {error.strerror}. "
                f"The state is restored without them: they are in {IDENTITY} of {archive}."
            ) from error
        undo.pop_all()
    yield f"{what} are restored: {', '.join(map(str, names))}"


def _move_aside(state: Path, present: list[Path]) -> Path | None:
    """Move what is there into a folder of its own; the tokens of the page stay where they are."""
    present = [each for each in present if not each.name.startswith(SET_BY) and each.name not in LEFT_OUT]
    if not present:
        return None
    moved = state / f"{SET_BY}{datetime.now(UTC):%Y%m%dT%H%M%S%f}"
    moved.mkdir(mode=PRIVATE)
    for each in present:
        each.rename(moved / each.name)
    return moved


def _make_damage_error(archive: Path, reason: str) -> InvalidInput:
    return InvalidInput(f"An archive must be as `degroot node backup` wrote it; {archive}: {reason}.")
