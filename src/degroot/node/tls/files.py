"""Certificates and keys in files."""

from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import NameOID

from degroot.exceptions import InvalidInput
from degroot.node.tls.contents import read_bytes

CURVES, MIN_RSA_BITS = ("secp256r1", "secp384r1"), 2048  # of keys that the TLS of gRPC takes; it takes no Ed25519


def read_certificates(path: Path, what: str) -> list[x509.Certificate]:
    """The certificates in a PEM file, at least one."""
    try:
        return x509.load_pem_x509_certificates(read_bytes(path, what))
    except InvalidInput:
        raise
    except ValueError as error:
        raise InvalidInput(f"{what} must be a certificate in PEM; {path} is none.") from error


def read_key(path: Path, what: str) -> PrivateKeyTypes:
    """The private key in a PEM file that needs no password."""
    content = read_bytes(path, what)
    try:
        return load_pem_private_key(content, None)
    except TypeError as error:
        raise InvalidInput(f"{what} must be a private key without a password; {path} has one.") from error
    except Exception as error:  # ValueError, or that the algorithm is unknown
        raise InvalidInput(f"{what} must be a private key in PEM; {path} is none.") from error


def check_public_key(key: object, what: str, path: Path) -> None:
    """Refuse a public key that no connection can be made with, or that is weak: of members, not of the CA."""
    if isinstance(key, rsa.RSAPublicKey):
        came, fits = f"RSA with {key.key_size} bits", key.key_size >= MIN_RSA_BITS
    elif isinstance(key, ec.EllipticCurvePublicKey):
        came, fits = f"of the curve {key.curve.name}", key.curve.name in CURVES
    else:
        came, fits = f"of the type {type(key).__name__}", False
    if not fits:
        raise InvalidInput(
            f"{what} must be of the elliptic curve P-256 or P-384, or RSA with at least {MIN_RSA_BITS} bits; that in "
            f"{path} is {came}."
        )


def check_validity(certificate: x509.Certificate, what: str, path: Path, now: datetime | None = None) -> None:
    """Refuse a certificate that is not valid now."""
    now = datetime.now(UTC) if now is None else now
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now < begins:
        raise InvalidInput(f"{what} must be valid now; {path} is valid from {begins:%Y-%m-%d %H:%M} UTC.")
    if now > ends:
        raise InvalidInput(f"{what} must be valid now; {path} expired on {ends:%Y-%m-%d %H:%M} UTC.")


def find_names(subject: x509.Name) -> list[str]:
    """The common names of a subject, by which callers and signers are known: one, as a rule."""
    return [str(attribute.value) for attribute in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
