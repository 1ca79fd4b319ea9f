"""Identity: how a node shows who it is, by its certificate, key and CA in files, which are checked together."""

from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.x509.oid import ExtendedKeyUsageOID

from degroot.exceptions import InvalidInput
from degroot.node.tls.contents import CA, CERTIFICATE, KEY
from degroot.node.tls.files import check_public_key, check_validity, find_names, read_certificates, read_key

if TYPE_CHECKING:
    from degroot.node.config import IdentityFiles


def check(files: "IdentityFiles", name: str, now: datetime | None = None) -> datetime:
    """When the certificate expires; it has to be valid, for this name, by this CA and with this key."""
    certificate, path = read_certificates(files.certificate, CERTIFICATE)[0], files.certificate
    _check_name(certificate, name, path)
    check_caller(files, now)
    _check_uses(certificate, path)
    return certificate.not_valid_after_utc


def check_caller(files: "IdentityFiles", now: datetime | None = None) -> None:
    """Refuse a certificate with which no node would let anybody in."""
    chain, authorities = read_certificates(files.certificate, CERTIFICATE), read_certificates(files.ca, CA)
    check_validity(chain[0], CERTIFICATE, files.certificate, now)
    check_public_key(chain[0].public_key(), f"The key of {CERTIFICATE.lower()}", files.certificate)
    _check_signed(chain, authorities, files)
    check_authorities(chain, authorities, files.ca, now)
    if read_key(files.key, KEY).public_key() != chain[0].public_key():
        raise InvalidInput(f"{KEY} must belong to the certificate; {files.key} does not belong to {files.certificate}.")


def check_authorities(
    chain: list[x509.Certificate], authorities: list[x509.Certificate], ca: Path, now: datetime | None = None
) -> None:
    """Raise unless the certificate of the CA that has signed the last of a chain is valid now."""
    for authority in authorities:
        if is_issued_by(chain[-1], authority):
            check_validity(authority, "The CA's certificate", ca, now)


def is_signed_by(chain: list[x509.Certificate], authorities: list[x509.Certificate]) -> bool:
    """Whether each certificate is signed by the next, which may sign others, and the last by an authority."""
    links = all(is_issued_by(low, high) and _may_sign(high) for low, high in pairwise(chain))
    return links and any(is_issued_by(chain[-1], authority) for authority in authorities)


def _check_name(certificate: x509.Certificate, name: str, path: Path) -> None:
    """The name stands as common name, by which callers are known, and among the DNS names, by which servers are."""
    common = find_names(certificate.subject)
    if common != [name]:
        raise InvalidInput(
            f"{CERTIFICATE} must be for {name!r}; {path} is for {', '.join(map(repr, common)) or 'nobody'}."
        )
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        names = x509.SubjectAlternativeName([])
    if name not in names.get_values_for_type(x509.DNSName):
        raise InvalidInput(f"{CERTIFICATE} must have {name!r} among its DNS names; {path} does not have it.")


def _check_signed(chain: list[x509.Certificate], authorities: list[x509.Certificate], files: "IdentityFiles") -> None:
    if not is_signed_by(chain, authorities):
        raise InvalidInput(f"{CERTIFICATE} must be signed by the CA; {files.certificate} is not signed by {files.ca}.")


def _may_sign(certificate: x509.Certificate) -> bool:
    """Whether a certificate is that of an authority: a member's own signs nobody else's."""
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def is_issued_by(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    """Whether the issuer's key has signed a certificate."""
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _check_uses(certificate: x509.Certificate, path: Path) -> None:
    """Where a certificate says what it is for, it has to be for both ends."""
    try:
        uses = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return
    for use, side in ((ExtendedKeyUsageOID.SERVER_AUTH, "servers"), (ExtendedKeyUsageOID.CLIENT_AUTH, "clients")):
        if use not in uses:
            raise InvalidInput(f"{CERTIFICATE} must be for servers and clients; {path} is not for {side}.")
