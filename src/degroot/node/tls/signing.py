"""Signatures: a node signs with the key of its certificate, and others check that against the consortium's CA."""

from collections.abc import Callable, Container, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding

from degroot.exceptions import InvalidInput
from degroot.files.atomic import save_durably
from degroot.node.tls.contents import CA, CERTIFICATE, KEY, read_bytes
from degroot.node.tls.files import check_validity, find_names, read_certificates, read_key
from degroot.node.tls.identity import check_authorities, is_signed_by

if TYPE_CHECKING:
    from degroot.node.config import IdentityFiles

# before what is signed: a signature of one thing is none of another
COPY_CONTEXT, LEDGER_CONTEXT, RECEIPT_CONTEXT = b"degroot model copy\0", b"degroot ledger\0", b"degroot receipt\0"
ROSTER_CONTEXT = b"degroot roster\0"
MAX_CHAIN = 8  # certificates
TRUSTED_FILE = "trusted-cas.pem"  # in the state folder
Signer = Callable[[bytes, bytes], tuple[bytes, bytes]]  # of context and message: signature and certificate
Checker = Callable[[bytes, bytes, bytes, bytes, str], None]  # context, message, signature, certificate, name: or raises
PSS = padding.PSS(padding.MGF1(hashes.SHA256()), padding.PSS.DIGEST_LENGTH)


def sign(identity: "IdentityFiles", context: bytes, message: bytes) -> tuple[bytes, bytes]:
    """The signature of a message, and the certificate that it can be checked with, in PEM."""
    key, certificate = read_key(identity.key, KEY), read_bytes(identity.certificate, CERTIFICATE)
    return sign_with(key, context + message), certificate


def sign_with(key: PrivateKeyTypes, message: bytes) -> bytes:
    """The signature of a message by a key."""
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return key.sign(message, ec.ECDSA(hashes.SHA256()))
    if isinstance(key, rsa.RSAPrivateKey):
        return key.sign(message, PSS, hashes.SHA256())
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key.sign(message)
    raise InvalidInput("The key must be of an elliptic curve, RSA or Ed25519 to sign; it is not.")


def check_signature(
    context: bytes, message: bytes, signature: bytes, certificate: bytes, ca: Path, name: str, *,
    authorities: Iterable[x509.Certificate] = (), allow_expired: bool = False, revoked: Container[int] = (),
) -> None:  # fmt: skip
    """Raise unless `name`, by a certificate of the CA, has signed the message.

    `authorities`: those in the file of the CA, if they were read before. `revoked`: serial numbers of certificates
    whose signatures do not count.
    """
    trusted = list(authorities) or read_certificates(ca, CA)
    chain = _check_by(trusted, context + message, signature, certificate, name)
    if chain[0].serial_number in revoked:
        raise InvalidInput(
            f"A signature must be by a certificate of {name!r} that is not revoked; the signed roster revokes this one "
            f"(serial number {chain[0].serial_number:x})."
        )
    if allow_expired:
        return
    check_validity(chain[0], f"The certificate of {name!r}", Path(f"{name}.pem"))
    check_authorities(chain, trusted, ca)


def make_checker(ca: Path, state: Path | None = None) -> Checker:
    """A check of signatures in records against the CA: they hold, though their certificates may have ended since.

    `state`: the folder of a node's state, which has the certificates of former CAs.
    """
    authorities = read_certificates(ca, CA)
    if state is not None:
        authorities += read_former(state)

    def check(context: bytes, message: bytes, signature: bytes, certificate: bytes, name: str) -> None:
        _check_by(authorities, context + message, signature, certificate, name)

    return check


def read_former(state: Path) -> list[x509.Certificate]:
    """The certificates of all CAs that the node with this state has trusted: records of then go back to them."""
    path = state / TRUSTED_FILE
    return read_certificates(path, "The list of former CAs") if path.exists() else []


def keep_authorities(state: Path, authorities: Iterable[x509.Certificate]) -> None:
    """Add certificates of the CA to those that the node has trusted so far."""
    known = read_former(state)
    fresh = [each for each in authorities if each not in known]
    if fresh:
        save_durably(state / TRUSTED_FILE, b"".join(each.public_bytes(Encoding.PEM) for each in (*known, *fresh)))


def _check_by(
    authorities: list[x509.Certificate], message: bytes, signature: bytes, certificate: bytes, name: str
) -> list[x509.Certificate]:
    """The signer's certificate and its chain, if `name` has signed the message by an authority's certificate."""
    try:
        chain = x509.load_pem_x509_certificates(certificate)
        _check_signer(chain, authorities, name)
        valid = is_signature(chain[0], signature, message)
    except InvalidInput:
        raise
    except Exception as error:  # whatever is wrong with a certificate: its library has many kinds of errors
        raise InvalidInput("A signature must come with its signer's certificate; it does not.") from error
    if not valid:
        raise InvalidInput(f"The signature must be that of {name!r}; it does not hold.")
    return chain


def _check_signer(chain: list[x509.Certificate], authorities: list[x509.Certificate], name: str) -> None:
    if len(chain) > MAX_CHAIN:
        raise InvalidInput(f"A certificate must come with a chain of at most {MAX_CHAIN}; it has {len(chain)}.")
    if find_names(chain[0].subject) != [name]:
        raise InvalidInput(f"A signature must be by the certificate of {name[:100]!r}; it is by another's.")
    if not is_signed_by(chain, authorities):
        raise InvalidInput(f"The certificate of {name!r} must be signed by the consortium's CA; it is not.")


def is_signature(certificate: x509.Certificate, signature: bytes, message: bytes) -> bool:
    """Whether the key of a certificate has signed a message."""
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
