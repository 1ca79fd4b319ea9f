"""The authority of a consortium: its CA, and the certificates that it issues, for requests and for trials."""

import ipaddress
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from degroot.exceptions import InvalidInput
from degroot.files.atomic import PRIVATE, make_folder, save_durably
from degroot.files.lock import wait_for_lock
from degroot.files.toml import Table
from degroot.node.config.names import CA, NEW, check_name
from degroot.node.tls.contents import read_bytes
from degroot.node.tls.files import check_public_key, check_validity, find_names, read_certificates, read_key
from degroot.node.tls.identity import is_issued_by

CA_DAYS, DAYS = 3650, 365
MAX_DAYS = 36_500
MAX_NAME_LENGTH = 64  # of a common name
CLOCK_SLACK = timedelta(days=1)  # certificates are valid a little earlier, for clocks that are late
HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*", re.ASCII)
KEY_USES = (
    "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
    "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
)  # fmt: skip
ISSUED = "issued.jsonl"  # in the CA's folder: what it has issued, and the numbers of its rosters, a line each
ROSTER_NUMBER = "roster"  # of a line there
ROSTER, ROSTER_KEYS = "roster.toml", ("number", "issued", "members", "revoked")  # there, too: see roster.py
RETIRED = "retired"  # a folder in the CA's: the CA before, while certificates of both are in use
OWN_FILES = (f"{CA}.pem", f"{CA}.key", ROSTER, ISSUED, RETIRED)  # of a CA, in its folder
LOCK = "lock"
REQUEST_SUFFIX = ".csr"
PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey


@dataclass(frozen=True, slots=True)
class Authority:
    """A CA with its key, which can sign."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


@dataclass(frozen=True, slots=True)
class NewAuthority:
    """The files of a CA that was made, and the folder to which those of a CA that was there before were moved."""

    certificate: Path
    key: Path
    former: Path | None


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """A certificate that was issued for a request, its file, the fingerprint of its key, and its further hosts."""

    path: Path
    certificate: x509.Certificate
    fingerprint: str
    hosts: tuple[str, ...]
    is_other_key: bool  # than that of the certificate which was in the file before


def lock_ca(folder: Path) -> AbstractContextManager[None]:
    """The folder of a CA, for one command alone: two could sign rosters of the same number. Others wait."""
    read_bytes(folder / f"{CA}.pem", "The CA")  # a folder without one stays as it is
    return _lock(folder)


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    with ExitStack() as stack:
        try:
            wait_for_lock(stack.enter_context((folder / LOCK).open("a")))
            yield
        except OSError as error:
            where = folder if error.filename is None else error.filename
            told = f"A CA's folder must be one that can be written and locked; {where}: {error.strerror}."
            raise InvalidInput(told) from error


def open_authority(folder: Path, now: datetime | None = None) -> Authority:
    """The CA in a folder, whose certificate has to be valid and to belong to its key."""
    path = folder / f"{CA}.key"
    certificate = read_certificates(folder / f"{CA}.pem", "The CA")[0]
    key = read_key(path, "The CA's key")
    check_validity(certificate, "The CA's certificate", folder / f"{CA}.pem", now)
    if key.public_key() != certificate.public_key():
        hint = " Run `degroot keys rotate` again: it was interrupted." if (folder / RETIRED).exists() else ""
        raise InvalidInput(f"The CA's key must belong to its certificate; {path} does not.{hint}")
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise InvalidInput(f"The CA's key must be one of an elliptic curve; {path} is not.")
    return Authority(certificate, key)


def open_authorities(folder: Path, now: datetime | None = None) -> list[Authority]:
    """The CA, and the one before it while that is being replaced and valid: what both sign, everybody can check."""
    authorities, retired = [open_authority(folder, now)], folder / RETIRED
    if retired.exists():
        ends = read_certificates(retired / f"{CA}.pem", "The CA before")[0].not_valid_after_utc
        if ends >= (datetime.now(UTC) if now is None else now):  # later nobody would take its signature
            authorities.append(open_authority(retired, now))
    return authorities


def init_ca(
    folder: Path, name: str = "degroot", days: int = CA_DAYS, force: bool = False, now: datetime | None = None
) -> NewAuthority:
    """Make a consortium's CA: ``ca.pem``, for everybody, and ``ca.key``, for whoever issues certificates.

    With `force` a CA that is there is moved aside: what it has signed does not hold under another.
    """
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_LENGTH or not name.isprintable():
        raise InvalidInput(f"A consortium's name must be 1 to {MAX_NAME_LENGTH} characters; got {name!r}.")
    certificate, key = make_ca(_subject(name), days, now)
    with _lock(make_folder(folder)):
        present = [folder / name for name in OWN_FILES if (folder / name).exists()]
        if present and not force:
            raise InvalidInput(f"A CA must be made where none is; {present[0]} is there already.")
        former = _move_aside(folder, present) if present else None
        return NewAuthority(*_write(_find_paths(folder, CA, force=force), certificate, key), former)


def _move_aside(folder: Path, files: Iterable[Path]) -> Path:
    """Move the files of a CA to a folder beside them: which one."""
    former = make_folder(folder / f"before-{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}", mode=PRIVATE)
    for path in files:
        path.rename(former / path.name)
    return former


def issue(
    folder: Path, name: str, days: int = DAYS, hosts: Sequence[str] = (), force: bool = False,
    now: datetime | None = None,
) -> tuple[Path, Path]:  # fmt: skip
    """Make a certificate for the node or client `name`, and its key, signed by the CA in the folder: for trials."""
    check_name(name)
    key = ec.generate_private_key(ec.SECP256R1())
    with lock_ca(folder):
        certificate = _certify(open_authority(folder, now), folder, name, key.public_key(), hosts, _span(days, now))
        paths = _find_paths(folder, name, force=force)
        _note_issued(folder, name, certificate, hosts)  # first: what is not on the list cannot be revoked
        return _write(paths, certificate, key)


def request_certificate(
    folder: Path, name: str, hosts: Sequence[str] = (), *, new_key: bool = False
) -> tuple[Path, Path, str]:
    """Make a request for a certificate, for the CA to sign: its file, that of the key, and the key's fingerprint.

    The key stays here. One that is there is used again; with `new_key` another is made, beside it until the
    certificate has come (see `find_pending_key`). Without `hosts`, they are those of the request before.
    """
    before = folder / f"{check_name(name)}{REQUEST_SUFFIX}"
    if not hosts and before.exists():
        hosts = _find_hosts(_read_request(before), before)
    alternatives = _alternatives(name, hosts)
    make_folder(folder)
    renews = (folder / f"{name}.key").exists()
    stem = f"{name}{NEW}" if new_key and renews else name
    path = folder / f"{stem}.key"
    is_there = path.exists() if stem == name else find_pending_key(folder, name) is not None
    if is_there:
        key = read_key(path, "The key")
        check_public_key(key.public_key(), "The key", path)
        key = cast(ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey, key)
    else:
        key = ec.generate_private_key(ec.SECP256R1())
        write_file(path, encode_key(key), 0o600)
    builder = x509.CertificateSigningRequestBuilder(_subject(name)).add_extension(alternatives, False)
    signed = builder.sign(key, hashes.SHA256())
    request = folder / f"{stem}{REQUEST_SUFFIX}"
    write_file(request, signed.public_bytes(serialization.Encoding.PEM), 0o644)
    return request, path, fingerprint(key.public_key())


def find_pending_key(folder: Path, name: str) -> Path | None:
    """The key that was made to replace that of `name`, if there is one: not a copy, since then it has replaced it."""
    used, pending = folder / f"{check_name(name)}.key", folder / f"{name}{NEW}.key"
    if not used.exists() or not pending.exists():
        return None
    with suppress(InvalidInput):  # one that cannot be read is no copy
        if read_key(used, "The key").public_key() == read_key(pending, "The key").public_key():
            return None
    return pending


def sign_request(
    folder: Path, request: Path, days: int = DAYS, now: datetime | None = None, *, expected: str | None = None
) -> SignedRequest:
    """Issue the certificate that somebody has requested, if the key has the `expected` fingerprint."""
    read = _read_request(request)
    names = find_names(read.subject)
    name = check_name(names[0] if len(names) == 1 else None, f"{request}: the name of a node or client")
    key = cast(PublicKey, read.public_key())
    check_public_key(key, "The key of a request", request)
    hosts = [host for host in _find_hosts(read, request) if host != name]
    told = fingerprint(key)
    if expected is not None and "".join(expected.split()).lower() != told.replace(" ", ""):
        raise InvalidInput(f"The key must have the fingerprint {expected!r}; that of {request} has {told!r}.")
    with lock_ca(folder):
        certificate = _certify(open_authority(folder, now), folder, name, key, hosts, _span(days, now))
        path = folder / f"{name}.pem"
        is_other_key = _has_other_key(path, key)
        _note_issued(folder, name, certificate, hosts)
        write_file(path, encode(certificate), 0o644)
    return SignedRequest(path, certificate, told, tuple(hosts), is_other_key)


def _has_other_key(path: Path, key: PublicKey) -> bool:
    """Whether there is a certificate in this file, for another key."""
    with suppress(InvalidInput):
        return read_certificates(path, "The certificate")[0].public_key() != key
    return False


def fingerprint(key: PublicKey) -> str:
    """Of a public key, by which two people can compare it on the telephone."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    digest = hashes.Hash(hashes.SHA256())
    digest.update(key.public_bytes(serialization.Encoding.DER, form))
    text = digest.finalize().hex()[:32]
    return " ".join(text[place : place + 4] for place in range(0, len(text), 4))


def check_list(folder: Path) -> None:
    """Refuse a list of certificates that lacks one which is in the folder: others may be lost with it."""
    listed = {serial for _, serial, _ in _read_issued(folder)}
    authorities = read_certificates(folder / f"{CA}.pem", "The CA")
    for path in list_certificates(folder):
        own = [each for each in _read_certificate(path) if any(is_issued_by(each, ca) for ca in authorities)]
        if any(each.serial_number not in listed for each in own):
            raise InvalidInput(
                f"The CA's list must have all certificates, to revoke them; {folder / ISSUED} lacks that in {path}. "
                "Put the list back from a backup, or name each certificate by --certificate FILE."
            )


def _read_certificate(path: Path) -> list[x509.Certificate]:
    """The certificate in a file; none where that is none."""
    with suppress(InvalidInput):
        return read_certificates(path, "The certificate")[:1]
    return []


def list_issued(folder: Path) -> dict[str, list[int]]:
    """The serial numbers of all certificates that the CA has issued, by name, the newest last."""
    issued: dict[str, list[int]] = {}
    for name, serial, _ in _read_issued(folder):
        issued.setdefault(name, []).append(serial)
    for path in list_certificates(folder):  # those of versions that kept no list
        for each in _read_certificate(path):
            known = issued.setdefault(path.stem, [])
            known.extend([each.serial_number] if each.serial_number not in known else [])
    return issued


def list_certificates(folder: Path) -> list[Path]:
    """The files of certificates in the CA's folder, but for its own."""
    return [path for path in sorted(folder.glob("*.pem")) if path.stem != CA]


def _read_issued(folder: Path) -> list[tuple[str, int, list[str]]]:
    """Name, serial number and further hosts of each certificate on the CA's list."""
    return _read_entries(folder)[0]


def _read_entries(folder: Path) -> tuple[list[tuple[str, int, list[str]]], list[int]]:
    """What is on the CA's list: its certificates, as `_read_issued` gives them, and the numbers of its rosters."""
    path, issued, rosters = folder / ISSUED, list[tuple[str, int, list[str]]](), list[int]()
    for number, line in enumerate(_read_list(path).splitlines(), 1):
        try:
            entry = json.loads(line)
            if ROSTER_NUMBER in entry:
                rosters.append(int(entry[ROSTER_NUMBER]))
                continue
            hosts = [str(host) for host in entry.get("hosts", ())]
            issued.append((str(entry["name"]), int(entry["serial"], 16), hosts))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            told = "must have a certificate, or the number of a roster, in every line"
            raise InvalidInput(f"{path} {told}; line {number} is none.") from error
    return issued, rosters


def _read_list(path: Path) -> bytes:
    """The list of certificates, but for a last line that was not written to its end."""
    content = read_bytes(path, "The list of certificates") if path.exists() else b""
    whole, newline, rest = content.rpartition(b"\n")
    try:
        json.loads(rest)
    except ValueError:
        return whole + newline
    return content + b"\n"


def _read_members(folder: Path) -> Collection[str]:
    """The names in the CA's roster, whether or not it has a record of their certificates."""
    path = folder / ROSTER
    members = Table.read(path, ROSTER_KEYS, "roster").entries.get("members", {}) if path.exists() else {}
    return members if isinstance(members, dict) else ()


def _note_issued(folder: Path, name: str, certificate: x509.Certificate, hosts: Sequence[str]) -> None:
    entry = {
        "name": name,
        "serial": f"{certificate.serial_number:x}",
        "until": f"{certificate.not_valid_after_utc:%Y-%m-%dT%H:%M:%SZ}",
        "hosts": list(hosts),
    }
    _add_to_list(folder, entry)


def note_roster(folder: Path, number: int) -> None:
    """Write down that a roster was signed: nodes take in higher numbers only."""
    _add_to_list(folder, {ROSTER_NUMBER: number})


def find_last_roster(folder: Path) -> int:
    """The highest number of a roster that was signed in the CA's folder; 0: none was."""
    return max(_read_entries(folder)[1], default=0)


def _add_to_list(folder: Path, entry: Mapping[str, Any]) -> None:
    path = folder / ISSUED
    write_file(path, _read_list(path) + json.dumps(entry).encode() + b"\n", 0o644)


def _read_request(path: Path) -> x509.CertificateSigningRequest:
    try:
        request = x509.load_pem_x509_csr(read_bytes(path, "The request"))
        is_valid = request.is_signature_valid
    except InvalidInput:
        raise
    except Exception as error:  # whatever is wrong with it: its library has many kinds of errors
        raise InvalidInput(f"The request must be what `degroot keys request` writes; {path} is not.") from error
    if not is_valid:
        raise InvalidInput(f"The request must be signed by its own key; {path} is not.")
    return request


def _find_hosts(request: x509.CertificateSigningRequest, path: Path) -> list[str]:
    """The host names and addresses in a request."""
    try:
        names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    except ValueError as error:  # an extension that cannot be read, or comes twice
        raise InvalidInput(f"The request must be what `degroot keys request` writes; {path} is not.") from error
    addresses = [str(each) for each in names.get_values_for_type(x509.IPAddress)]
    return [*names.get_values_for_type(x509.DNSName), *addresses]


def _certify(
    ca: Authority, folder: Path, name: str, key: PublicKey, hosts: Sequence[str], span: tuple[datetime, datetime]
) -> x509.Certificate:
    """A certificate for `name`, whose key that is; it may not be taken for that of another member."""
    _check_hosts(folder, name, hosts)
    begins, ends = span
    uses = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    builder = (
        _builder(_subject(name), ca.certificate.subject, key, (begins, min(ends, ca.certificate.not_valid_after_utc)))
        .add_extension(_alternatives(name, hosts), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage("digital_signature"), critical=True)
        .add_extension(uses, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca.key.public_key()), critical=False)
    )
    return builder.sign(ca.key, hashes.SHA256())


def _check_hosts(folder: Path, name: str, hosts: Sequence[str]) -> None:
    """Refuse a certificate by which one member's node could be taken for another's: nodes are known by these names."""
    members = {*list_issued(folder), *_read_members(folder)}
    strangers = [host for host in hosts if host.lower() != name and host.lower() in members]
    if strangers:
        raise InvalidInput(
            f"A certificate of {name!r} must not have the name of another member among its hosts; it has "
            f"{strangers[0]!r}."
        )
    for other, _, theirs in _read_issued(folder):
        if other != name and name in map(str.lower, theirs):
            raise InvalidInput(f"A name must not be a host of another member; {name!r} is one of {other!r}.")


def make_ca(subject: x509.Name, days: int, now: datetime | None) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """A CA's certificate, signed by itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        _builder(subject, subject, key.public_key(), _span(days, now))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage("key_cert_sign", "crl_sign"), critical=True)
    )
    return builder.sign(key, hashes.SHA256()), key


def _alternatives(name: str, hosts: Iterable[str]) -> x509.SubjectAlternativeName:
    named = [_host(host) for host in dict.fromkeys(hosts) if host != name]
    return x509.SubjectAlternativeName([x509.DNSName(name), *named])


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _span(days: int, now: datetime | None) -> tuple[datetime, datetime]:
    if not 1 <= days <= MAX_DAYS:
        raise InvalidInput(f"A certificate must be valid for 1 to {MAX_DAYS} days; got {days}.")
    now = datetime.now(UTC) if now is None else now
    return now - CLOCK_SLACK, now + timedelta(days=days)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: PublicKey, span: tuple[datetime, datetime]
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder(issuer, subject, key, x509.random_serial_number())
        .not_valid_before(span[0])
        .not_valid_after(span[1])
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*uses: str) -> x509.KeyUsage:
    return x509.KeyUsage(**{use: use in uses for use in KEY_USES})


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        if not HOST.fullmatch(host):
            raise InvalidInput(f"A host must be a name or an IP address, without a port; got {host!r}.") from None
        return x509.DNSName(host)


def _find_paths(folder: Path, stem: str, *, force: bool) -> tuple[Path, Path]:
    """Where a certificate and its key go; refused where one is already, unless by `force`."""
    paths = folder / f"{stem}.pem", folder / f"{stem}.key"
    for path in paths:
        if path.exists() and not force:
            raise InvalidInput(f"Certificates and keys are not overwritten; {path} is there already.")
    return paths


def _write(
    paths: tuple[Path, Path], certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey
) -> tuple[Path, Path]:  # fmt: skip
    """Write the key, for its owner's eyes only, and then the certificate."""
    write_file(paths[1], encode_key(key), 0o600)
    write_file(paths[0], encode(certificate), 0o644)
    return paths


def encode(certificate: x509.Certificate) -> bytes:
    """A certificate in PEM."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def encode_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A key in PEM, without a password."""
    plain = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)


def write_file(path: Path, content: bytes, mode: int) -> None:
    """Write a file that nobody but those of `mode` can read at any time; it is on the disk when this returns."""
    try:
        save_durably(path, content, mode=mode)
    except OSError as error:
        raise InvalidInput(
            f"Certificates, keys and rosters must go to a folder that can be written; {path}: {error.strerror}."
        ) from error
