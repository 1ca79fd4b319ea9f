"""Signatures: a node signs with the key of its certificate, and others check that against the consortium's CA."""

from collections.abc import Callable
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa

from degroot.exceptions import InvalidInput
from degroot.node.config import IdentityFiles
from degroot.node.tls.files import read_bytes, read_certificates, read_key, validity
from degroot.node.tls.identity import CA, CERTIFICATE, KEY, check_authorities, is_signed_by, names_of

# before what is signed: a signature of one thing is none of another
COPY_CONTEXT, LEDGER_CONTEXT, RECEIPT_CONTEXT = b"degroot model copy\0", b"degroot ledger\0", b"degroot receipt\0"
MAX_CHAIN = 8  # certificates
Checker = Callable[[bytes, bytes, bytes, bytes, str], None]  # context, message, signature, certificate, name: or raises
PSS = padding.PSS(padding.MGF1(hashes.SHA256()), padding.PSS.DIGEST_LENGTH)


def sign(identity: IdentityFiles, context: bytes, message: bytes) -> tuple[bytes, bytes]:
    """The signature of a message, and the certificate that it can be checked with, in PEM."""
    key, message = read_key(identity.key, KEY), context + message
    certificate = read_bytes(identity.certificate, CERTIFICATE)
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return key.sign(message, ec.ECDSA(hashes.SHA256())), certificate
    if isinstance(key, rsa.RSAPrivateKey):
        return key.sign(message, PSS, hashes.SHA256()), certificate
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key.sign(message), certificate
    raise InvalidInput(f"The key must be of an elliptic curve, RSA or Ed25519 to sign; {identity.key} is not.")


def check_signature(
    context: bytes, message: bytes, signature: bytes, certificate: bytes, ca: Path, name: str, *,
    allow_expired: bool = False,
) -> None:  # fmt: skip
    """Raise unless `name`, by a certificate of the CA, has signed the message."""
    authorities = read_certificates(ca, CA)
    try:
        chain = x509.load_pem_x509_certificates(certificate)
        _check_signer(chain, authorities, name)
        if not allow_expired:
            validity(chain[0], f"The certificate of {name!r}", Path(f"{name}.pem"))
            check_authorities(chain, authorities, ca)
        valid = _is_valid(chain[0], signature, context + message)
    except InvalidInput:
        raise
    except Exception as error:  # whatever is wrong with a certificate: its library has many kinds of errors
        raise InvalidInput("A signature must come with its signer's certificate; it does not.") from error
    if not valid:
        raise InvalidInput(f"The signature must be that of {name!r}; it does not hold.")


def make_checker(ca: Path) -> Checker:
    """A check of signatures in records against the CA: they hold, though their certificates may have ended since."""

    def check(context: bytes, message: bytes, signature: bytes, certificate: bytes, name: str) -> None:
        check_signature(context, message, signature, certificate, ca, name, allow_expired=True)

    return check


def _check_signer(chain: list[x509.Certificate], authorities: list[x509.Certificate], name: str) -> None:
    if len(chain) > MAX_CHAIN:
        raise InvalidInput(f"A certificate must come with a chain of at most {MAX_CHAIN}; it has {len(chain)}.")
    if names_of(chain[0]) != [name]:
        raise InvalidInput(f"A signature must be by the certificate of {name[:100]!r}; it is by another's.")
    if not is_signed_by(chain, authorities):
        raise InvalidInput(f"The certificate of {name!r} must be signed by the consortium's CA; it is not.")


def _is_valid(certificate: x509.Certificate, signature: bytes, message: bytes) -> bool:
    key = certificate.public_key()
    try:
        if isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(signature, message, ec.ECDSA(hashes.SHA256()))
        elif isinstance(key, rsa.RSAPublicKey):
            key.verify(signature, message, PSS, hashes.SHA256())
        elif isinstance(key, ed25519.Ed25519PublicKey):
            key.verify(signature, message)
        else:
            return False
    except InvalidSignature:
        return False
    return True
