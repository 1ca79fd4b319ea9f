"""The authority: keys stay with their owners, requests are signed, and the CA's own key is replaced while in use."""

import json
import os
import shutil
import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import count
from threading import Event

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from hypothesis import given, settings
from hypothesis import strategies as st
from support.authority import end_after, identity_files, load, renew, subject
from support.refusals import complaint

from degroot.exceptions import InvalidInput
from degroot.files.lock import wait_for_lock
from degroot.node.config.names import FORM, LONGEST
from degroot.node.tls.authority import (
    find_pending_key,
    fingerprint,
    init_ca,
    issue,
    list_issued,
    lock_ca,
    open_authorities,
    open_authority,
    request_certificate,
    sign_request,
)
from degroot.node.tls.files import read_certificates
from degroot.node.tls.identity import check, is_issued_by
from degroot.node.tls.roster import FILE, is_signed, read_own, sign_roster, write_roster
from degroot.node.tls.rotation import begin_rotation, find_unrenewed, finish_rotation

NAMES = st.from_regex(FORM, fullmatch=True).filter(lambda name: len(name) <= LONGEST and name != "ca")


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A CA that many examples may sign with."""
    folder = tmp_path_factory.mktemp("shared") / "keys"
    init_ca(folder, "coast")
    return folder


@pytest.fixture
def keys(tmp_path):
    folder = tmp_path / "keys"
    init_ca(folder, "coast")
    return folder


def write_request(path, key, *names, hosts=()):
    """A request as anybody could make it, with any common names and hosts."""
    attributes = [attribute for name in names for attribute in subject(name)]
    alternatives = x509.SubjectAlternativeName([x509.DNSName(each) for each in hosts])
    builder = x509.CertificateSigningRequestBuilder(x509.Name(attributes)).add_extension(alternatives, False)
    signed = builder.sign(key, None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256())
    path.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    return path


# -- requests ----------------------------------------------------------------------------------------------------------


def test_a_key_never_leaves_home_and_its_certificate_passes(tmp_path, keys):
    home = tmp_path / "north"
    request, key, told = request_certificate(home, "north", ["north.example.org", "10.0.0.7"])
    assert {path.name for path in home.iterdir()} == {"north.key", "north.csr"}
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    signed = sign_request(keys, request, 30)
    assert "north.key" not in {path.name for path in keys.iterdir()}
    assert signed.fingerprint == told
    assert signed.hosts == ("north.example.org", "10.0.0.7")
    for path in (keys / "ca.pem", signed.path):
        (home / path.name).write_bytes(path.read_bytes())
    assert check(identity_files(home, "north"), "north") == signed.certificate.not_valid_after_utc


@settings(max_examples=20)
@given(name=NAMES, other=NAMES, days=st.integers(1, 400))
def test_what_is_signed_is_what_was_requested_whoever_asks(shared, tmp_path_factory, name, other, days):
    home = tmp_path_factory.mktemp("home")
    request, _, told = request_certificate(home, name)
    signed = sign_request(shared, request, days)
    assert signed.path.name == f"{name}.pem"
    assert [each.value for each in signed.certificate.subject] == [name]
    assert signed.certificate.not_valid_before_utc < datetime.now(UTC) - timedelta(hours=23)  # clocks may be late
    assert not signed.certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert is_issued_by(signed.certificate, load(shared / "ca.pem"))
    assert list_issued(shared)[name][-1] == signed.certificate.serial_number
    _, _, others = request_certificate(home / "other", other)
    assert others != told  # another key has another fingerprint


def test_a_renewed_certificate_has_the_same_key_or_on_request_another_beside_it(tmp_path, keys):
    home = tmp_path / "north"
    first = sign_request(keys, request_certificate(home, "north")[0])
    again = sign_request(keys, request_certificate(home, "north")[0])
    assert first.fingerprint == again.fingerprint
    assert first.certificate.serial_number != again.certificate.serial_number
    hosts = ["north.example.org", "10.0.0.7"]
    for asked in (hosts, []):  # without any, those of the request before
        assert list(sign_request(keys, request_certificate(home, "north", asked)[0]).hosts) == hosts
    before = (home / "north.key").read_bytes()
    request, key, told = request_certificate(home, "north", new_key=True)
    assert (request.name, key.name) == ("north.new.csr", "north.new.key")
    assert (home / "north.key").read_bytes() == before  # in use until the certificate has come
    assert told != first.fingerprint
    assert sign_request(keys, request).path == keys / "north.pem"


def test_a_key_that_waits_to_replace_another_is_used_again_unless_it_is_a_copy(tmp_path):
    request_certificate(tmp_path, "north", new_key=True)
    assert find_pending_key(tmp_path, "north") is None  # the first key replaces none
    *_, told = request_certificate(tmp_path, "north", new_key=True)
    assert find_pending_key(tmp_path, "north") == tmp_path / "north.new.key"
    assert request_certificate(tmp_path, "north", new_key=True)[-1] == told
    shutil.copyfile(tmp_path / "north.new.key", tmp_path / "north.key")
    assert find_pending_key(tmp_path, "north") is None
    assert request_certificate(tmp_path, "north")[-1] == told
    assert request_certificate(tmp_path, "north", new_key=True)[-1] != told
    (tmp_path / "north.key").write_bytes(b"damaged")
    assert find_pending_key(tmp_path, "north") == tmp_path / "north.new.key"


def test_a_request_for_another_key_is_noticed_and_refused_where_the_fingerprint_is_known(tmp_path, keys):
    request, _, told = request_certificate(tmp_path, "north")
    for expected in (told, told.upper().replace(" ", ""), f" {told}\n"):
        assert not sign_request(keys, request, expected=expected).is_other_key
    before = {path: path.read_bytes() for path in keys.iterdir()}
    other, _, others = request_certificate(tmp_path / "eve", "north")
    for expected in (told, told[:-1], ""):
        message = complaint(lambda expected=expected: sign_request(keys, other, expected=expected))
        assert message == f"The key must have the fingerprint {expected!r}; that of {other} has {others!r}."
    assert {path: path.read_bytes() for path in keys.iterdir()} == before
    assert sign_request(keys, other).is_other_key
    assert not sign_request(keys, other).is_other_key


@pytest.mark.parametrize(
    "make", [lambda: ec.generate_private_key(ec.SECP384R1()), lambda: rsa.generate_private_key(65537, 2048)]
)
def test_keys_of_other_kinds_are_signed(tmp_path, keys, make):
    key = make()
    signed = sign_request(keys, write_request(tmp_path / "request", key, "north"))
    assert signed.certificate.public_key() == key.public_key()
    assert signed.fingerprint == fingerprint(key.public_key())


def test_requests_that_are_none_or_weak_or_for_somebody_else_are_refused(tmp_path, keys):
    path, strong = tmp_path / "request", ec.generate_private_key(ec.SECP256R1())
    request_certificate(tmp_path, "north")
    whole = (tmp_path / "north.csr").read_bytes()
    for content in (b"", b"nothing", whole[:-60], (keys / "ca.pem").read_bytes()):
        path.write_bytes(content)
        assert f"must be what `degroot keys request` writes; {path} is not" in complaint(
            lambda: sign_request(keys, path)
        )
    der = bytearray(x509.load_pem_x509_csr(whole).public_bytes(serialization.Encoding.DER))
    der[der.index(b"north")] ^= 1  # another name, under the same signature
    path.write_bytes(x509.load_der_x509_csr(bytes(der)).public_bytes(serialization.Encoding.PEM))
    assert "must be signed by its own key" in complaint(lambda: sign_request(keys, path))
    for key, problem in (
        (rsa.generate_private_key(65537, 1024), "with at least 2048 bits; that in"),
        (ec.generate_private_key(ec.SECP192R1()), "P-256 or P-384, or RSA"),
        (ec.generate_private_key(ec.SECP521R1()), "is of the curve secp521r1"),  # which the TLS of gRPC does not take
        (ed25519.Ed25519PrivateKey.generate(), "is of the type Ed25519PublicKey"),
        (dsa.generate_private_key(2048), "is of the type DSAPublicKey"),
    ):
        write_request(path, key, "north")
        assert problem in complaint(lambda: sign_request(keys, path))
    for names in ([], ["north", "south"], ["North"], ["../north"], ["ca"]):
        write_request(path, strong, *names)
        assert "name of a node or client must" in complaint(lambda: sign_request(keys, path))
    assert {each.name for each in keys.iterdir()} == {"ca.key", "ca.pem", "lock"}  # nothing was issued
    assert "No such file" in complaint(lambda: sign_request(keys, tmp_path / "nowhere"))


def test_a_list_that_was_lost_revokes_nothing_by_halves(keys):
    """A certificate that is on no list any more, such as one of a stolen key, would be let in."""
    for _ in range(2):
        issue(keys, "south", force=True)
    issue(keys, "west")
    whole = (keys / "issued.jsonl").read_bytes()
    (keys / "issued.jsonl").unlink()
    issue(keys, "south", force=True)
    told = complaint(lambda: write_roster(keys, revoke=["south"]))
    assert told.startswith(f"The CA's list must have all certificates, to revoke them; {keys / 'issued.jsonl'} lacks")
    assert "--certificate FILE" in told
    newest = load(keys / "south.pem").serial_number
    assert write_roster(keys, revoke=["south"], certificates=[keys / "south.pem"]).revoked_serials == {newest}
    (keys / "issued.jsonl").write_bytes(whole + (keys / "issued.jsonl").read_bytes())
    assert len(write_roster(keys, revoke=["south"]).revoked_serials) == 3


def test_a_roster_that_was_lost_at_the_ca_is_missed(keys):
    """Nodes would refuse the low number of another, while whoever revokes a certificate believes that it is done."""
    issue(keys, "west")
    first = write_roster(keys, add=[("west", "a:1")]).content
    write_roster(keys, revoke=["west"])
    (keys / FILE).write_bytes(first)
    told = f"The CA's newest roster must be there, number 2, since nodes refuse lower ones; {keys / FILE} is number 1."
    assert complaint(lambda: write_roster(keys, revoke=["west"])).startswith(told)
    (keys / FILE).unlink()
    assert "roster.toml is missing. Copy it from a node's" in complaint(lambda: write_roster(keys, revoke=["west"]))


@pytest.mark.parametrize("host", ["south", "SOUTH", "South"])
def test_nobody_gets_a_certificate_by_which_it_could_be_taken_for_another(tmp_path, keys, host):
    issue(keys, "south")
    path = write_request(tmp_path / "request", ec.generate_private_key(ec.SECP256R1()), "eve", hosts=[host])
    assert "must not have the name of another member among its hosts" in complaint(lambda: sign_request(keys, path))
    issue(keys, "mallory", hosts=["WEST"])  # before there is one
    assert "'west' is one of 'mallory'" in complaint(lambda: issue(keys, "west"))
    write_roster(keys, add=[("far", "far.example.org:7443")])  # whose certificates are on no list
    assert "it has 'far'" in complaint(lambda: issue(keys, "eve", hosts=["far"]))
    issue(keys, "far")
    for wildcard in ("*", "*.org", "a b"):
        write_request(path, ec.generate_private_key(ec.SECP256R1()), "eve", hosts=[wildcard])
        assert "A host must be a name" in complaint(lambda: sign_request(keys, path))


def test_a_key_that_is_there_must_be_one_that_can_sign(tmp_path):
    for content in (b"nothing", b""):
        (tmp_path / "north.key").write_bytes(content)
        assert "must be a private key in PEM" in complaint(lambda: request_certificate(tmp_path, "north"))
    key = dsa.generate_private_key(2048)
    plain = serialization.NoEncryption()
    (tmp_path / "north.key").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    )
    assert "must be of the elliptic curve P-256 or" in complaint(lambda: request_certificate(tmp_path, "north"))
    with pytest.raises(InvalidInput, match="small letters"):
        request_certificate(tmp_path, "North")


def test_the_list_of_what_was_issued_is_whole_or_refused(keys):
    issue(keys, "north")
    issue(keys, "south")
    serials = {name: [load(keys / f"{name}.pem").serial_number] for name in ("north", "south")}
    assert list_issued(keys) == serials
    (keys / "issued.jsonl").unlink()  # a CA of a version that kept none
    assert list_issued(keys) == serials
    entry = json.dumps({"name": "north", "serial": "1f", "until": "2030-01-01T00:00:00Z"})
    (keys / "issued.jsonl").write_text(entry + "\n")
    assert list_issued(keys)["north"] == [0x1F, *serials["north"]]
    for line in (
        "nothing",
        "[]",
        "{}",
        '{"name": "north", "serial": "xyz"}',
        '{"name": "north", "serial": 7}',
        '{"roster": "x"}',
    ):
        (keys / "issued.jsonl").write_text(f"{entry}\n{line}\n")
        assert "line 2 is none" in complaint(lambda: list_issued(keys))


@pytest.mark.parametrize("cut", [1, 30, 80])
def test_a_line_of_the_list_that_was_not_written_to_its_end_is_left_out(keys, cut):
    issue(keys, "north")
    issue(keys, "south")
    whole = (keys / "issued.jsonl").read_text()
    serials = list_issued(keys)
    (keys / "south.pem").unlink()
    (keys / "issued.jsonl").write_text(whole[:-1])  # but for its end it is whole
    assert list_issued(keys) == serials
    (keys / "issued.jsonl").write_text(whole[: -1 - cut])
    assert list(list_issued(keys)) == ["north"]
    issue(keys, "west")
    first, last = (keys / "issued.jsonl").read_text().splitlines()
    assert first == whole.splitlines()[0]
    assert json.loads(last)["name"] == "west"


def test_commands_that_write_to_the_folder_come_one_after_the_other(keys, monkeypatch):
    waits = Event()

    def wait(file):
        waits.set()
        wait_for_lock(file)

    with ThreadPoolExecutor(1) as pool:
        with lock_ca(keys):
            monkeypatch.setattr("degroot.node.tls.authority.wait_for_lock", wait)
            other = pool.submit(write_roster, keys, add=[("south", "b:1")])
            assert waits.wait(60)
            assert sign_roster(keys, add=[("north", "a:1")]).number == 1
        assert other.result(60).number == 2
    assert set(read_own(keys).members) == {"north", "south"}
    for act in (
        lambda: issue(keys, "west"),
        lambda: renew(keys, "west"),
        lambda: begin_rotation(keys),
        lambda: finish_rotation(keys, force=True),
        lambda: init_ca(keys, force=True),
    ):
        waits.clear()
        act()
        assert waits.is_set()


def test_another_ca_in_the_same_folder_begins_without_what_the_one_before_has_signed(keys):
    issue(keys, "north")
    write_roster(keys, add=[("north", "a:1")])
    begin_rotation(keys)
    before = {path.name: path.read_bytes() for path in keys.iterdir() if path.is_file()}
    assert "ca.pem is there already" in complaint(lambda: init_ca(keys))
    former = init_ca(keys, force=True).former
    assert former.parent == keys
    assert former.name.startswith("before-20")
    assert {path.name for path in former.iterdir()} == {"ca.pem", "ca.key", FILE, "issued.jsonl", "retired"}
    assert all(before[path.name] == path.read_bytes() for path in former.iterdir() if path.is_file())
    assert stat.S_IMODE(former.stat().st_mode) == 0o700
    assert write_roster(keys, add=[("north", "a:1")]).number == 1
    write_roster(keys, revoke=["north"])
    renew(keys, "north")
    begin_rotation(keys)
    (keys / "ca.pem").unlink()
    assert "ca.key is there already" in complaint(lambda: init_ca(keys))
    again = init_ca(keys, force=True).former
    assert again != former
    assert read_own(former).number == 2  # all that it needs is with it


# -- the CA's own key --------------------------------------------------------------------------------------------------


def test_the_key_of_the_ca_is_replaced_step_by_step(keys):
    for name in ("north", "south"):
        issue(keys, name)
    write_roster(keys, add=[("north", "north.example.org:7443"), ("south", "south.example.org:7443")])
    first = load(keys / "ca.pem")
    assert begin_rotation(keys) == keys / "ca.pem"
    second, *others = x509.load_pem_x509_certificates((keys / "ca.pem").read_bytes())
    assert others == [first]
    assert second.subject == first.subject
    assert second.public_key() != first.public_key()
    assert [each.certificate for each in open_authorities(keys)] == [second, first]
    assert read_own(keys).number == 2  # signed again: by both
    check(identity_files(keys, "north"), "north")  # of the CA before, which is trusted still
    renew(keys, "north")
    check(identity_files(keys, "north"), "north")
    assert is_issued_by(load(keys / "north.pem"), second)
    assert find_unrenewed(keys) == ["south"]
    message = complaint(lambda: finish_rotation(keys))
    assert "must be of the new CA before the old one is dropped; those of south are not" in message
    renew(keys, "south")
    finish_rotation(keys)
    assert x509.load_pem_x509_certificates((keys / "ca.pem").read_bytes()) == [second]
    assert [each.certificate for each in open_authorities(keys)] == [second]
    for name in ("north", "south"):
        check(identity_files(keys, name), name)
    assert read_own(keys).number == 2  # it holds under the new CA alone
    assert write_roster(keys, remove=["south"]).number == 3
    begin_rotation(keys)  # and the next one


def test_rotations_come_one_at_a_time_and_may_leave_somebody_behind(keys):
    assert "There must be a rotation to finish" in complaint(lambda: finish_rotation(keys))
    issue(keys, "north")
    issue(keys, "south")
    begin_rotation(keys)
    assert "must be finished before the next" in complaint(lambda: begin_rotation(keys))
    write_roster(keys, revoke=["south"])
    assert find_unrenewed(keys) == ["north"]  # who is revoked need not be renewed
    finish_rotation(keys, force=True)
    assert "must be signed by the CA" in complaint(lambda: check(identity_files(keys, "north"), "north"))


class PowerCut(BaseException):
    """It ends a command wherever it is, and is no error that could be handled."""


def cut_power(monkeypatch, act, step):
    """Whether `act` was ended before the change of the disk with this number; false: it makes fewer."""
    steps = count()

    def until_cut(change):
        def changing(*arguments, **settings):
            if next(steps) == step:
                raise PowerCut
            return change(*arguments, **settings)

        return changing

    with monkeypatch.context() as patch:
        for name in ("fsync", "mkdir", "rename", "replace", "rmdir", "unlink"):
            patch.setattr(os, name, until_cut(getattr(os, name)))
        try:
            act()
        except PowerCut:
            return True
    return False


def copies(folder, tmp_path, monkeypatch):
    """The CA as it is now, again and again; nothing waits for the disk."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    for number in count():
        yield number, shutil.copytree(folder, tmp_path / f"copy{number}")


def test_a_rotation_that_was_cut_off_anywhere_goes_on_when_it_is_run_again(keys, tmp_path, monkeypatch):
    write_roster(keys, add=[("north", "a:1")])
    first = load(keys / "ca.pem")
    for step, folder in copies(keys, tmp_path, monkeypatch):
        if not cut_power(monkeypatch, lambda folder=folder: begin_rotation(folder), step):
            break
        try:
            finish_rotation(folder, force=True)
        except InvalidInput:  # nothing is dropped before the new CA has taken its place
            begin_rotation(folder)
            second, before = read_certificates(folder / "ca.pem", "The CA")
            assert before == first
            assert [each.certificate for each in open_authorities(folder)] == [second, first]
            assert all(is_signed(read_own(folder).content, [each]) for each in (first, second))
            assert read_own(folder).number == 2
            finish_rotation(folder, force=True)
        assert load(folder / "ca.pem") != first
        assert write_roster(folder).number == 3
    assert step > 20


def test_the_end_of_a_rotation_that_was_cut_off_anywhere_comes_when_it_is_run_again(keys, tmp_path, monkeypatch):
    write_roster(keys, add=[("north", "a:1")])
    begin_rotation(keys)
    second = load(keys / "ca.pem")
    for step, folder in copies(keys, tmp_path, monkeypatch):
        if not cut_power(monkeypatch, lambda folder=folder: finish_rotation(folder), step):
            break
        open_authorities(folder)
        finish_rotation(folder)
        assert read_certificates(folder / "ca.pem", "The CA") == [second]
        assert {path.name for path in folder.iterdir()} == {"ca.pem", "ca.key", FILE, "issued.jsonl", "lock"}
        assert write_roster(folder).number == 3
    assert step > 5
    shutil.copytree(keys / "retired", keys / "retired.old")  # left by an end before, which was never run again
    finish_rotation(keys)
    assert "There must be a rotation to finish" in complaint(lambda: finish_rotation(keys))


def test_between_two_keys_a_ca_signs_nothing_and_says_how_to_go_on(keys):
    before = (keys / "ca.pem").read_bytes()
    begin_rotation(keys)
    (keys / "ca.pem").write_bytes(before)
    for act in (lambda: issue(keys, "north"), lambda: write_roster(keys, add=[("north", "a:1")])):
        assert "ca.key does not. Run `degroot keys rotate` again: it was interrupted." in complaint(act)
    assert "that was interrupted. Run `degroot keys rotate` again" in complaint(
        lambda: finish_rotation(keys, force=True)
    )
    begin_rotation(keys)
    issue(keys, "north")


def test_a_retired_ca_that_is_damaged_is_told(keys):
    begin_rotation(keys)
    for name in ("ca.key", "ca.pem"):
        whole = (keys / "retired" / name).read_bytes()
        for content in (b"damaged", None):
            (keys / "retired" / name).write_bytes(content) if content else (keys / "retired" / name).unlink()
            assert f"retired/{name}" in complaint(lambda: write_roster(keys, add=[("north", "a:1")]))
        (keys / "retired" / name).write_bytes(whole)
    assert write_roster(keys, add=[("north", "a:1")]).number == 1


def test_a_retired_ca_that_has_ended_signs_no_more(keys, tmp_path):
    past = datetime.now(UTC) - timedelta(days=100)
    folder = tmp_path / "old"
    init_ca(folder, days=99, now=past)
    begin_rotation(folder, now=past)
    assert len(open_authorities(folder, past)) == 2
    assert len(open_authorities(folder)) == 1
    (keys / "ca.key").write_bytes((folder / "ca.key").read_bytes())
    assert "must belong to its certificate" in complaint(lambda: begin_rotation(keys))
    assert "No such file" in complaint(lambda: open_authority(tmp_path / "nowhere"))


def test_files_of_members_cannot_take_the_place_of_the_retired_ca(keys):
    begin_rotation(keys)
    retired = {path.name: path.read_bytes() for path in (keys / "retired").iterdir()}
    issue(keys, "retired")
    issue(keys, "ca-retired")
    assert {path.name: path.read_bytes() for path in (keys / "retired").iterdir()} == retired


def test_a_short_certificate_for_tests_ends_when_it_should(keys):
    ends = end_after(keys, "north", 75)
    assert load(keys / "north.pem").not_valid_after_utc == ends
    check(identity_files(keys, "north"), "north", ends - timedelta(seconds=1))
    assert "expired on" in complaint(lambda: check(identity_files(keys, "north"), "north", ends + timedelta(seconds=1)))
    assert (keys / FILE).exists() is False
