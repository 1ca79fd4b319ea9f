"""The signed roster: who the members are and which certificates are revoked, numbered and signed by the CA.

It is a TOML file whose last lines, comments, are signatures of all that stands before them.
"""

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from cryptography import x509

from degroot.exceptions import InvalidInput
from degroot.files.addresses import split
from degroot.files.toml import Table, toml_text
from degroot.node.config.names import check_name
from degroot.node.tls.authority import (
    ROSTER,
    ROSTER_KEYS,
    Authority,
    check_list,
    find_last_roster,
    list_issued,
    lock_ca,
    note_roster,
    open_authorities,
    write_file,
)
from degroot.node.tls.contents import read_bytes
from degroot.node.tls.files import find_names, read_certificates
from degroot.node.tls.identity import is_issued_by
from degroot.node.tls.signing import ROSTER_CONTEXT, is_signature, sign_with

FILE = ROSTER  # in the CA's folder, and in the state folder of a node
MAX_ROSTER_BYTES = 900_000  # with a node's description it fits into the smallest `limits.message_bytes`
MAX_SIGNATURES = 4  # a CA's, and while its key is replaced that of the CA before: others cost time to check
MAX_NUMBER = 2**53
HEADING = "# The members of a consortium, signed by its CA. `degroot keys roster` writes the next one: do not edit.\n"
SIGNATURE = re.compile(rb"^# signature: ([A-Za-z0-9+/=]{1,1000})\n\Z", re.MULTILINE)
SERIAL = re.compile(r"[0-9a-f]{1,40}")


@dataclass(frozen=True)
class SignedRoster:
    """Members and revoked certificates."""

    number: int
    issued: str  # when, in UTC
    members: Mapping[str, str] = field(default_factory=dict)  # name -> address; empty: as each node's file says
    revoked: Mapping[int, str] = field(default_factory=dict)  # serial number -> whose certificate
    content: bytes = b""  # with its signatures, as it is passed on

    @cached_property
    def revoked_serials(self) -> frozenset[int]:
        """The serial numbers of certificates that are revoked."""
        return frozenset(self.revoked)


def write_roster(
    folder: Path, *, add: Iterable[tuple[str, str]] = (), remove: Iterable[str] = (), revoke: Iterable[str] = (),
    certificates: Sequence[Path] = (),
) -> SignedRoster:  # fmt: skip
    """Sign the next roster of the CA in a folder, from the one that is there.

    Parameters
    ----------
    add : names and addresses of members; of one that is there, its new address
    revoke : whose certificates, all that were issued so far, are revoked
    certificates : further certificates to revoke, in PEM files
    """
    with lock_ca(folder):
        return sign_roster(folder, add, remove, revoke, certificates)


def sign_roster(
    folder: Path, add: Iterable[tuple[str, str]] = (), remove: Iterable[str] = (), revoke: Iterable[str] = (),
    certificates: Sequence[Path] = (),
) -> SignedRoster:  # fmt: skip
    """As `write_roster`, for a caller that holds the lock of the folder."""
    authorities = open_authorities(folder)
    before, last, revoke = read_own(folder), find_last_roster(folder), list(revoke)
    if last > (0 if before is None else before.number):
        there = "is missing" if before is None else f"is number {before.number}"
        raise InvalidInput(
            f"The CA's newest roster must be there, number {last}, since nodes refuse lower ones; {folder / FILE} "
            f"{there}. Copy it from a node's state folder."
        )
    if revoke and not certificates:
        check_list(folder)
    members, revoked = dict(before.members) if before else {}, dict(before.revoked) if before else {}
    added = dict[str, str]()
    for name, address in add:
        split(address, f"The address of {check_name(name, 'The name of a member')!r}")
        if added.setdefault(name, address) != address:
            raise InvalidInput(f"A member must have one address; {name!r} got {added[name]} and {address}.")
    members |= added
    for name in remove:
        if name not in members:
            raise InvalidInput(f"A member to remove must be one of {', '.join(members) or 'nobody'}; got {name!r}.")
        del members[name]
    if before and before.members and not members:
        raise InvalidInput("A roster must keep a member; without any, nodes go by the peers in their own files.")
    _check_addresses(members)
    issued = list_issued(folder)
    for name in revoke:
        if name not in issued and not certificates:
            raise InvalidInput(
                f"The CA must have issued certificates to {name!r} to revoke them; it has none on record. "
                "Name one by --certificate FILE."
            )
        revoked |= dict.fromkeys(issued.get(name, ()), name)
        revoked |= dict.fromkeys((_find_serial(path, name, authorities) for path in certificates), name)
    number = 1 + (before.number if before else 0)
    roster = SignedRoster(number, f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", members, revoked)
    content = _sign(_encode(roster), authorities)
    signed = parse_roster(content, [each.certificate for each in authorities], folder / FILE)  # or it is not written
    write_file(folder / FILE, content, 0o644)
    note_roster(folder, number)
    return signed


def _find_serial(path: Path, name: str, authorities: Iterable[Authority]) -> int:
    """The serial number of a certificate to revoke: of `name`, lest another member is locked out, and of this CA."""
    certificate = read_certificates(path, "A certificate to revoke")[0]
    if find_names(certificate.subject) != [name]:
        raise InvalidInput(f"A certificate to revoke must be for {name!r}; {path} is not.")
    if not any(is_issued_by(certificate, each.certificate) for each in authorities):
        raise InvalidInput(f"A certificate to revoke must be issued by this CA; {path} is not.")
    return certificate.serial_number


def read_own(folder: Path) -> SignedRoster | None:
    """The newest roster of the CA in a folder, if it has signed any."""
    path = folder / FILE
    if not path.exists():
        return None
    return parse_roster(read_bytes(path, "The roster"), read_certificates(folder / "ca.pem", "The CA"), path)


def parse_roster(content: bytes, authorities: Iterable[x509.Certificate], where: object) -> SignedRoster:
    """The roster in these bytes, which an authority has to have signed."""
    if len(content) > MAX_ROSTER_BYTES:
        raise InvalidInput(f"A roster must have at most {MAX_ROSTER_BYTES} bytes; {where} has more.")
    if not is_signed(content, authorities):
        raise InvalidInput(f"A roster must be signed by the consortium's CA; {where} is not.")
    body, _ = _split(content)
    table = Table.parse(body, Path(str(where)), ROSTER_KEYS, "roster")
    members = {check_name(name): str(address) for name, address in _entries(table, "members").items()}
    revoked = {_serial(serial, where): str(name) for serial, name in _entries(table, "revoked").items()}
    for name, address in members.items():
        split(address, f"The address of {name!r}")
    return SignedRoster(table.whole("number", most=MAX_NUMBER), table.text("issued"), members, revoked, content)


def is_signed(content: bytes, authorities: Iterable[x509.Certificate]) -> bool:
    """Whether an authority has signed the roster in these bytes."""
    body, signatures = _split(content)
    message = ROSTER_CONTEXT + body
    return any(is_signature(each, signature, message) for each in authorities for signature in signatures)


def _entries(table: Table, key: str) -> Mapping[str, Any]:
    entries = table.entries.get(key, {})
    if not isinstance(entries, dict):
        raise table.refusal(key, "be a table")
    return entries


def _serial(text: str, where: object) -> int:
    if SERIAL.fullmatch(text) is None:
        raise InvalidInput(f"{where}: a serial number must be hexadecimal digits; got {text[:60]!r}.")
    return int(text, 16)


def _check_addresses(members: Mapping[str, str]) -> None:
    for name, address in members.items():
        others = [other for other, at in members.items() if at == address and other != name]
        if others:
            both = f"{name!r} and {others[0]!r}"
            raise InvalidInput(f"Every member must have an address of its own; {both} have {address}.")


def _encode(roster: SignedRoster) -> bytes:
    entries = {
        "number": roster.number,
        "issued": roster.issued,
        "members": dict(sorted(roster.members.items())),
        "revoked": {f"{serial:x}": name for serial, name in sorted(roster.revoked.items())},
    }
    return (HEADING + toml_text(entries)).encode()


def _sign(body: bytes, authorities: Iterable[Authority]) -> bytes:
    signatures = (sign_with(each.key, ROSTER_CONTEXT + body) for each in authorities)
    return body + b"".join(b"# signature: " + base64.b64encode(each) + b"\n" for each in signatures)


def _split(content: bytes) -> tuple[bytes, list[bytes]]:
    """What is signed, and the signatures after it, so many at most as there can be."""
    signatures = list[bytes]()
    while len(signatures) < MAX_SIGNATURES and (last := SIGNATURE.search(content)):
        try:
            signatures.append(base64.b64decode(last[1], validate=True))
        except ValueError:
            break
        content = content[: last.start()]
    return content, signatures
