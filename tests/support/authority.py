"""Certificates for tests: they end after seconds, and so on, as no authority of a consortium would issue them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.x509.oid import NameOID

from degroot.node.config import IdentityFiles
from degroot.node.tls.authority import encode, issue, open_authority, request_certificate, sign_request


def identity_files(folder: Path, name: str, roster: Path | None = None) -> IdentityFiles:
    """The files of a member whose certificate and key are in the folder of the CA."""
    return IdentityFiles(folder / "ca.pem", folder / f"{name}.pem", folder / f"{name}.key", roster)


def server_credentials(files: IdentityFiles) -> grpc.ServerCredentials:
    """For a test's own server, which lets in only who has a certificate of the CA."""
    certificate, key = files.certificate.read_bytes(), files.key.read_bytes()
    return grpc.ssl_server_credentials([(key, certificate)], files.ca.read_bytes(), require_client_auth=True)


def renew(folder: Path, name: str, days: int = 90) -> None:
    """Another certificate for the key that is there."""
    request, *_ = request_certificate(folder, name, ["127.0.0.1", "localhost"])
    sign_request(folder, request, days)


def load(path: Path) -> x509.Certificate:
    """The certificate in a file."""
    return x509.load_pem_x509_certificate(path.read_bytes())


def end_after(folder: Path, name: str, seconds: float, now: datetime | None = None) -> datetime:
    """Give a member a certificate, for its key, that ends so many seconds from now; when that is."""
    if not (folder / f"{name}.pem").exists():
        issue(folder, name, hosts=["127.0.0.1", "localhost"])
    issued, ca = load(folder / f"{name}.pem"), open_authority(folder)
    ends = ((now or datetime.now(UTC)) + timedelta(seconds=seconds)).replace(microsecond=0)
    builder = (
        x509.CertificateBuilder(
            ca.certificate.subject, issued.subject, issued.public_key(), x509.random_serial_number()
        )
        .not_valid_before(min(issued.not_valid_before_utc, ends - timedelta(days=1)))
        .not_valid_after(ends)
    )
    for extension in issued.extensions:
        builder = builder.add_extension(extension.value, extension.critical)
    whole = folder / f"{name}.pem.new"
    whole.write_bytes(encode(builder.sign(ca.key, hashes.SHA256())))
    whole.replace(folder / f"{name}.pem")
    return ends


def subject(name: str) -> x509.Name:
    """Of a certificate or a request."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
