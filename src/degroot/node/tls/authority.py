"""The authority of a consortium: its CA, and the certificates that it issues."""

import ipaddress
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from degroot.exceptions import InvalidInput
from degroot.files.atomic import make_folder
from degroot.node.config.names import CA, check_name
from degroot.node.tls.files import read_certificates, read_key, validity

CA_DAYS, DAYS = 3650, 365
MOST_DAYS = 36_500
LONGEST = 64  # of a common name
SLACK = timedelta(days=1)  # certificates are valid a little earlier, for clocks that are late
HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*", re.ASCII)
USES = (
    "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
    "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
)  # fmt: skip


def init_ca(
    folder: Path, name: str = "degroot", days: int = CA_DAYS, force: bool = False, now: datetime | None = None
) -> tuple[Path, Path]:
    """Make a consortium's CA: ``ca.pem``, for everybody, and ``ca.key``, for whoever issues certificates."""
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST or not name.isprintable():
        raise InvalidInput(f"A consortium's name must be 1 to {LONGEST} characters; got {name!r}.")
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject(name)
    builder = (
        _builder(subject, subject, key, _span(days, now))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage("key_cert_sign", "crl_sign"), critical=True)
    )
    return _write(folder, CA, builder.sign(key, hashes.SHA256()), key, force)


def issue(
    folder: Path, name: str, days: int = DAYS, hosts: Sequence[str] = (), force: bool = False,
    now: datetime | None = None,
) -> tuple[Path, Path]:  # fmt: skip
    """Make a certificate for the node or client `name`, and its key, signed by the CA in the folder."""
    check_name(name)
    ca = read_certificates(folder / f"{CA}.pem", "The CA")[0]
    ca_key = read_key(folder / f"{CA}.key", "The CA's key")
    validity(ca, "The CA's certificate", folder / f"{CA}.pem", now)
    if ca_key.public_key() != ca.public_key():
        raise InvalidInput(f"The CA's key must belong to its certificate; {folder / f'{CA}.key'} does not.")
    if not isinstance(ca_key, ec.EllipticCurvePrivateKey):
        raise InvalidInput(f"The CA's key must be one of an elliptic curve; {folder / f'{CA}.key'} is not.")
    key, (begins, ends) = ec.generate_private_key(ec.SECP256R1()), _span(days, now)
    names = [x509.DNSName(name), *(_host(host) for host in dict.fromkeys(hosts) if host != name)]
    uses = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    builder = (
        _builder(_subject(name), ca.subject, key, (begins, min(ends, ca.not_valid_after_utc)))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage("digital_signature"), critical=True)
        .add_extension(uses, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
    )
    return _write(folder, name, builder.sign(ca_key, hashes.SHA256()), key, force)


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _span(days: int, now: datetime | None) -> tuple[datetime, datetime]:
    if not 1 <= days <= MOST_DAYS:
        raise InvalidInput(f"A certificate must be valid for 1 to {MOST_DAYS} days; got {days}.")
    now = datetime.now(UTC) if now is None else now
    return now - SLACK, now + timedelta(days=days)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, span: tuple[datetime, datetime]
) -> x509.CertificateBuilder:
    public = key.public_key()
    return (
        x509.CertificateBuilder(issuer, subject, public, x509.random_serial_number())
        .not_valid_before(span[0])
        .not_valid_after(span[1])
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _usage(*uses: str) -> x509.KeyUsage:
    return x509.KeyUsage(**{use: use in uses for use in USES})


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        if not HOST.fullmatch(host):
            raise InvalidInput(f"A host must be a name or an IP address, without a port; got {host!r}.") from None
        return x509.DNSName(host)


def _write(
    folder: Path, stem: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey, force: bool
) -> tuple[Path, Path]:
    """Write the key, for its owner's eyes only, and then the certificate."""
    paths = make_folder(folder) / f"{stem}.pem", folder / f"{stem}.key"
    for path in paths:
        if path.exists() and not force:
            raise InvalidInput(f"Certificates and keys are not overwritten; {path} is there already.")
    plain = serialization.NoEncryption()
    encoded = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    _save(paths[1], encoded, 0o600)
    _save(paths[0], certificate.public_bytes(serialization.Encoding.PEM), 0o644)
    return paths


def _save(path: Path, content: bytes, mode: int) -> None:
    """Write a file that nobody but those of `mode` can read at any time."""
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    unfinished.unlink(missing_ok=True)
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
    unfinished.replace(path)
