"""Contents of files of certificates and keys, as TLS takes them: whether they are good is for `identity` to say."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from degroot.exceptions import InvalidInput
from degroot.files.atomic import read_regular

if TYPE_CHECKING:
    from degroot.node.config import IdentityFiles

CERTIFICATE, KEY, CA = "The certificate", "The key", "The CA"


def read_bytes(path: Path, what: str) -> bytes:
    """All of a file that has to be there."""
    try:
        return read_regular(path)
    except OSError as error:
        raise InvalidInput(f"{what} must be a file that can be read; {path}: {error.strerror}.") from error


def channel_credentials(files: "IdentityFiles") -> Any:
    """For channels to servers that have a certificate of the CA.

    Whose it is is checked by the channel's option ``grpc.ssl_target_name_override``, the name in the roster.
    """
    import grpc

    ca, chain, key = read_contents(files)
    return grpc.ssl_channel_credentials(root_certificates=ca, private_key=key, certificate_chain=chain)


def read_contents(files: "IdentityFiles") -> tuple[bytes, bytes, bytes]:
    """The certificate of the CA, the own one and the key, in PEM."""
    return read_bytes(files.ca, CA), read_bytes(files.certificate, CERTIFICATE), read_bytes(files.key, KEY)
