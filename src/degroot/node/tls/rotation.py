"""Rotation: the CA gets another key, while certificates of both are in use."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

from degroot.exceptions import InvalidInput
from degroot.files.atomic import PRIVATE, make_folder
from degroot.node.config.names import CA
from degroot.node.tls.authority import (
    CA_DAYS,
    RETIRED,
    encode,
    encode_key,
    list_certificates,
    make_ca,
    open_authority,
    write_file,
)
from degroot.node.tls.files import read_bytes, read_certificates
from degroot.node.tls.identity import is_issued_by
from degroot.node.tls.roster import read_own, write_roster


def begin_rotation(folder: Path, days: int = CA_DAYS, now: datetime | None = None) -> Path:
    """Make a new key and certificate for the CA; ``ca.pem`` then holds both, until `finish_rotation`.

    A roster is signed again, by both: it has to hold where only the new one is trusted.
    """
    retired = folder / RETIRED
    if retired.exists():
        raise InvalidInput(f"One rotation must be finished before the next; {retired} is there still.")
    roster = read_own(folder)
    before = open_authority(folder, now)  # one that has ended is replaced by `keys init`: nobody trusts what it signs
    certificate, key = make_ca(before.certificate.subject, days, now)
    make_folder(retired, mode=PRIVATE)
    write_file(retired / f"{CA}.key", read_bytes(folder / f"{CA}.key", "The CA's key"), 0o600)
    write_file(retired / f"{CA}.pem", encode(before.certificate), 0o644)
    write_file(folder / f"{CA}.key", encode_key(key), 0o600)
    write_file(folder / f"{CA}.pem", encode(certificate) + encode(before.certificate), 0o644)
    if roster is not None:
        write_roster(folder)
    return folder / f"{CA}.pem"


def finish_rotation(folder: Path, *, force: bool = False) -> Path:
    """Drop the CA that was replaced, its certificate from ``ca.pem`` and its key, once all have new certificates."""
    retired = folder / RETIRED
    if not retired.exists():
        raise InvalidInput(f"There must be a rotation to finish; {retired} is not there.")
    late = [] if force else find_unrenewed(folder)
    if late:
        raise InvalidInput(
            f"All certificates must be of the new CA before the old one is dropped; those of {', '.join(late)} are not."
            " Renew them, or drop it with --force."
        )
    write_file(folder / f"{CA}.pem", encode(open_authority(folder).certificate), 0o644)
    shutil.rmtree(retired)
    return folder / f"{CA}.pem"


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
