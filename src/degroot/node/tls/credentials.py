"""Credentials: what a running node shows and checks by, taken in anew when the files change.

Certificates are checked when a connection is made. Connections last for weeks, so a node also looks at the
certificates behind those that are open, and ends them when one has expired or was revoked.
"""

import asyncio
import ssl
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import grpc
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from degroot.exceptions import DeGrootError, InvalidInput
from degroot.files.addresses import split
from degroot.files.atomic import find_stamp
from degroot.node.tls import identity
from degroot.node.tls.contents import read_contents
from degroot.node.tls.files import find_names
from degroot.node.tls.roster import SignedRoster
from degroot.node.tls.signing import sign_with

if TYPE_CHECKING:
    from degroot.node.config import IdentityFiles

WARNING_DAYS = 30  # before a certificate expires
MAX_CALLERS = 1024  # whose certificates are remembered
PAUSE_SECONDS = 0.5  # before a server shows a renewed certificate
EXPIRED_CODE = 10  # of OpenSSL's reasons to refuse a certificate
UNREADABLE = "its certificate cannot be read"

Validity = tuple[datetime, datetime]  # when a certificate begins and ends


class Lapsed(DeGrootError):
    """A certificate that was valid is not valid any more."""


@dataclass(frozen=True)
class Identity:
    """A node's certificate, key and CA, which were read and checked together."""

    ca: bytes
    chain: bytes
    key: bytes
    certificate: x509.Certificate
    authorities: tuple[x509.Certificate, ...]
    private_key: PrivateKeyTypes

    @cached_property
    def ca_expires(self) -> datetime:
        """When the certificate of the CA that has issued the node's ends."""
        issuers = [each for each in self.authorities if identity.is_issued_by(self.certificate, each)]
        return max(each.not_valid_after_utc for each in issuers or self.authorities)


class NodeCredentials:
    """A node's identity as it is now, and whose certificates are good.

    Parameters
    ----------
    name : str
        Of the node, for which its certificate has to be.
    """

    def __init__(self, files: "IdentityFiles", name: str) -> None:
        self._files, self._name = files, name
        self._stamps = self._find_stamps()
        self._identity = self._shown = self._read(self._stamps)  # the latter: what a server shows
        self._dropped = set[x509.Certificate]()  # of the CA, which were trusted while the node ran
        self.roster: SignedRoster | None = None
        self.generation = 0  # rises when connections have to be made anew: the own certificate, the CA or the roster
        # by what gRPC gives of a caller: the generation, when its certificate is valid, and why it is refused always
        self._callers: dict[bytes, tuple[int, Validity, str | None]] = {}

    @property
    def certificate(self) -> x509.Certificate:
        """The node's own certificate."""
        return self._identity.certificate

    @property
    def expires(self) -> datetime:
        """When the node's own certificate ends."""
        return self._identity.certificate.not_valid_after_utc

    @property
    def ca_expires(self) -> datetime:
        """When the certificate of the CA that has issued it ends."""
        return self._identity.ca_expires

    @property
    def authorities(self) -> tuple[x509.Certificate, ...]:
        """The certificates of the CA."""
        return self._identity.authorities

    @property
    def serial(self) -> str:
        """The serial number of the node's own certificate, as rosters have it."""
        return f"{self._identity.certificate.serial_number:x}"

    @property
    def is_revoked(self) -> bool:
        """Whether the roster revokes the node's own certificate."""
        return self.roster is not None and self._identity.certificate.serial_number in self.roster.revoked_serials

    def refresh(self, *, force: bool = False) -> bool:
        """Take in the files if they have changed; whether another identity was taken in.

        Raises InvalidInput, and goes on with what was taken in before, where they cannot be used: as long as one of
        two files has been replaced, and after a mistake.
        """
        stamps = self._find_stamps()
        if stamps == self._stamps and not force:
            return False
        fresh, known = self._read(stamps), self._identity
        self._stamps = stamps
        if (fresh.ca, fresh.chain, fresh.key) == (known.ca, known.chain, known.key):
            return False
        self._dropped = (self._dropped | set(known.authorities)) - set(fresh.authorities)
        self._identity = fresh
        self.generation += 1
        return True

    def use_roster(self, roster: SignedRoster) -> None:
        """Go by the revocations of another roster."""
        self.roster = roster
        self.generation += 1

    def sign(self, context: bytes, message: bytes) -> tuple[bytes, bytes]:
        """The signature of a message, and the certificate that it can be checked with, in PEM."""
        known = self._identity
        return sign_with(known.private_key, context + message), known.chain

    def server_credentials(self) -> Any:
        """For a server that lets in only who has a certificate of the CA; new connections see what is taken in."""
        self._shown = self._identity
        return grpc.dynamic_ssl_server_credentials(
            _configure(self._shown), self._show_renewed, require_client_authentication=True
        )

    def channel_credentials(self) -> Any:
        """For channels to servers that have a certificate of the CA, as `contents.channel_credentials`."""
        known = self._identity
        return grpc.ssl_channel_credentials(known.ca, known.key, known.chain)

    def find_lapse(self, certificate: x509.Certificate, now: datetime | None = None) -> str | None:
        """Why a certificate, of a caller or of a peer, is no longer valid; None: it is."""
        return _find_time_lapse(_find_validity(certificate), now) or self._find_revocation(certificate)

    def _find_revocation(self, certificate: x509.Certificate) -> str | None:
        if self.roster is not None and certificate.serial_number in self.roster.revoked_serials:
            return f"its certificate was revoked (roster {self.roster.number})"
        return None

    def find_caller_lapse(self, pem: bytes) -> str | None:
        """The same of a caller's certificate, as gRPC gives it, which is asked for with every message.

        The CA that it is of may have been dropped since the connection was made. The time is looked at anew with every
        message: clocks are put forward and back.
        """
        known = self._callers.get(pem)
        if known is None or known[0] != self.generation:
            try:
                certificate = x509.load_pem_x509_certificate(pem)
            except ValueError:
                return UNREADABLE
            if len(self._callers) >= MAX_CALLERS:
                self._callers.clear()
            refusal = self._find_revocation(certificate) or self._find_dropped_ca(certificate)
            known = self._callers[pem] = self.generation, _find_validity(certificate), refusal
        return _find_time_lapse(known[1]) or known[2]

    def _find_dropped_ca(self, certificate: x509.Certificate) -> str | None:
        """Why a certificate that only former CAs have issued is refused: one that was renewed with its key is none."""
        if not _is_issued_by_any(certificate, self._dropped) or _is_issued_by_any(certificate, self.authorities):
            return None
        return "its certificate is of a CA that is trusted no longer"

    async def look_at(self, address: str, name: str, seconds: float) -> x509.Certificate:
        """The certificate that the node at an address shows, which has to be that of `name`.

        Raises Lapsed where it is not good, and OSError or TimeoutError where nobody can be reached.
        """
        host, port = split(address)
        try:
            async with asyncio.timeout(seconds):
                _, writer = await asyncio.open_connection(
                    host, port, ssl=_make_context(self.authorities), server_hostname=name
                )
        except ssl.SSLCertVerificationError as error:
            reason = "has expired" if error.verify_code == EXPIRED_CODE else f"is not good: {error.verify_message}"
            raise Lapsed(f"its certificate {reason}") from error
        except UnicodeError as error:  # a host that cannot be looked up, such as "a..b"
            raise OSError(f"A host must be one that can be looked up; got {host!r}.") from error
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.transport.abort()
        try:
            certificate = x509.load_der_x509_certificate(shown)
            lapse, names = self.find_lapse(certificate), find_names(certificate.subject)
        except ValueError as error:  # OpenSSL reads certificates that this library does not
            raise Lapsed(UNREADABLE) from error
        if lapse is None and names != [name]:
            lapse = f"its certificate is for {', '.join(map(repr, names)) or 'nobody'}"
        if lapse is not None:
            raise Lapsed(lapse)
        return certificate

    def _show_renewed(self) -> Any:
        """What a server shows from now on, if it is new: gRPC asks, on threads of its own, for every connection.

        gRPC frees what it had although handshakes may be about to use it, and the process ends (its issue 36693). So it
        is given something new only when there is, and after a pause, in which those have gone on.
        """
        known = self._identity
        if known is self._shown:
            return None
        time.sleep(PAUSE_SECONDS)
        self._shown = known
        return _configure(known)

    def _find_stamps(self) -> tuple[Any, ...]:
        return tuple(find_stamp(path) for path in (self._files.ca, self._files.certificate, self._files.key))

    def _read(self, stamps: tuple[Any, ...]) -> Identity:
        """What is in the files, which must still have these stamps afterwards: they may be replaced meanwhile."""
        identity.check(self._files, self._name)
        ca, chain, key = read_contents(self._files)
        if self._find_stamps() != stamps:
            raise InvalidInput("The certificate, the key and the CA must not change while they are read; they did.")
        first, *_ = x509.load_pem_x509_certificates(chain)
        authorities = tuple(x509.load_pem_x509_certificates(ca))
        return Identity(ca, chain, key, first, authorities, load_pem_private_key(key, None))


def _find_validity(certificate: x509.Certificate) -> Validity:
    return certificate.not_valid_before_utc, certificate.not_valid_after_utc


def _find_time_lapse(validity: Validity, now: datetime | None = None) -> str | None:
    """Why a certificate is not valid at a time; None: it is."""
    now, (begins, ends) = datetime.now(UTC) if now is None else now, validity
    if now < begins:
        return f"its certificate is not valid before {begins:%Y-%m-%d %H:%M} UTC"
    return f"its certificate expired on {ends:%Y-%m-%d %H:%M} UTC" if now > ends else None


def _is_issued_by_any(certificate: x509.Certificate, issuers: Iterable[x509.Certificate]) -> bool:
    return any(identity.is_issued_by(certificate, each) for each in issuers)


def _configure(shown: Identity) -> Any:
    return grpc.ssl_server_certificate_configuration([(shown.key, shown.chain)], root_certificates=shown.ca)


@lru_cache(maxsize=2)
def _make_context(authorities: tuple[x509.Certificate, ...]) -> ssl.SSLContext:
    """For a connection that only looks at the certificate of the other side, and shows none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # names of nodes are no host names: the caller compares them
    context.minimum_version = ssl.TLSVersion.TLSv1_3  # in which the server's certificate is known first
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # an authority need not be a root, as with gRPC
    context.load_verify_locations(cadata=b"".join(each.public_bytes(Encoding.DER) for each in authorities))
    context.set_alpn_protocols(["h2"])
    return context
