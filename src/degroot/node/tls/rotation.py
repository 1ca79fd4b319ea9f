"""Rotation: the CA gets another key, while certificates of both are in use."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

from degroot.exceptions import InvalidInput
from degroot.files.atomic import PRIVATE, make_folder, publish
from degroot.node.config.names import CA
from degroot.node.tls.authority import (
    CA_DAYS,
    RETIRED,
    encode,
    encode_key,
    list_certificates,
    lock_ca,
    make_ca,
    open_authority,
    write_file,
)
from degroot.node.tls.contents import read_bytes
from degroot.node.tls.files import read_certificates
from degroot.node.tls.identity import is_issued_by
from degroot.node.tls.roster import is_signed, read_own, sign_roster

UNFINISHED, DROPPED = f"{RETIRED}.new", f"{RETIRED}.old"  # the folder while it is filled, and while it is removed


def begin_rotation(folder: Path, days: int = CA_DAYS, now: datetime | None = None) -> Path:
    """Make a new key and certificate for the CA; ``ca.pem`` then holds both, until `finish_rotation`.

    A roster is signed again, by both: it has to hold where only the new one is trusted. After an interruption this goes
    on where it was when it is called again: the CA before is retired first, in one step; then the new one takes its
    place, with ``ca.pem`` last; then the roster is signed.
    """
    with lock_ca(folder):
        roster = read_own(folder)
        if _has_begun(folder):
            raise InvalidInput(f"One rotation must be finished before the next; {folder / RETIRED} is there still.")
        if not _is_replaced(folder):
            _replace(folder, days, now)
        if roster is not None:
            sign_roster(folder)
    return folder / f"{CA}.pem"


def _has_begun(folder: Path) -> bool:
    """Whether the CA was replaced, and its roster signed by the new one, too: `begin_rotation` came to its end."""
    roster = read_own(folder)
    newest = read_certificates(folder / f"{CA}.pem", "The CA")[:1]
    return _is_replaced(folder) and (roster is None or is_signed(roster.content, newest))


def _is_replaced(folder: Path) -> bool:
    """Whether there is a retired CA, and another one in its place."""
    if not (folder / RETIRED).exists():
        return False
    newest, before = (read_certificates(each / f"{CA}.pem", "The CA")[0] for each in (folder, folder / RETIRED))
    return newest != before


def _replace(folder: Path, days: int, now: datetime | None) -> None:
    """Retire the CA, unless that is done already, and put one with another key in its place."""
    retired = folder / RETIRED
    # One that has ended is replaced by `keys init`: nobody trusts what it signs.
    before = open_authority(retired if retired.exists() else folder, now)
    certificate, key = make_ca(before.certificate.subject, days, now)
    if not retired.exists():
        unfinished = make_folder(folder / UNFINISHED, mode=PRIVATE)
        write_file(unfinished / f"{CA}.key", read_bytes(folder / f"{CA}.key", "The CA's key"), 0o600)
        write_file(unfinished / f"{CA}.pem", encode(before.certificate), 0o644)
        publish(unfinished, retired)
    write_file(folder / f"{CA}.key", encode_key(key), 0o600)
    write_file(folder / f"{CA}.pem", encode(certificate) + encode(before.certificate), 0o644)


def finish_rotation(folder: Path, *, force: bool = False) -> Path:
    """Drop the CA that was replaced, its certificate from ``ca.pem`` and its key, once all have new certificates."""
    with lock_ca(folder):
        retired, dropped = folder / RETIRED, folder / DROPPED
        if retired.exists():
            _check_renewed(folder, force=force)
            write_file(folder / f"{CA}.pem", encode(open_authority(folder).certificate), 0o644)
            shutil.rmtree(dropped, ignore_errors=True)
            retired.rename(dropped)
        elif not dropped.exists():
            raise InvalidInput(f"There must be a rotation to finish; {retired} is not there.")
        shutil.rmtree(dropped)
    return folder / f"{CA}.pem"


def _check_renewed(folder: Path, *, force: bool) -> None:
    """Refuse to drop the retired CA while something rests on it: the roster always, certificates unless `force`."""
    if not _has_begun(folder):
        raise InvalidInput(
            "A new CA must be in place, and the roster signed by it, before the old one is dropped; that was "
            "interrupted. Run `degroot keys rotate` again."
        )
    late = [] if force else find_unrenewed(folder)
    if late:
        raise InvalidInput(
            f"All certificates must be of the new CA before the old one is dropped; those of {', '.join(late)} are not."
            " Renew them, or drop it with --force."
        )


def find_unrenewed(folder: Path) -> list[str]:
    """Whose certificates, valid and not revoked, are those of the CA before, as the CA's folder has them."""
    before, roster = read_certificates(folder / RETIRED / f"{CA}.pem", "The CA")[0], read_own(folder)
    revoked = frozenset[int]() if roster is None else roster.revoked_serials
    late = []
    for path in list_certificates(folder):
        certificate = read_certificates(path, "A certificate")[0]
        is_good = certificate.not_valid_after_utc > datetime.now(UTC) and certificate.serial_number not in revoked
        if is_good and is_issued_by(certificate, before):
            late.append(path.stem)
    return late
