"""Certificates: each mistake is one line, and mutual TLS lets in who it should and nobody else."""

import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat
from support.authority import server_credentials
from support.refusals import complaint

from degroot.node.config import IdentityFiles
from degroot.node.tls.authority import init_ca, issue
from degroot.node.tls.contents import channel_credentials
from degroot.node.tls.identity import check

NOW = datetime.now(UTC)


def files(folder: Path, name: str) -> IdentityFiles:
    return IdentityFiles(folder / "ca.pem", folder / f"{name}.pem", folder / f"{name}.key")


@pytest.fixture
def consortium(tmp_path: Path) -> Path:
    folder = tmp_path / "keys"
    init_ca(folder, "Hospitals of the coast")
    issue(folder, "north", hosts=["north.example.org", "10.0.0.7", "::1"])
    issue(folder, "south_2")
    return folder


def test_an_issued_certificate_passes_and_tells_when_it_expires(consortium):
    expires = check(files(consortium, "north"), "north")
    assert timedelta(days=364) < expires - NOW <= timedelta(days=366)
    certificate = x509.load_pem_x509_certificate((consortium / "north.pem").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["north", "north.example.org"]
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.7", "::1"]


def test_keys_are_for_their_owners_eyes_only(consortium):
    for name in ("ca", "north"):
        assert stat.S_IMODE((consortium / f"{name}.key").stat().st_mode) == 0o600
    assert {path.name for path in consortium.iterdir()} == {
        "ca.key", "ca.pem", "issued.jsonl", "lock", "north.key", "north.pem", "south_2.key", "south_2.pem",
    }  # fmt: skip


def test_nothing_is_overwritten_without_force(consortium):
    before = {path: path.read_bytes() for path in consortium.iterdir()}
    assert "ca.pem is there already" in complaint(lambda: init_ca(consortium))
    assert "north.pem is there already" in complaint(lambda: issue(consortium, "north"))
    (consortium / "north.pem").rename(consortium / "kept")
    assert "north.key is there already" in complaint(lambda: issue(consortium, "north"))
    (consortium / "kept").rename(consortium / "north.pem")
    assert {path: path.read_bytes() for path in consortium.iterdir()} == before
    issue(consortium, "north", force=True)
    assert (consortium / "north.key").read_bytes() != before[consortium / "north.key"]
    check(files(consortium, "north"), "north")


def test_an_expired_certificate_says_when_and_an_early_one_from_when(consortium):
    north = files(consortium, "north")
    expires = check(north, "north")
    message = complaint(lambda: check(north, "north", expires + timedelta(seconds=1)))
    assert f"expired on {expires:%Y-%m-%d}" in message
    assert "is valid from" in complaint(lambda: check(north, "north", NOW - timedelta(days=2)))
    check(north, "north", NOW - timedelta(hours=12))  # a clock that is late


def test_a_certificate_that_was_issued_long_ago_and_a_ca_that_has_expired(tmp_path):
    past = NOW - timedelta(days=1000)
    init_ca(tmp_path, days=900, now=past)
    issue(tmp_path, "north", days=2000, now=past)
    assert "expired on" in complaint(lambda: check(files(tmp_path, "north"), "north"))
    assert "The CA's certificate must be valid now" in complaint(lambda: issue(tmp_path, "south"))
    expires = check(files(tmp_path, "north"), "north", past)
    assert expires < past + timedelta(days=901)  # never later than its CA


def test_certificates_and_keys_of_others_are_refused(consortium, tmp_path):
    other = tmp_path / "other"
    init_ca(other, "Hospitals of the coast")
    issue(other, "north")
    north, foreign = files(consortium, "north"), files(other, "north")
    mixed = IdentityFiles(north.ca, foreign.certificate, foreign.key)
    assert "must be signed by the CA" in complaint(lambda: check(mixed, "north"))
    mixed = IdentityFiles(north.ca, north.certificate, foreign.key)
    assert "must belong to the certificate" in complaint(lambda: check(mixed, "north"))
    message = complaint(lambda: check(files(consortium, "south_2"), "north"))
    assert "must be for 'north'" in message
    assert "is for 'south_2'" in message


@pytest.mark.parametrize("part", ["ca", "certificate", "key"])
def test_files_that_are_missing_or_something_else(consortium, part):
    north = files(consortium, "north")
    path = getattr(north, part)
    for content in (b"", b"nothing", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"):
        path.write_bytes(content)
        assert f"{path} is none" in complaint(lambda: check(north, "north"))
    path.unlink()
    message = complaint(lambda: check(north, "north"))
    assert "No such file" in message
    assert str(path) in message


def test_a_key_with_a_password_is_refused(consortium):
    north, key = files(consortium, "north"), ec.generate_private_key(ec.SECP256R1())
    north.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")))
    assert "without a password" in complaint(lambda: check(north, "north"))


@pytest.mark.parametrize("name", ["North", "*", "*.org", "", "a b", "x/../y"])
def test_names_that_are_no_names_get_no_certificate(consortium, name):
    assert "small letters" in complaint(lambda: issue(consortium, name))


def test_other_wrong_orders_are_refused(consortium, tmp_path):
    assert "must not be 'ca'" in complaint(lambda: issue(consortium, "ca"))
    assert "without a port" in complaint(lambda: issue(consortium, "west", hosts=["west:7443"]))
    assert "1 to 36500 days" in complaint(lambda: issue(consortium, "west", days=0))
    assert "No such file" in complaint(lambda: issue(tmp_path / "nowhere", "west"))
    assert "1 to 64 characters" in complaint(lambda: init_ca(tmp_path / "long", "x" * 65))
    init_ca(tmp_path / "other")
    (consortium / "ca.key").write_bytes((tmp_path / "other" / "ca.key").read_bytes())
    assert "key must belong to its certificate" in complaint(lambda: issue(consortium, "west"))


# Over the wire.


def greet(_request: bytes, context: grpc.ServicerContext) -> bytes:
    return context.auth_context()["x509_common_name"][0]


@pytest.fixture
def address(consortium: Path) -> Iterator[str]:
    server = grpc.server(ThreadPoolExecutor(2))
    handler = grpc.method_handlers_generic_handler("test", {"greet": grpc.unary_unary_rpc_method_handler(greet)})
    server.add_generic_rpc_handlers((handler,))
    port = server.add_secure_port("127.0.0.1:0", server_credentials(files(consortium, "south_2")))
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


def called(address: str, credentials: grpc.ChannelCredentials | None, expected: str = "south_2") -> str:
    options = [("grpc.ssl_target_name_override", expected)]
    channel = grpc.secure_channel(address, credentials, options) if credentials else grpc.insecure_channel(address)
    with channel:
        return channel.unary_unary("/test/greet")(b"", timeout=60).decode()


def test_members_of_a_consortium_know_each_other_by_name(consortium, address):
    assert called(address, channel_credentials(files(consortium, "north"))) == "north"


def test_who_has_no_certificate_or_one_of_another_ca_is_not_let_in(consortium, address, tmp_path):
    other = tmp_path / "other"
    init_ca(other)
    issue(other, "north")
    foreign = files(other, "north")
    strangers = [
        None,
        grpc.ssl_channel_credentials((consortium / "ca.pem").read_bytes()),
        channel_credentials(IdentityFiles(consortium / "ca.pem", foreign.certificate, foreign.key)),
    ]
    for credentials in strangers:
        with pytest.raises(grpc.RpcError) as caught:
            called(address, credentials)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def test_an_expired_certificate_of_the_same_ca_is_not_let_in(tmp_path):
    past = NOW - timedelta(days=400)
    init_ca(tmp_path, now=past)
    issue(tmp_path, "north", days=30, now=past)
    issue(tmp_path, "south_2", days=800, now=past)
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_secure_port("127.0.0.1:0", server_credentials(files(tmp_path, "south_2")))
    server.start()
    for name, code in (("north", grpc.StatusCode.UNAVAILABLE), ("south_2", grpc.StatusCode.UNIMPLEMENTED)):
        with pytest.raises(grpc.RpcError) as caught:
            called(f"127.0.0.1:{port}", channel_credentials(files(tmp_path, name)))
        assert caught.value.code() is code
    server.stop(None).wait()


def test_a_server_with_another_name_than_the_rosters_is_not_asked(consortium, address):
    with pytest.raises(grpc.RpcError) as caught:
        called(address, channel_credentials(files(consortium, "north")), expected="west")
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
